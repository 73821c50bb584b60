"""The growth of a figure, net of its noise, while the process that has it is another one after each restart."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

SETTLE_S: Final = 600.0
"""A process grows while it warms up; so long, or a third of its life, is left out."""
_LEAST: Final = 6
"""A life with fewer samples says nothing."""


class Growth(NamedTuple):
    """A slope with its standard error, and the mean of what grows."""

    an_hour: float
    error: float
    mean: float

    def sure(self, hours: float) -> float:
        """Return the least growth in so many hours, as a share of the mean."""
        return hours * max(0.0, self.an_hour - 2 * self.error) / self.mean if self.mean else 0.0


def lives(samples: Sequence[Mapping[str, Any]], worker: str) -> Iterator[list[Mapping[str, Any]]]:
    """Split the samples of a worker by its process, in order of time."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for sample in samples:
        found.setdefault(sample["workers"][worker]["pid"], []).append(sample)
    yield from found.values()


def growth(samples: Sequence[Mapping[str, Any]], worker: str, part: str, key: str) -> Growth | None:
    """The common slope of all lives in the second half of the samples; None if no life is long enough."""
    middle = (samples[0]["at_s"] + samples[-1]["at_s"]) / 2
    series = []
    for life in lives(samples, worker):
        begin = life[0]["at_s"]
        warm = begin + min(SETTLE_S, (life[-1]["at_s"] - begin) / 3)
        kept = [one for one in life if one["at_s"] >= max(warm, middle) and one["workers"][worker][part][key]]
        if len(kept) >= _LEAST:
            series.append([(one["at_s"] / 3600, one["workers"][worker][part][key]) for one in kept])
    return common_slope(series)


def common_slope(series: Sequence[Sequence[tuple[float, float]]]) -> Growth | None:
    """Fit one slope to several series, each at its own level; what is left over tells the error.

    Neighbours resemble each other, so that there is less in n samples than n values: the error is widened for that.
    """
    centred = [_centred(one) for one in series]
    points = [point for one in centred for point in one]
    spread = sum(x * x for x, _ in points)
    if not spread:
        return None
    slope = sum(x * y for x, y in points) / spread
    left = [[y - slope * x for x, y in one] for one in centred]
    variance = sum(y * y for one in left for y in one) / max(1, len(points) - len(series) - 1)
    pairs = sum(a * b for one in left for a, b in itertools.pairwise(one))
    alike = min(0.98, max(0.0, pairs / (sum(y * y for one in left for y in one) or 1.0)))
    error = math.sqrt(variance / spread * (1 + alike) / (1 - alike))
    return Growth(slope, error, statistics.mean(y for one in series for _, y in one))


def _centred(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    middle = statistics.mean(x for x, _ in points), statistics.mean(y for _, y in points)
    return [(x - middle[0], y - middle[1]) for x, y in points]
