"""Blocking calls of a connector end once its task has to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from headrace.worker.logging.logs import ConnectFormatter, connector_context
from headrace.worker.tasks.interrupts import Interrupts

SECONDS = 60


def blocked(interrupts: Interrupts, interrupt: Callable[[], None], until: threading.Event) -> threading.Thread:
    """A thread that is blocked until then."""
    inside = threading.Event()

    def block() -> None:
        with interrupts.by(interrupt):
            inside.set()
            until.wait(SECONDS)

    thread = threading.Thread(target=block)
    thread.start()
    assert inside.wait(SECONDS)
    return thread


def test_what_is_blocked_is_interrupted_until_it_ends() -> None:
    interrupts, ended, calls = Interrupts("c-0"), threading.Event(), list[int]()

    def interrupt() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("the server takes nobody now")
        ended.set()

    thread = blocked(interrupts, interrupt, ended)
    assert not calls
    interrupts.begin()
    interrupts.begin()
    thread.join(SECONDS)
    assert ended.is_set()
    assert len(calls) == 3
    assert _ends("interrupt-c-0")


def test_what_blocks_after_the_stop_is_interrupted_too() -> None:
    interrupts, ended = Interrupts("c-1"), threading.Event()
    interrupts.begin()
    assert not [one for one in threading.enumerate() if one.name == "interrupt-c-1"], "there is nothing to do yet"
    for _ in range(2):
        ended.clear()
        blocked(interrupts, ended.set, ended).join(SECONDS)
        assert ended.is_set()


def test_nobody_is_interrupted_who_has_left() -> None:
    interrupts, ended, go_on, calls = Interrupts("c-2"), threading.Event(), threading.Event(), list[float]()

    def slow() -> None:
        ended.set()
        assert go_on.wait(SECONDS)
        calls.append(time.monotonic())

    thread = blocked(interrupts, slow, ended)
    interrupts.begin()
    assert ended.wait(SECONDS)  # it would leave now
    thread.join(0.3)
    assert thread.is_alive(), "it waits for who interrupts it"
    go_on.set()
    thread.join(SECONDS)
    left = time.monotonic()
    assert [called <= left for called in calls] == [True]
    assert _ends("interrupt-c-2")


def test_who_leaves_does_not_wait_for_the_interrupts_of_others() -> None:
    interrupts, began, ended, others = Interrupts("c-3"), threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        assert others.wait(SECONDS)

    slowly = blocked(interrupts, slow, others)
    thread = blocked(interrupts, ended.set, ended)
    interrupts.begin()
    assert began.wait(SECONDS)
    ended.set()
    thread.join(SECONDS)
    assert not thread.is_alive()
    others.set()
    slowly.join(SECONDS)
    assert _ends("interrupt-c-3")


def test_what_prevents_it_is_told_of_once_and_as_of_its_connector(caplog: pytest.LogCaptureFixture) -> None:
    interrupts, ended, calls = Interrupts("c-4"), threading.Event(), list[int]()
    caplog.handler.setFormatter(ConnectFormatter())

    def interrupt() -> None:
        calls.append(1)
        if len(calls) == 4:
            ended.set()
        else:
            raise ConnectionError("nobody answers" if len(calls) < 3 else "it refuses")

    with connector_context("shop", "task-4"):
        interrupts.begin()
        with interrupts.by(interrupt):
            assert ended.wait(SECONDS)
    said = [line for line in caplog.text.splitlines() if "cannot be broken off" in line]
    assert [line.split("yet: ")[1].split(" (")[0] for line in said if "] WARN " in line] == [
        "nobody answers",
        "it refuses",
    ]
    assert all("[shop|task-4]" in line for line in said)
    assert _ends("interrupt-c-4")


def _ends(name: str) -> bool:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(SECONDS)
            return not thread.is_alive()
    return True
