"""A thread that an error ended is told of, and makes the worker unhealthy."""

from __future__ import annotations

import sys
import threading
import weakref

import pytest

from headrace.worker.hosting.herder_loop import HerderLoop
from headrace.worker.machine import vital_threads
from headrace.worker.machine.vital_threads import VitalThread, dead_threads


@pytest.fixture(autouse=True)
def no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the threads of other tests."""
    monkeypatch.setattr(vital_threads, "_all", weakref.WeakSet())


@pytest.mark.parametrize("end", [lambda: 1 / 0, lambda: sys.exit(1)])
def test_a_thread_that_an_error_ended_makes_the_worker_unhealthy(end: object) -> None:
    loop, ready = HerderLoop("herder"), threading.Event()
    ready.set()
    ended = VitalThread(target=end, name="owner")  # type: ignore[arg-type]
    assert loop.health(ready, 5).status == "healthy"
    ended.start()
    ended.join()
    assert dead_threads() == ["owner"]
    health = loop.health(ready, 5)
    assert (health.status, "owner" in health.message) == ("unhealthy", True)
    loop.stop(5)


def test_one_that_ends_by_itself_is_not_missed() -> None:
    ended = VitalThread(target=lambda: None, name="x")
    ended.start()
    ended.join()
    assert dead_threads() == []
