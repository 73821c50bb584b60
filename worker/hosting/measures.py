"""Counters of starts and rebalances."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping


class StartupCounter:
    """Counts attempts to start something, and their failures."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.attempts = self.failures = 0

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Count one start; an error raised in it counts as a failure."""
        with self._lock:
            self.attempts += 1
        try:
            yield
        except Exception:
            with self._lock:
                self.failures += 1
            raise


class RebalanceTimes:
    """Counts rebalances and their durations; any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began: float | None = None
        self._ended: float | None = None
        self._count = 0
        self._total_s = self._most_s = 0.0

    def began(self) -> None:
        """Note that a rebalance is under way."""
        with self._lock:
            self._began = self._clock() if self._began is None else self._began

    def ended(self) -> None:
        """Note that the worker was given its work; a rebalance that others began took no time on this worker."""
        with self._lock:
            now = self._clock()
            took_s = 0.0 if self._began is None else now - self._began
            self._began, self._ended, self._count = None, now, self._count + 1
            self._total_s, self._most_s = self._total_s + took_s, max(self._most_s, took_s)

    def figures(self) -> Mapping[str, float]:
        """Connect's attributes."""
        with self._lock:
            return {
                "completed_rebalances_total": self._count,
                "rebalancing": float(self._began is not None),
                "rebalance_max_time_ms": self._most_s * 1000 if self._count else math.nan,
                "rebalance_avg_time_ms": self._total_s * 1000 / self._count if self._count else math.nan,
                "time_since_last_rebalance_ms": math.inf
                if self._ended is None
                else (self._clock() - self._ended) * 1000,
            }
