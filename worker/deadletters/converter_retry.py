"""Limits how long a task retries if a converter cannot reach its server, such as a schema registry.

Decided: when `errors.retry.timeout` is over the task fails, whatever `errors.tolerance` says, because no single record
is to blame: skipping or dead-lettering all of a topic while a registry is down would lose it; loses: likeness to
Apache's worker, which fails with such a record or, if it tolerates all, drops it and goes on. Nothing is committed, so
a restarted task (by `task.restart.*` or by an operator) goes on at the same record.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.plugins.backoff import Backoff
from headrace.plugins.errors import RetriableError

FIRST_DELAY_MS = 300


class ConverterAway(RetriableError):
    """A converter could not get the data it needs now."""


class ConverterTimeout(Exception):
    """A converter could not get the data it needs within `errors.retry.timeout`."""


@dataclass
class RetryBudget:
    """Retry budget of one task, with the waiting times of Apache's error handling."""

    timeout_ms: int
    """Time since the first failure; 0: no retry, -1: for ever."""
    delay_max_ms: int
    clock: Callable[[], float] = time.monotonic
    _since: float | None = None
    _tries: int = 0

    def failed(self, error: ConverterAway) -> float:
        """Return the seconds to wait before the next try. Errors: ConverterTimeout if there is none."""
        now = self.clock()
        self._since = now if self._since is None else self._since
        self._tries += 1
        left_ms = float("inf") if self.timeout_ms < 0 else self.timeout_ms - (now - self._since) * 1000
        if left_ms <= 0:
            tries = f"{self._tries} tries in {now - self._since:.1f} s"
            self.succeeded()
            raise ConverterTimeout(
                f"{error} ({tries}, errors.retry.timeout={self.timeout_ms}). No record is lost: the task goes on where "
                "it stopped. See that the server answers and restart the task, or set errors.retry.timeout to the "
                "milliseconds in which to try again (-1: for ever)"
            ) from error
        delay_ms = Backoff(FIRST_DELAY_MS, float("inf")).pause(self._tries)
        if delay_ms > self.delay_max_ms:
            delay_ms = random.uniform(0, max(0, self.delay_max_ms))
        return min(delay_ms, left_ms) / 1000

    def succeeded(self) -> None:
        """Reset: the next failure counts as the first."""
        self._since, self._tries = None, 0
