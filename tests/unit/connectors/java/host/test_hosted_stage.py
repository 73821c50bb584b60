"""The times at which the thread that a Java stage's batch is on may be interrupted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.connectors.java.host import stage as module
from headrace.connectors.java.host.stage import CrossedStage


class JavaThread:
    """A thread with Java's flag; `during` is called while it is being interrupted."""

    def __init__(self) -> None:
        self.flag = False
        self.during: Callable[[], object] = lambda: None

    def interrupt(self) -> None:
        self.during()
        self.flag = True

    def interrupted(self) -> bool:
        was, self.flag = self.flag, False
        return was


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> JavaThread:
    made = JavaThread()
    of_class = SimpleNamespace(currentThread=lambda: made, interrupted=made.interrupted)
    jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Thread=of_class)))
    monkeypatch.setattr(module, "jpype", jvm)
    monkeypatch.setattr(module, "read_records", lambda reader, given: None)
    hosted = SimpleNamespace(java=None, tolerates=False, end=lambda: None, close=lambda: None)
    monkeypatch.setattr(module, "HostedStage", lambda *_, **__: hosted)
    return made


class Memory(bytearray):
    def limit(self) -> int:
        return len(self)


def stage(apply: Callable[[object], str]) -> CrossedStage:
    java = SimpleNamespace(apply=apply, buffer=Memory)
    classes = {"RecordReader": lambda _: None, "WorkerRecords": lambda *_: java}
    jvm: Any = SimpleNamespace(headrace=classes.__getitem__)
    return CrossedStage(jvm, {}, is_source=True)


def test_an_interrupt_ends_with_the_call_that_it_was_for(thread: JavaThread) -> None:
    def apply(_: object) -> str:
        made.interrupt()
        assert thread.flag
        return json.dumps({})

    made = stage(apply)
    made.apply({})
    assert not thread.flag
    made.interrupt()
    assert not thread.flag


class Lock:
    """Says when somebody waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.awaited = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.awaited.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_an_interrupt_that_is_late_is_not_left_to_the_threads_next_call(thread: JavaThread) -> None:
    begun, lock = threading.Event(), Lock()

    def apply(_: object) -> str:
        interrupting.start()
        assert begun.wait(60)
        return json.dumps({})

    def during() -> None:
        begun.set()
        lock.awaited.wait(60)  # the call has ended meanwhile

    thread.during, made = during, stage(apply)
    made._interrupting = lock  # type: ignore[assignment]
    interrupting = threading.Thread(target=made.interrupt)
    made.apply({})
    interrupting.join(60)
    assert not thread.flag


def test_ended_waits_leave_the_call_alone(thread: JavaThread) -> None:
    def apply(_: object) -> str:
        made.end_waits()
        return json.dumps({"interrupted": thread.flag})

    made = stage(apply)
    assert made.apply({})[0] == {"interrupted": False}
