"""Counters of starts and rebalances, and sliding windows of samples as Kafka's metrics have them."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass
class _Sample:
    began: float
    count: int = 0
    total: float = 0.0
    most: float = -math.inf


class Window:
    """The values recorded in the last few samples, as in Kafka's metrics; older ones are forgotten."""

    def __init__(self, sample_s: float, samples: int, now: float) -> None:
        self._sample_s = sample_s
        self._samples: deque[_Sample] = deque([_Sample(now)], samples)

    def record(self, value: float, now: float) -> None:
        """A value."""
        if now - self._samples[-1].began >= self._sample_s:
            self._samples.append(_Sample(now))
        sample = self._samples[-1]
        sample.count += 1
        sample.total += value
        sample.most = max(sample.most, value)

    def rate(self, now: float) -> float:
        """The sum per second, over all samples but one at least, so that it does not jump at its beginning."""
        recent = self._recent(now)
        least_s = self._sample_s * ((self._samples.maxlen or 1) - 1)
        elapsed_s = max(now - recent[0].began if recent else 0.0, least_s, 1e-3)
        return sum(sample.total for sample in recent) / elapsed_s

    def average(self, now: float) -> float:
        """Not a number where nothing was recorded."""
        recent = self._recent(now)
        count = sum(sample.count for sample in recent)
        return sum(sample.total for sample in recent) / count if count else math.nan

    def maximum(self, now: float) -> float:
        """Not a number where nothing was recorded."""
        most = max((sample.most for sample in self._recent(now)), default=-math.inf)
        return most if most > -math.inf else math.nan

    def _recent(self, now: float) -> list[_Sample]:
        span_s = self._sample_s * (self._samples.maxlen or 1)
        return [sample for sample in self._samples if now - sample.began < span_s]


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
