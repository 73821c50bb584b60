"""Abandoned threads of Spark's driver: a few are tolerated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace.worker.engine.given_up import MOST, GivenUp


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
