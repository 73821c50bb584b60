from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from headrace.worker.tasks import poll_interval
from headrace.worker.tasks.poll_interval import Pace, PollInterval


def test_many_sources_are_asked_more_rarely_each_but_twice_a_second() -> None:
    pace = PollInterval()
    with ExitStack() as sources:
        for count, longest_s in ((20, 0.1), (60, 0.3), (100, 0.5), (1000, 0.5)):
            while pace.sources < count:
                sources.enter_context(pace.source())
            assert pace.longest_s == longest_s
    assert pace.longest_s == 0.1


class Clock:
    """A source's small batches on a clock of the test's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(poll_interval, "time", SimpleNamespace(monotonic=lambda: self.now))

    def pauses(self, paces: list[Pace], apart_s: float, rounds: int) -> list[float]:
        """The pauses of the last round of these sources, if a row comes so often to each."""
        found, rows = list[float](), 1
        for _ in range(rounds):
            found = [pace.small_batch(rows) for pace in paces]
            passed_s = max(apart_s, *found)
            rows = round(passed_s / apart_s)
            self.now += passed_s
        return found


@pytest.mark.parametrize(
    ("count", "apart_s", "pause_s"),
    [
        (1, 0.002, 0.005),
        (1, 0.01, 0.0),  # a pause of 5 ms would gather nothing
        (4, 0.008, 0.02),
        (20, 0.02, 0.1),
        (20, 0.1, 0.0),
        (100, 3.0, 0.0),
    ],
)
def test_sources_pause_where_their_small_batches_follow_each_other(
    monkeypatch: pytest.MonkeyPatch, count: int, apart_s: float, pause_s: float
) -> None:
    clock, among = Clock(monkeypatch), PollInterval()
    assert set(clock.pauses([Pace(among) for _ in range(count)], apart_s, 200)) == {pause_s}


def test_sources_that_trickle_lengthen_no_pause_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, among = Clock(monkeypatch), PollInterval()
    trickling, busy = [Pace(among) for _ in range(100)], Pace(among)
    clock.pauses(trickling, 3.0, 2)
    assert clock.pauses([busy], 0.002, 10) == [0.005]


def test_sources_that_have_come_to_rest_lengthen_pauses_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, among = Clock(monkeypatch), PollInterval()
    paces = [Pace(among) for _ in range(20)]
    assert clock.pauses(paces, 0.02, 5)[0] == 0.1
    assert clock.pauses(paces[:1], 0.002, 1000) == [0.005]
