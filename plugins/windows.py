"""Sliding windows of samples, as Kafka's metrics have them."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass


@dataclass
class _Sample:
    began: float
    count: int = 0
    total: float = 0.0
    most: float = -math.inf
    least: float = math.inf


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
        sample.least = min(sample.least, value)

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

    def minimum(self, now: float) -> float:
        """Not a number where nothing was recorded."""
        least = min((sample.least for sample in self._recent(now)), default=math.inf)
        return least if least < math.inf else math.nan

    def _recent(self, now: float) -> list[_Sample]:
        span_s = self._sample_s * (self._samples.maxlen or 1)
        return [sample for sample in self._samples if now - sample.began < span_s]
