"""A plugin's archive is taken where there is one, else its jars; errors name what is missing. Ivy is played."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.worker.machine import plugin_archives
from headrace.worker.machine.jars import Unavailable
from headrace.worker.machine.plugin_archives import Coordinates, UnknownArtifactError, fetch_into

WANTED = Coordinates("org.example", "one", "1.0")
JARS = ("one-1.0.jar", "needed-2.0.jar", "kafka-clients-4.3.1.jar", "connect-api-4.3.1.jar", "slf4j-api-1.7.36.jar")
NOT_FOUND = ["\t\t:: org.example#one;1.0: not found\n"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(plugin_archives, "ivy_command", lambda folder, settings, module: [str(folder), module])
    (tmp_path / "into").mkdir()
    return tmp_path / "cache"


def play(monkeypatch: pytest.MonkeyPatch, *, archive: str = "", jars: Sequence[str] = (), lines: list[str]) -> None:
    """Ivy that has this archive, and lays these jars down where it is asked to retrieve."""

    def run(command: Sequence[str]) -> tuple[int, list[str]]:
        folder, module = Path(command[0]), command[1]
        if "-retrieve" in command:
            for name in jars:
                Path(command[-1]).with_name(name).touch()
            return (0 if jars else 1), lines
        if archive and f'ext="{archive}"' in module:
            packed(folder / "org.example" / "one" / f"one-1.0-plugin.{archive}")
            return 0, []
        return 1, lines

    monkeypatch.setattr(plugin_archives, "_run", run)


def packed(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as tape:
        for name in JARS:
            tape.addfile(tarfile.TarInfo(f"one/{name}"), io.BytesIO())


def test_an_archive_is_unpacked_without_its_top_folder_and_without_shared_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, archive="tar.gz", lines=NOT_FOUND)
    names = [one.name for one in fetch_into(WANTED, tmp_path / "into")]
    assert names == ["needed-2.0.jar", "one-1.0.jar"]
    assert sorted(one.name for one in (tmp_path / "into").iterdir()) == names


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


@pytest.mark.parametrize("text", ["", "one", "org:one", "org:one:1:2", "org:one:", "../x:one:1", "org:one:1/2"])
def test_what_names_no_artifact_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="GROUP:ARTIFACT:VERSION"):
        Coordinates.parse(text)


def test_coordinates_read_as_they_were_written() -> None:
    assert str(Coordinates.parse("io.debezium:debezium-connector-postgres:3.5.0.Final")).endswith(":3.5.0.Final")
