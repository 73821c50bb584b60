"""A task closes what it has open when it is asked to stop, so that nothing it waits for keeps it."""

from __future__ import annotations

import threading

from headrace.plugins.contracts import RetriableError
from headrace.worker.model import State
from headrace.worker.tasks.host import OpenResources
from headrace.worker.tasks.task import Task
from tests.unit.worker.tasks.hosting import host

SECONDS = 60


class Asking(Task):
    """Begins by asking a server that does not answer until it is closed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.states: list[State] = []
        super().__init__(host(report=lambda state, _text, _passing=False: self.states.append(state)))
        self.error = error
        self.asking, self.closed, self.ended = threading.Event(), threading.Event(), threading.Event()

    def begin(self) -> None:
        self._host.resources.on_close(self.closed.set)
        self.asking.set()
        if self.error is not None:
            raise self.error
        assert self.closed.wait(SECONDS)
        raise RetriableError("it was closed")

    def loop(self) -> None: ...

    def cancel(self) -> None: ...

    def end(self, failed: bool) -> None: ...


def test_who_waits_for_a_server_is_woken_when_the_task_is_to_stop() -> None:
    task = Asking()
    task.start()
    assert task.asking.wait(SECONDS)
    assert not task.closed.is_set()
    task.ask_to_stop()
    assert task.join(SECONDS)
    assert task.states == [State.UNASSIGNED]


def test_a_failed_task_leaves_nothing_open() -> None:
    task = Asking(ValueError("no such table"))
    task.start()
    assert task.join(SECONDS)
    assert task.closed.is_set()
    assert task.states == [State.FAILED]


def test_what_cannot_be_closed_keeps_nothing_else_open() -> None:
    resources, closed = OpenResources(), threading.Event()

    def broken() -> None:
        raise OSError("gone")

    resources.on_close(closed.set)
    resources.on_close(broken)
    resources.close()
    assert closed.is_set()
    late = threading.Event()
    resources.on_close(late.set)
    assert late.is_set(), "what is opened after that is closed at once"
