"""`headrace plugins`: a plugin's folder appears whole or not at all, once, and only what was installed is removed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.config.plugin_path.java_release import JavaNeed
from headrace.config.plugin_path.locations import UNFINISHED
from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.cli import plugin_install
from headrace.worker.cli.commands import app
from headrace.worker.cli.plugin_lock import LOCK
from headrace.worker.cli.unfinished import unfinished_in
from headrace.worker.machine.maven import Coordinates, UnknownArtifactError
from tests.made_jars import SOURCE, class_file, jar

ARTIFACT, NAME = "org.example:one:1.0", "one-1.0"
ONE = "org.example.OneSource"


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Coordinates]:
    """The coordinates that were fetched; each fetch gives one jar."""
    calls: list[Coordinates] = []

    def fetch_into(wanted: Coordinates, folder: Path, repositories: Sequence[str] = ()) -> list[Path]:
        calls.append(wanted)
        return [jar(folder / "one.jar", {ONE: class_file(ONE, SOURCE)}, {SOURCE: ONE})]

    monkeypatch.setattr(plugin_install, "fetch_into", fetch_into)
    monkeypatch.delenv("CONNECT_PLUGIN_PATH", raising=False)
    return calls


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["plugins", *arguments])
    return result.exit_code, result.output


def test_a_plugin_is_fetched_once_listed_and_removed(fetched: list[Coordinates], tmp_path: Path) -> None:
    where = ("--plugin-path", str(tmp_path / "path"))
    code, told = run("install", ARTIFACT, *where)
    assert (code, len(fetched)) == (0, 1)
    assert f"was installed in {tmp_path / 'path' / NAME}" in told
    assert f"source\t{ONE}" in told
    assert sorted(one.name for one in (tmp_path / "path" / NAME).iterdir()) == [plugin_install.RECORD, "one.jar"]
    code, told = run("install", ARTIFACT, *where)
    assert (code, len(fetched)) == (0, 1)
    assert "is installed already" in told
    assert f"{NAME}\t{ARTIFACT}" in run("list", *where)[1]
    assert run("remove", NAME, *where)[0] == 0
    assert list((tmp_path / "path").iterdir()) == []


def test_jars_beside_a_plugin_share_its_folder_and_none_of_a_library_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gives = {
        "org.example:one:1.0": ["one-1.0.jar", "lib/json-2.21.jar"],
        "org.x:driver:8": ["driver-8.jar", "json-1.9.jar", "log-3-beta1.jar"],
        "org.x:more:1": ["deep/more-1.jar", "log-2.jar"],
    }
    calls: list[str] = []

    def fetch_into(wanted: Coordinates, folder: Path, repositories: Sequence[str] = ()) -> list[Path]:
        calls.append(str(wanted))
        for name in gives[str(wanted)]:
            (folder / name).parent.mkdir(exist_ok=True)
            jar(folder / name)
        return sorted(folder.rglob("*.jar"))

    monkeypatch.setattr(plugin_install, "fetch_into", fetch_into)
    where = ("--plugin-path", str(tmp_path))
    code, told = run("install", ARTIFACT, *where, "--with", "org.x:driver:8")
    assert (code, sorted(calls)) == (0, [ARTIFACT, "org.x:driver:8"])
    assert f"{ARTIFACT} with org.x:driver:8 was installed" in told
    jars = ["driver-8.jar", "json-2.21.jar", "log-3-beta1.jar", "one-1.0.jar"]
    assert sorted(one.name for one in (tmp_path / NAME).rglob("*.jar")) == jars
    assert "installed already" in run("install", ARTIFACT, *where, "--with", "org.x:driver:8")[1]
    assert "installed already" in run("install", ARTIFACT, *where)[1]
    code, told = run("install", ARTIFACT, *where, "--with", "org.x:driver:8", "--with", "org.x:more:1")
    assert (code, calls[2:]) == (0, ["org.x:more:1"])
    assert sorted(one.name for one in (tmp_path / NAME).rglob("*.jar")) == sorted([*jars, "more-1.jar"])
    assert f"{NAME}\t{ARTIFACT} with org.x:driver:8, org.x:more:1" in run("list", *where)[1]
    assert sorted(one.name for one in tmp_path.iterdir()) == [LOCK, NAME]


def test_what_cannot_be_had_beside_a_plugin_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch_into(wanted: Coordinates, folder: Path, repositories: Sequence[str] = ()) -> list[Path]:
        if wanted.artifact == "driver":
            raise UnknownArtifactError("no such driver")
        return [jar(folder / "one.jar")]

    monkeypatch.setattr(plugin_install, "fetch_into", fetch_into)
    code, told = run("install", ARTIFACT, "--plugin-path", str(tmp_path), "--with", "org.x:driver:8")
    assert (code, list(tmp_path.iterdir())) == (1, [])
    assert "no such driver" in told


def test_another_version_beside_it_is_told(fetched: list[Coordinates], tmp_path: Path) -> None:
    where = ("--plugin-path", str(tmp_path))
    assert run("install", ARTIFACT, *where)[0] == 0
    assert "one-1.0 is installed, too" in run("install", "org.example:one:1.1", *where)[1]


def test_a_folder_that_is_something_else_is_left_alone(fetched: list[Coordinates], tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    code, told = run("install", ARTIFACT, "--plugin-path", str(tmp_path))
    assert (code, fetched) == (2, [])
    assert "is there already" in told
    for name in (NAME, "..", "gone"):
        assert run("remove", name, "--plugin-path", str(tmp_path))[0] == 2
    assert (tmp_path / NAME).is_dir()


@pytest.mark.parametrize(
    ("error", "code"),
    [(UnknownArtifactError("no such artifact"), 1), (Unavailable("no network"), 3), (OSError("disk is full"), 3)],
)
def test_a_failed_fetch_leaves_nothing(
    error: Exception, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch_into(wanted: Coordinates, folder: Path, repositories: Sequence[str] = ()) -> list[Path]:
        jar(folder / "half.jar")
        raise error

    monkeypatch.setattr(plugin_install, "fetch_into", fetch_into)
    ended, told = run("install", ARTIFACT, "--plugin-path", str(tmp_path))
    assert ended == code
    assert str(error) in told
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named_with_what_to_do(
    fetched: list[Coordinates], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path or mode == os.R_OK)
    for what in (ARTIFACT, "tap-one"):
        code, told = run("install", what, "--plugin-path", str(tmp_path))
        assert (code, list(tmp_path.iterdir())) == (3, [])
        assert f"{tmp_path} cannot be written" in told
        assert "mounted writable" in told


def test_what_a_killed_installation_left_is_removed_and_what_a_running_one_makes_is_not(
    fetched: list[Coordinates], tmp_path: Path
) -> None:
    left = tmp_path / f"{UNFINISHED}dead"
    (left / "plugin").mkdir(parents=True)
    (tmp_path / f"{UNFINISHED}file").touch()
    with unfinished_in(tmp_path) as running:
        assert not left.exists()
        assert run("install", ARTIFACT, "--plugin-path", str(tmp_path))[0] == 0
        assert sorted(one.name for one in tmp_path.iterdir()) == sorted([running.name, LOCK, NAME])
    assert sorted(one.name for one in tmp_path.iterdir()) == [LOCK, NAME]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_installation_that_is_ended_leaves_nothing(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch_into(wanted: Coordinates, folder: Path, repositories: Sequence[str] = ()) -> list[Path]:
        jar(folder / "half.jar")
        os.kill(os.getpid(), number)
        time.sleep(0.2)
        return []

    monkeypatch.setattr(plugin_install, "fetch_into", fetch_into)
    before = signal.getsignal(number)
    assert run("install", ARTIFACT, "--plugin-path", str(tmp_path))[0] == 128 + number
    assert (list(tmp_path.iterdir()), signal.getsignal(number)) == ([], before)


def test_the_java_that_a_plugin_needs_is_read_once_and_again_if_its_jars_change(
    fetched: list[Coordinates], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[Path]] = []
    whole = plugin_install.java_need

    def counted(jars: Iterable[Path]) -> JavaNeed | None:
        read.append(sorted(jars))
        return whole(read[-1])

    monkeypatch.setattr(plugin_install, "java_need", counted)
    where = ("--plugin-path", str(tmp_path), "--for-java", "17")
    assert "needs Java 17 (by one.jar)" in run("install", ARTIFACT, *where)[1]
    assert "needs Java 17 (by one.jar)" in run("list", *where)[1]
    assert len(read) == 1
    jar(tmp_path / NAME / "by-hand.jar", {ONE: class_file(ONE, java=21)})
    assert "needs Java 21 (by by-hand.jar)" in run("list", *where)[1]
    assert len(read) == 2


def test_wrong_use_is_told(fetched: list[Coordinates], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, told = run("install", "postgres", "--plugin-path", str(tmp_path))
    assert code == 2
    assert "GROUP:ARTIFACT:VERSION" in told
    code, told = run("install", ARTIFACT)
    assert code == 2
    assert "--plugin-path" in told
    monkeypatch.setenv("CONNECT_PLUGIN_PATH", f"{tmp_path / 'first'},{tmp_path / 'second'}")
    assert run("install", ARTIFACT)[0] == 0
    assert (tmp_path / "first" / NAME).is_dir()
