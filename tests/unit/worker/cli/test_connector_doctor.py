"""`headrace doctor --connector FILE` tells what lint finds, with the variables resolved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.worker.cli.connector_doctor import examine
from headrace.worker.cli.doctor import Verdict

SOURCE = {"name": "lines", "connector.class": "FileStreamSource", "topic": "t", "file": "f"}


def told(folder: Path, config: dict[str, Any]) -> dict[str, tuple[Verdict, str]]:
    file = folder / "a.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    return {line.name: (line.state, line.found) for line in examine(file, None)}


def test_findings_are_lines_of_the_report(tmp_path: Path) -> None:
    found = told(tmp_path, {**SOURCE, "fiel": "x", "errors.tolerance": "all", "tasks.max": "2"})
    assert found.pop("config") == (
        Verdict.OK,
        "FileStreamSource: nothing is wrong with its settings",
    )
    assert {name: state for name, (state, _) in found.items()} == {
        "fiel": Verdict.WARN,
        "errors.tolerance": Verdict.WARN,
        "tasks.max": Verdict.WARN,
    }
    assert found["fiel"][1] == "Nothing reads this setting: did you mean file?"


def test_an_error_fails_the_report(tmp_path: Path) -> None:
    found = told(tmp_path, {**SOURCE, "tasks.max": "none"})
    assert [(name, state) for name, (state, _) in found.items()] == [("tasks.max", Verdict.FAIL)]
