"""The table of `headrace top`: its rows and their order, and the command's end."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.worker.cli import commands, top
from tests.unit.converters.registry.scripted_registry import scripted


def status(connector: str, *tasks: str) -> dict[str, Any]:
    parts = [{"id": number, "state": state, "worker_id": f"w{number}:8083"} for number, state in enumerate(tasks)]
    return {"status": {"type": "sink", "connector": {"state": connector, "worker_id": "w0:8083"}, "tasks": parts}}


LATE = "[red]late\x1b[2J"
CONNECTORS = {
    "busy": status("RUNNING", "RUNNING", "RUNNING"),
    LATE: status("RUNNING", "RUNNING"),
    "z-broken": status("RUNNING", "FAILED", "RUNNING"),
}
SERIES = {
    "connectors": {
        "busy": {"records_per_s": 1234.5, "lag_records": 0.0, "lag_s": 0.0, "errors": 0.0},
        LATE: {"records_per_s": 2.25, "lag_records": 7000.0, "lag_s": 61.5, "errors": None},
    },
    "skipped": {"http://java": "It answers 404"},
}
ANSWERS = ((200, CONNECTORS), (200, SERIES))


def run(*words: str, answers: tuple[Any, ...] = ANSWERS) -> Any:
    with scripted(*answers) as worker:
        return CliRunner().invoke(commands.app, ["top", "--rest", worker.url, *words], env={"COLUMNS": "160"})


@pytest.mark.parametrize(
    ("sort", "first"),
    [("state", "z-broken"), ("name", LATE), ("records", "busy"), ("lag", LATE)],
)
def test_what_needs_a_look_comes_first(sort: str, first: str) -> None:
    told = json.loads(run("--json", "--sort", sort).stdout)
    assert told["connectors"][0]["name"] == first
    assert told["skipped"] == SERIES["skipped"]


def test_a_row_has_states_figures_and_workers() -> None:
    told = {one.pop("name"): one for one in json.loads(run("--json").stdout)["connectors"]}
    assert told["z-broken"] == {
        "type": "sink",
        "state": "RUNNING",
        "tasks": {"FAILED": 1, "RUNNING": 1},
        "workers": ["w0:8083", "w1:8083"],
        "records_per_s": None,
        "lag_records": None,
        "lag_s": None,
        "errors": None,
    }


def test_the_table_shows_names_as_they_are() -> None:
    out = run("--once").stdout
    assert r"[red]late\x1b[2J" in out
    assert "\x1b[2J" not in out
    assert "1,234" in out or "1,235" in out
    assert "61.5" in out
    assert "1 FAILED, 1 RUNNING" in out
    assert "http://java tells no figures: It answers 404" in out


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        (((403, {"error_code": 403, "message": "who lacks the right"}),), 1, "403: who lacks the right"),
        (((200, []), (200, SERIES)), 3, "no worker of Headrace"),
        (((200, CONNECTORS), (404, {"message": "HTTP 404 Not Found"})), 1, "GET /series with 404"),
    ],
)
def test_a_worker_that_does_not_tell_ends_it_with_the_reason(answers: Any, code: int, said: str) -> None:
    result = run("--once", answers=answers)
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_wrong_options_are_said() -> None:
    assert "one of state, name" in CliRunner().invoke(commands.app, ["top", "--sort", "size"]).output
    assert "cannot be read" in CliRunner().invoke(commands.app, ["top", "--cacert", "absent"]).output


def test_it_is_drawn_until_ctrl_c_even_if_no_worker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = iter([None, KeyboardInterrupt()])

    def pause(seconds: float) -> None:
        assert seconds == 0.5
        if (error := next(pauses)) is not None:
            raise error

    monkeypatch.setattr(top, "time", SimpleNamespace(sleep=pause))
    result = CliRunner().invoke(commands.app, ["top", "--rest", "http://127.0.0.1:1", "--interval", "0.5"])
    assert (result.exit_code, "no worker answers" in result.output) == (0, True), result.output
