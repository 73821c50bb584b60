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
        """One start; what it raises counts as a failure."""
        with self._lock:
            self.attempts += 1
        try:
            yield
        except Exception:
            with self._lock:
                self.failures += 1
            raise


class Rebalances:
    """How often there was one, and how long they took; any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began: float | None = None
        self._ended: float | None = None
        self._count = 0
        self._total_s = self._most_s = 0.0

    def began(self) -> None:
        """One is under way."""
        with self._lock:
            self._began = self._clock() if self._began is None else self._began

    def ended(self) -> None:
        """The worker was given its work; a rebalance that others began took no time here."""
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
