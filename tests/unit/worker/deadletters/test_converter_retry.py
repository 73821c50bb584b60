"""The time for which a converter is asked again."""

from __future__ import annotations

import pytest

from headrace.worker.deadletters.converter_retry import ConverterAway, ConverterTimeout, RetryBudget
from headrace.worker.kafka.errors import is_retriable

AWAY = ConverterAway("GET /schemas/ids/7: connection refused")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def patience(timeout_ms: int, delay_max_ms: int = 60_000) -> tuple[RetryBudget, Clock]:
    clock = Clock()
    return RetryBudget(timeout_ms, delay_max_ms, clock), clock


def test_without_a_timeout_there_is_no_second_try() -> None:
    made, _ = patience(0)
    with pytest.raises(
        ConverterTimeout, match=r"ids/7: connection refused \(1 tries in 0\.0 s, errors\.retry\.timeout=0"
    ):
        made.failed(AWAY)


def test_the_wait_doubles_and_is_cut_at_the_deadline() -> None:
    made, clock = patience(2000)
    for wait in (0.3, 0.6, 1.1):
        assert made.failed(AWAY) == pytest.approx(wait)
        clock.now += wait + 1e-9
    with pytest.raises(ConverterTimeout, match="4 tries in 2"):
        made.failed(AWAY)


def test_above_the_longest_delay_the_wait_is_any_below_it() -> None:
    made, _ = patience(-1, 1000)
    waits = [made.failed(AWAY) for _ in range(50)]
    assert waits[:2] == [0.3, 0.6]
    assert all(0 <= wait <= 1 for wait in waits)
    assert len(set(waits)) > 10


def test_an_answer_ends_the_count() -> None:
    made, clock = patience(1000)
    assert made.failed(AWAY) == 0.3
    clock.now += 5
    made.succeeded()
    assert made.failed(AWAY) == 0.3


def test_the_task_may_start_again_by_itself() -> None:
    made, _ = patience(0)
    with pytest.raises(ConverterTimeout) as raised:
        made.failed(AWAY)
    assert is_retriable(raised.value)
