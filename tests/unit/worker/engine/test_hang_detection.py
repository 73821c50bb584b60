"""A driver that hangs is told from one that is slow, and from a worker that did not run itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from headrace.worker.engine.hang_detection import HUNG_S, SLOW_S, HangDetector

LOOK_S = 0.5


class Driver:
    """A process that uses so much of a core, and the clock that it is looked at by."""

    def __init__(self, used: float = 0.0) -> None:
        self.used, self.cpu_s, self.now_s, self.answered_s = used, 0.0, 1000.0, 1000.0
        self.silence = HangDetector(cast(Any, self))

    def cpu_times(self) -> Any:
        return SimpleNamespace(user=self.cpu_s, system=0.0)

    def look(self, after_s: float = LOOK_S) -> float | None:
        self.now_s += after_s
        self.cpu_s += self.used * after_s
        return self.silence.hangs(self.answered_s, self.now_s)

    def silent_until_hung(self, at_most_s: float = 100) -> float:
        """Return how long it was silent when it was said to hang."""
        for _ in range(int(at_most_s / LOOK_S)):
            if (silent_s := self.look()) is not None:
                return silent_s
        raise AssertionError("it is not said to hang")


@pytest.mark.parametrize(("used", "limit_s"), [(0.0, HUNG_S), (0.01, HUNG_S), (0.2, SLOW_S), (2.0, SLOW_S)])
def test_one_at_work_has_longer_than_one_that_is_stopped(used: float, limit_s: float) -> None:
    driver = Driver(used)
    driver.look()
    driver.answered_s = driver.now_s
    assert limit_s < driver.silent_until_hung() <= limit_s + 2 * LOOK_S


def test_one_that_answers_does_not_hang() -> None:
    driver = Driver()
    for _ in range(100):
        driver.answered_s = driver.now_s
        assert driver.look() is None


def test_work_before_its_last_answer_does_not_count() -> None:
    driver = Driver(2.0)
    driver.look()
    driver.answered_s = driver.now_s
    driver.used = 0.0
    assert driver.silent_until_hung() <= HUNG_S + LOOK_S


def test_time_in_which_the_worker_did_not_run_does_not_count() -> None:
    driver = Driver()
    driver.look()
    driver.answered_s = driver.now_s
    assert driver.look(after_s=3600) is None
    assert driver.silent_until_hung() <= HUNG_S + LOOK_S


def test_one_that_has_ended_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()

    def gone() -> None:
        raise psutil.NoSuchProcess(1)

    monkeypatch.setattr(driver, "cpu_times", gone)
    assert driver.look() is None
