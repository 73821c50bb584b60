"""`headrace plugins install tap-…`: an environment for each tap or target, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.worker.cli import singer_install
from headrace.worker.cli.commands import app
from tests.fake_pip import FakePip, locked

SCRIPTS = {"some-tap-two": ["other", "tap-two"], "tap-three": ["three-cli"], "tap-none": []}


@pytest.fixture
def pip(fake_pip: FakePip) -> FakePip:
    fake_pip.scripts, fake_pip.refuses = SCRIPTS, "tap-nowhere"
    return fake_pip


def run(path: Path, command: str, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["plugins", command, *arguments, "--plugin-path", str(path)])
    return result.exit_code, result.output


def test_a_tap_is_installed_once_listed_and_removed(pip: FakePip, tmp_path: Path) -> None:
    code, told = run(tmp_path, "install", "tap-one==1.0", "--with", "setuptools<81", "--python", "python3.9")
    assert code == 0, told
    assert f"was installed in {tmp_path / 'tap-one'}" in told
    assert pip.calls[0] == ["python3.9", "-m", "venv", str(tmp_path / "tap-one/env")]
    (resolving,) = [one for one in pip.calls if list(one[-2:]) == ["tap-one==1.0", "setuptools<81"]]
    assert {"--dry-run", "--ignore-installed"} <= set(resolving)
    assert pip.installed == list(map(locked, ["requests==2.32.0", "tap-one==1.0", "setuptools==65.5.0"]))
    record = json.loads((tmp_path / "tap-one/headrace-plugin.json").read_text())
    assert record == {
        "coordinates": "tap-one==1.0",
        "beside": ["setuptools<81"],
        "executable": "tap-one",
        "packages": pip.installed,
    }
    again, before = ("tap-one==1.0", "--with", "setuptools<81"), len(pip.calls)
    assert "is installed already" in run(tmp_path, "install", *again)[1]
    assert len(pip.calls) == before
    assert "tap-one\ttap-one==1.0 with setuptools<81" in run(tmp_path, "list")[1]
    code, told = run(tmp_path, "install", "tap-one==2.0")
    assert (code, "remove it first" in told) == (2, True)
    assert run(tmp_path, "remove", "tap-one")[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_a_pip_that_cannot_say_what_it_would_install_is_replaced_first(pip: FakePip, tmp_path: Path) -> None:
    pip.there = {"pip": "20.3.4"}
    assert run(tmp_path, "install", "tap-one")[0] == 0
    upgraded, resolved = (
        [number for number, call in enumerate(pip.calls) if word in call] for word in ("--upgrade", "--report")
    )
    assert upgraded < resolved
    assert pip.installed == list(map(locked, ["requests==2.32.0", "tap-one==1.0"]))


def test_what_python_carries_and_the_index_lacks_is_locked_by_its_version(pip: FakePip, tmp_path: Path) -> None:
    pip.refuses = "setuptools==65.5.0"
    assert run(tmp_path, "install", "tap-one")[0] == 0
    assert pip.installed == [*map(locked, ["requests==2.32.0", "tap-one==1.0"]), "setuptools==65.5.0"]


@pytest.mark.parametrize(("name", "executable"), [("some-tap-two", "tap-two"), ("tap-three", "three-cli")])
def test_the_executable_is_found_among_those_of_the_package(
    pip: FakePip, tmp_path: Path, name: str, executable: str
) -> None:
    assert run(tmp_path, "install", name)[0] == 0
    assert json.loads((tmp_path / name / "headrace-plugin.json").read_text())["executable"] == executable


@pytest.mark.parametrize("name", ["tap-nowhere", "tap-none"])
def test_a_failed_installation_leaves_nothing(pip: FakePip, tmp_path: Path, name: str) -> None:
    assert run(tmp_path, "install", name)[0] == 1
    assert list(tmp_path.iterdir()) == []


def test_a_killed_installation_is_made_anew_and_other_folders_are_left_alone(pip: FakePip, tmp_path: Path) -> None:
    (tmp_path / "tap-one/env").mkdir(parents=True)
    code, told = run(tmp_path, "install", "tap-one")
    assert (code, "is there already" in told) == (2, True)
    (tmp_path / "tap-one/.unfinished").touch()
    assert run(tmp_path, "install", "tap-one")[0] == 0
    assert sorted(one.name for one in (tmp_path / "tap-one").iterdir()) == ["env", "headrace-plugin.json"]


@pytest.mark.parametrize(
    ("name", "is_singer"),
    [
        ("tap-csv", True),
        ("target-sqlite==0.2.0", True),
        ("meltanolabs-tap-postgres[extra]>=0.1", True),
        ("postgres", False),
        ("io.tap:tap-x:1.0", False),
        ("tap-x.py", False),
        ("./tap-x", False),
        ("mytap-x", False),
    ],
)
def test_taps_and_targets_are_told_by_their_names(name: str, is_singer: bool) -> None:
    assert singer_install.is_singer(name) is is_singer
