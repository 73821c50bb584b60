"""The files of connectors below a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config.connector.files import named_twice, read
from headrace.config.problems import ConfigError


def test_all_files_below_a_folder_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/two.json").write_text('{"name": "two", "config": {"tasks.max": 2}, "initial_state": "PAUSED"}')
    (tmp_path / "a.properties").write_text("name=one\ntasks.max=1\n")
    (tmp_path / "notes.txt").write_text("no connector")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/three.json").write_text("{")
    found = read(tmp_path)
    assert [(one.name, one.path, one.initial_state) for one in found] == [
        ("one", str(tmp_path / "a.properties"), None),
        ("two", str(tmp_path / "b/two.json"), "PAUSED"),
    ]
    assert found[1].config == {"tasks.max": "2", "name": "two"}


def test_a_file_is_read_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text('{"name": "one", "topics": "t"}')
    assert [one.name for one in read(tmp_path / "plain")] == ["one"]


def test_all_that_is_wrong_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.properties").write_text("tasks.max=1\n")
    with pytest.raises(ConfigError) as raised:
        read(tmp_path)
    assert [problem.key for problem in raised.value.problems] == [
        str(tmp_path / "a.json"),
        str(tmp_path / "b.properties"),
    ]


def test_a_path_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no such file or folder"):
        read(tmp_path / "absent")


def test_a_name_in_two_files_is_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.properties").write_text("name=one\n")
    (problem,) = named_twice(read(tmp_path))
    assert problem.key == str(tmp_path / "b.properties")
    assert f"which {tmp_path / 'a.properties'} names, too" in problem.message
