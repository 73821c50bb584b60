"""Pauses between attempts."""

from __future__ import annotations

import pytest

from headrace.plugins.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 3)
    assert [backoff.pause(failures) for failures in (1, 2, 3, 4, 5, 10_000)] == [0.5, 1, 2, 3, 3, 3]


def test_a_first_pause_is_no_longer_than_the_longest() -> None:
    assert Backoff(10, 3).pause(1) == 3


@pytest.mark.parametrize(("spread", "least"), [(1.0, 0.0), (0.2, 0.8)])
def test_a_part_of_a_pause_may_be_random(spread: float, least: float) -> None:
    backoff = Backoff(1, 1, spread)
    assert backoff.pause(1, lambda: 0.0) == pytest.approx(least)
    assert backoff.pause(1, lambda: 1.0) == pytest.approx(1.0)
    assert all(least <= backoff.pause(1) <= 1 for _ in range(100))
