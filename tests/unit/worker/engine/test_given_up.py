"""Abandoned threads of Spark's driver: a few are tolerated."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.worker.engine import given_up as module
from headrace.worker.engine.given_up import MOST, MOST_LOOKS, GivenUp


def test_the_driver_is_replaced_once_too_many_still_compute() -> None:
    replaced: list[str] = []
    spark: Any = SimpleNamespace(generation=1, replace=replaced.append)
    given_up = GivenUp(spark)
    for _ in range(3 * MOST):
        given_up.add(lambda: False)  # these have ended by the next
    for _ in range(MOST):
        given_up.add(lambda: True)
    assert not replaced
    spark.generation = 2  # whose driver has none of them
    for _ in range(MOST):
        given_up.add(lambda: True)
    assert not replaced
    given_up.add(lambda: True)
    assert replaced == [f"{MOST + 1} threads of it compute for nobody, and cannot be stopped"]


class Group:
    """Jobs whose tasks run on for so many looks after their end, and compute at all but every so many of them."""

    def __init__(self, looks: int, waits_each: int) -> None:
        self.looks, self._waits_each = looks, waits_each
        self.ended = False

    def begin(self) -> None:
        pass

    def end(self) -> None:
        self.ended = True

    def runs(self) -> bool:
        self.looks -= 1
        return self.looks >= 0

    def computes(self) -> bool:
        return self.looks % self._waits_each > 0


@pytest.mark.parametrize(
    ("looks", "waits_each", "replaces"),
    [(1000, 1000, True), (MOST_LOOKS - 1, 1000, False), (1000, 1, False), (1000, 2, False)],
    ids=["computes on", "ends in time", "waits", "waits in between"],
)
def test_the_driver_is_replaced_if_a_failed_job_holds_a_place(
    monkeypatch: pytest.MonkeyPatch, looks: int, waits_each: int, replaces: bool
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    replaced: list[str] = []
    spark: Any = SimpleNamespace(generation=1, replace=replaced.append)
    group: Any = Group(looks, waits_each)
    with pytest.raises(ValueError, match="failed"), GivenUp(spark).starting(group):
        raise ValueError("failed")
    assert group.ended
    deadline = time.monotonic() + 60
    while not (replaced or group.looks < 0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert bool(replaced) == replaces


def test_jobs_that_succeed_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    group: Any = Group(0, 1)
    monkeypatch.setattr(module.threading, "Thread", None)
    with GivenUp(SimpleNamespace(generation=1)).starting(group):  # type: ignore[arg-type]
        pass
    assert group.ended
