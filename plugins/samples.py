"""Metrics of a plugin's own, and sliding windows of values as Kafka's metrics have them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Sample(NamedTuple):
    """One Prometheus sample."""

    name: str
    """Full name; a counter's ends with `_total`."""
    labels: Mapping[str, str]
    value: float
    text: str = ""
    """Help text."""


@dataclass(slots=True)
class _Sample:
    began: float
    count: int = 0
    total: float = 0.0
    most: float = -math.inf
    least: float = math.inf


class Window:
    """Values recorded in the last few samples, as in Kafka's metrics; older ones are forgotten."""

    def __init__(self, sample_s: float, samples: int, now: float) -> None:
        self._sample_s, self._span_s = sample_s, sample_s * samples
        self._samples: deque[_Sample] = deque([_Sample(now)], samples)

    def record(self, value: float, now: float) -> None:
        """Record a value."""
        if now - self._samples[-1].began >= self._sample_s:
            self._samples.append(_Sample(now))
        sample = self._samples[-1]
        sample.count += 1
        sample.total += value
        sample.most = max(sample.most, value)
        sample.least = min(sample.least, value)

    def rate(self, now: float) -> float:
        """Return the sum per second, over at least all samples but one, so that it does not jump at the start."""
        total, begin = 0.0, now
        for sample in self._recent(now):
            total += sample.total
            begin = min(begin, sample.began)
        return total / max(now - begin, self._span_s - self._sample_s, 1e-3) if total else 0.0

    def average(self, now: float) -> float:
        """Return the average; NaN if nothing was recorded."""
        count, total = 0, 0.0
        for sample in self._recent(now):
            count += sample.count
            total += sample.total
        return total / count if count else math.nan

    def maximum(self, now: float) -> float:
        """Return the maximum; NaN if nothing was recorded."""
        most = -math.inf
        for sample in self._recent(now):
            if sample.most > most:
                most = sample.most
        return most if most > -math.inf else math.nan

    def minimum(self, now: float) -> float:
        """Return the minimum; NaN if nothing was recorded."""
        least = min((sample.least for sample in self._recent(now)), default=math.inf)
        return least if least < math.inf else math.nan

    def _recent(self, now: float) -> Sequence[_Sample]:
        begin = now - self._span_s
        samples = self._samples
        if samples[-1].began <= begin:
            return ()
        return samples if samples[0].began > begin else [sample for sample in samples if sample.began > begin]
