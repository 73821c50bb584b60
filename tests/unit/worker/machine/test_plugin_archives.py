"""A plugin's archive is taken where there is one, else its jars; errors name what is missing. Ivy is played."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.machine import plugin_archives
from headrace.worker.machine.maven import Coordinates, UnknownArtifactError
from headrace.worker.machine.plugin_archives import fetch_into

WANTED = Coordinates("org.example", "one", "1.0")
JARS = ("one-1.0.jar", "needed-2.0.jar", "kafka-clients-4.3.1.jar", "connect-api-4.3.1.jar", "slf4j-api-1.7.36.jar")
NOT_FOUND = ["\t\t:: org.example#one;1.0: not found\n"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(plugin_archives, "ivy_command", lambda folder, settings, module: [str(folder), module])
    (tmp_path / "into").mkdir()
    return tmp_path / "cache"


def play(
    monkeypatch: pytest.MonkeyPatch,
    *,
    archives: Mapping[str, Sequence[str]] | None = None,
    jars: Sequence[str] = (),
    lines: list[str],
) -> None:
    """Ivy that has these archives, by the ends of their names, and lays these jars down where it is to retrieve."""

    def run(command: Sequence[str]) -> tuple[int, list[str]]:
        folder, module = Path(command[0]), command[1]
        if "-retrieve" in command:
            for name in jars:
                Path(command[-1]).with_name(name).touch()
            return (0 if jars else 1), lines
        for end, names in (archives or {}).items():
            classifier, _, kind = end.partition(".")
            named = f' m:classifier="{classifier[1:]}"' if classifier else ""
            if f'ext="{kind}"{named}/>' in module:
                packed(folder / "org.example" / "one" / f"one-1.0{end}", names)
        return 1, lines  # as Ivy ends where one of those asked for is not there

    monkeypatch.setattr(plugin_archives, "run_ivy", run)


def packed(path: Path, names: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name in names:
                packed.writestr(f"one/{name}", b"")
        return
    with tarfile.open(path, "w:gz") as tape:
        for name in names:
            tape.addfile(tarfile.TarInfo(f"one/{name}"), io.BytesIO())


@pytest.mark.parametrize("end", ["-plugin.tar.gz", "-plugin.zip", "-package.tar.gz", ".tar.gz", ".zip"])
def test_an_archive_is_unpacked_without_its_top_folder_and_without_shared_jars(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, archives={end: JARS}, lines=NOT_FOUND)
    names = [one.name for one in fetch_into(WANTED, tmp_path / "into")]
    assert names == ["needed-2.0.jar", "one-1.0.jar"]
    assert sorted(one.name for one in (tmp_path / "into").iterdir()) == names


def test_an_archive_that_says_plugin_is_preferred_and_one_without_jars_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, archives={".tar.gz": ["two.jar"], "-plugin.tar.gz": ["one.jar"]}, lines=NOT_FOUND)
    assert [one.name for one in fetch_into(WANTED, tmp_path / "into")] == ["one.jar"]
    play(monkeypatch, archives={".tar.gz": ["README"]}, jars=["three.jar"], lines=NOT_FOUND)
    (tmp_path / "other").mkdir()
    assert [one.name for one in fetch_into(WANTED, tmp_path / "other")] == ["three.jar"]


def test_a_damaged_archive_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: Sequence[str]) -> tuple[int, list[str]]:
        Path(command[0], "one-1.0-plugin.tar.gz").write_bytes(b"not packed")
        return 1, NOT_FOUND

    monkeypatch.setattr(plugin_archives, "run_ivy", run)
    with pytest.raises(Unavailable, match=r"one-1\.0-plugin\.tar\.gz cannot be unpacked"):
        fetch_into(WANTED, tmp_path / "into")


def test_without_an_archive_the_jar_and_what_it_needs_are_taken(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, jars=JARS, lines=NOT_FOUND)
    assert [one.name for one in fetch_into(WANTED, tmp_path / "into")] == ["needed-2.0.jar", "one-1.0.jar"]
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("lines", "error", "told"),
    [
        (NOT_FOUND, UnknownArtifactError, "has no org.example:one:1.0"),
        (
            ["\t\t:: org.x#lib;9: not found\n"],
            UnknownArtifactError,
            "lacks what org.example:one:1.0 needs: org.x:lib:9",
        ),
        (["\t\t:: org.x#lib;9!lib.jar\n"], UnknownArtifactError, "needs: org.x:lib:9"),
        (
            [
                "\tio problem (java.io.IOException: Impossible to load parent for file. Parent=org.x#top;9)\n",
                *NOT_FOUND,
            ],
            UnknownArtifactError,
            "lacks what org.example:one:1.0 needs: org.x:top:9",
        ),
        (["java.net.UnknownHostException: there\n"], Unavailable, "Check the network"),
        (["Exception in thread main: NoClassDefFoundError\n"], Unavailable, "NoClassDefFoundError"),
        ([], Unavailable, "it said nothing"),
    ],
)
def test_what_is_missing_is_said(
    lines: list[str], error: type[Exception], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, lines=lines)
    with pytest.raises(error, match=told):
        fetch_into(WANTED, tmp_path / "into")
