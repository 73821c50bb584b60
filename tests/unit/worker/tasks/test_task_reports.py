"""A task's thread lives on where its state cannot be reported, and reports it once it can."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.plugins.backoff import Backoff
from headrace.plugins.stopping import StopToken
from headrace.worker.logging.redaction import Redaction
from headrace.worker.model import AutoRestart, State, TaskId
from headrace.worker.tasks import task as module
from headrace.worker.tasks.task import Task


class Fails(Task):
    """Fails at once, by what it is given."""

    error: BaseException = ValueError("broken")

    def begin(self) -> None:
        return None

    def loop(self) -> None:
        raise self.error

    def cancel(self) -> None:
        return None

    def end(self, failed: bool) -> None:
        return None


def made(report: Any) -> Fails:
    nothing = SimpleNamespace(close=lambda: None, begin=lambda: None)
    host: Any = SimpleNamespace(
        id=TaskId("c", 0),
        stop=StopToken(),
        metrics=SimpleNamespace(is_in=lambda _state: None),
        paused=False,
        resources=nothing,
        at_end=nothing,
        interrupts=nothing,
        spark=SimpleNamespace(is_ready=True),
        redaction=Redaction(),
        report=report,
    )
    return Fails(host)


def test_a_state_that_cannot_be_reported_is_reported_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF", Backoff(0.001, 0.001))
    told: list[State] = []
    failures = 3

    def report(state: State, _text: str | None, _restart: AutoRestart) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError("too many open files")
        told.append(state)

    task = made(report)
    task.start()
    assert task.join(60)
    assert told == [State.FAILED]


def test_a_plugin_that_exits_is_a_failed_task() -> None:
    told: list[State] = []
    task = made(lambda state, _text, _restart: told.append(state))
    task.error = SystemExit(3)
    task.start()
    assert task.join(60)
    assert told == [State.RUNNING, State.FAILED]
