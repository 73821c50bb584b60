"""The thread that takes the steps of several tasks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from headrace.worker.model import TaskId
from headrace.worker.tasks import shared_thread
from headrace.worker.tasks.shared_thread import Next, SharedThread
from tests.integration.worker_process import eventually

WHOSE: ContextVar[str] = ContextVar("whose", default="nobody's")
SECONDS = 60


@pytest.fixture
def shared() -> SharedThread:
    return SharedThread()


def lend(shared: SharedThread, whose: str, step: Callable[[], Next]) -> None:
    WHOSE.set(whose)
    shared.lend(step, None)


def goes_on(again: bool) -> Next:
    return Next.WAIT if again else Next.OWN


def shared_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sinks-shared"]


def test_tasks_take_turns_on_one_thread_each_in_its_own_context(shared: SharedThread) -> None:
    seen: list[tuple[str, str]] = []
    together = threading.Event()

    def step() -> Next:
        seen.append((WHOSE.get(), threading.current_thread().name))
        if {whose for whose, _ in seen[-2:]} == {"a", "b"}:
            together.set()
        return goes_on(len(seen) < 6 or not together.is_set())

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(lend, shared, whose, step) for whose in "ab"]:
            done.result(SECONDS)
    assert set(seen) == {("a", "sinks-shared"), ("b", "sinks-shared")}
    eventually(lambda: not shared_threads(), SECONDS)


def test_an_error_is_the_lenders_and_ends_its_steps(shared: SharedThread) -> None:
    calls: list[int] = []

    def step() -> Next:
        calls.append(1)
        raise SystemExit("a plugin's own")

    with pytest.raises(SystemExit, match="a plugin's own"):
        shared.lend(step, None)
    shared.lend(lambda: Next.OWN, None)
    assert len(calls) == 1


def test_a_blocked_step_is_its_own_tasks_trouble(shared: SharedThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_thread, "_PATIENCE_S", 0.01)
    blocked, others, go_on = threading.Event(), threading.Event(), threading.Event()

    def block() -> Next:
        blocked.set()
        return goes_on(not go_on.wait(SECONDS))

    def other() -> Next:
        others.set()
        return Next.WAIT

    with ThreadPoolExecutor(2) as pool:
        quick = pool.submit(shared.lend, other, None)
        assert others.wait(SECONDS)
        first = pool.submit(shared.lend, block, None)
        assert blocked.wait(SECONDS)
        quick.result(SECONDS)
        assert not first.done()
        shared.lend(lambda: pytest.fail("nothing is taken while a step is blocked"), None)
        go_on.set()
        first.result(SECONDS)
    shared.lend(lambda: Next.OWN, None)


@pytest.mark.parametrize(("worked_ms", "rests_ms"), [(0, 4), (1, 3), (2, 2), (3, 2.6), (4, 4.6), (100, 5)])
def test_the_thread_rests_longer_after_a_longer_turn(worked_ms: float, rests_ms: float) -> None:
    assert shared_thread.rest_s(worked_ms / 1000) == pytest.approx(rests_ms / 1000)


class News:
    """A consumer's, without the consumer."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._descriptor

    def seen(self) -> None:
        os.eventfd_read(self._descriptor)

    def come(self) -> None:
        os.eventfd_write(self._descriptor, 1)


def test_a_task_without_news_takes_few_steps(shared: SharedThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_thread, "_LOOK_S", 3600.0)
    steps, news = {"quiet": 0, "told": 0}, {"quiet": News(), "told": News()}
    enough = threading.Event()

    def step_of(name: str) -> Callable[[], Next]:
        def step() -> Next:
            steps[name] += 1
            return Next.OWN if enough.is_set() else Next.WAIT

        return step

    def lend_told(name: str) -> None:
        told: Any = news[name]
        shared.lend(step_of(name), told)

    with ThreadPoolExecutor(2) as pool:
        lent = [pool.submit(lend_told, name) for name in steps]
        eventually(lambda: steps["quiet"] and steps["told"], SECONDS)
        for number in range(2, 10):
            news["told"].come()
            eventually(lambda number=number: steps["told"] >= number, SECONDS)
        assert steps == {"quiet": 1, "told": 9}
        enough.set()
        for one in news.values():
            one.come()
        for done in lent:
            done.result(SECONDS)


def test_what_is_lent_depends_on_all_tasks_and_on_itself(shared: SharedThread) -> None:
    many = [TaskId("c", number) for number in range(10)]
    assert not any(shared.is_worth(task, 29.0) for task in many), "290 a second are too few"
    assert shared.is_worth(many[0], 50.0)
    assert not shared.is_worth(TaskId("slow", 0), 1.5)

    def step() -> Next:
        assert shared.is_worth(many[0], 1.5), "what has begun goes on with less"
        return Next.OWN

    shared.lend(step, None)
    for task in many:
        shared.forget(task)
        shared.forget(task)
    assert not shared.is_worth(many[0], 250.0)
