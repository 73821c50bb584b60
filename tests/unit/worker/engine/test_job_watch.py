"""A job is given up if it computes and gets no further; else it may take as long as it likes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, cycle, repeat
from typing import Any

import pytest
from py4j.protocol import Py4JError

from headrace.worker.engine.bounds import Bounds, TooSlow
from headrace.worker.engine.job_watch import EVERY, LEAST_ROWS, LEAST_S, JobWatch

LIMIT_S = 300
LOOKS = LIMIT_S // EVERY
"""The looks within the time limit."""


class Group:
    """Jobs that tell these numbers of rows, or fail to, and whether they compute."""

    def __init__(self, rows: Iterator[int | Exception], computing: Iterator[bool]) -> None:
        self._rows, self._computing = rows, computing

    def rows(self) -> int:
        told = next(self._rows)
        if isinstance(told, Exception):
            raise told
        return told

    def computes(self) -> bool:
        return next(self._computing)


def ended_after_s(rows: Iterator[int | Exception], computing: Iterator[bool], limit_s: float = LIMIT_S) -> int | None:
    """After how many seconds of two hours such a job is given up."""
    group: Any = Group(rows, computing)
    watch = JobWatch(group, Bounds(limit_s=limit_s))
    for looks in range(1, 7201):
        try:
            watch.look(looks)
        except TooSlow:
            return looks
    return None


def test_one_that_computes_and_gets_no_further_is_given_up() -> None:
    assert ended_after_s(repeat(0), repeat(True)) == LIMIT_S
    assert ended_after_s(repeat(0), repeat(True), limit_s=1) == LEAST_S


def test_one_that_gets_a_few_rows_further_is_given_up() -> None:
    assert ended_after_s(count(), repeat(True)) == LIMIT_S


def test_one_that_gets_further_goes_on() -> None:
    rows = (number * LEAST_ROWS for number in count() for _ in range(LOOKS - 1))
    assert ended_after_s(rows, repeat(True)) is None


def test_one_that_ends_at_last_is_given_up_from_there_on() -> None:
    rows = chain(range(0, 100 * LEAST_ROWS, LEAST_ROWS), repeat(100 * LEAST_ROWS))
    assert ended_after_s(rows, repeat(True)) == 101 * EVERY + LIMIT_S


def test_one_that_waits_goes_on() -> None:
    assert ended_after_s(repeat(0), repeat(False)) is None
    assert ended_after_s(repeat(0), cycle((True, False))) is None


def test_to_have_waited_before_is_no_excuse() -> None:
    assert ended_after_s(repeat(0), chain(repeat(False, LOOKS), repeat(True))) == 2 * LIMIT_S


@pytest.mark.parametrize("error", [Py4JError("no such job"), ConnectionRefusedError()])
def test_a_driver_that_does_not_tell_says_nothing_of_the_job(error: Exception) -> None:
    assert ended_after_s(repeat(error), repeat(True)) is None
