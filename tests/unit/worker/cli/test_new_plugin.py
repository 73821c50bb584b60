"""`headrace new` makes packages whose tests pass at once, and which a worker finds."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.plugins.interop.discovery import Plugins
from headrace.worker.cli.commands import app
from headrace.worker.cli.new_plugin import KINDS


@pytest.fixture(autouse=True)
def path_restored() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["new", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_tests_of_each_kind_pass(tmp_path: Path) -> None:
    for kind in KINDS:
        assert run(kind, f"my-{kind}", "--folder", tmp_path)[0] == 0
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    started = [
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path / f"my-{kind}")
        for kind in KINDS
    ]
    for one in started:
        said, _ = one.communicate()
        assert one.returncode == 0, said
        assert " passed" in said


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_is_found_as_a_file_and_by_its_entry_point(tmp_path: Path, kind: str) -> None:
    assert run(kind, f"found_{kind}-one", "--folder", tmp_path)[0] == 0
    folder = tmp_path / f"found_{kind}-one"
    group = KINDS[kind].group
    name = f"Found{kind.capitalize()}One"
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"] == {f"headrace.{group}": {name: f"found_{kind}_one:{name}"}}
    assert Plugins.discover([str(folder)]).find(group, name).load().version == project["version"]
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "$" not in readme
    assert ("headrace run" in readme) == (kind in ("source", "sink"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("door", "my-door"), "door is no kind of plugin"),
        (("source", "my door"), "is no name for a package"),
        (("source", "1st"), "is no name for a package"),
        (("source", "json"), "choose another"),
        (("source", "class"), "choose another"),
        (("source", "there"), "is there already"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path: Path, arguments: tuple[str, str], told: str) -> None:
    (tmp_path / "there").mkdir()
    code, said = run(*arguments, "--folder", tmp_path)
    assert code == 2
    assert told in said
    assert [one.name for one in tmp_path.iterdir()] == ["there"]
