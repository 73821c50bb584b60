"""Maps source offsets to target offsets, in runs in which both grow by one with each record."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

_PART: Final = 4
"""Each distance grows by this part. If it doubled, groups would reread a quarter more than with Java's."""


@dataclass
class OffsetRuns:
    """The records of one partition that arrived, in order."""

    _upstream: list[int] = field(default_factory=list)
    _downstream: list[int] = field(default_factory=list)
    _before: list[int] = field(default_factory=list)
    """The count of records before each run."""
    count: int = 0

    def add(self, upstream: int, downstream: int, count: int) -> None:
        """Note that so many records, from these two offsets on, are the same."""
        if self._upstream:
            within = self.count - self._before[-1]
            follows = self._upstream[-1] + within == upstream and self._downstream[-1] + within == downstream
        else:
            follows = False
        if not follows:
            self._upstream.append(upstream)
            self._downstream.append(downstream)
            self._before.append(self.count)
        self.count += count

    def pair(self, number: int) -> tuple[int, int]:
        """Both offsets of the record of this number, from 0 on."""
        run = bisect_right(self._before, number) - 1
        within = number - self._before[run]
        return self._upstream[run] + within, self._downstream[run] + within

    def pairs(self, spacing: int) -> list[tuple[int, int]]:
        """The offsets of the last record and of some before it, in order.

        Distances from the end grow by a quarter, or by `spacing` if that is more: near the end a pair every `spacing`
        records. From these MirrorMaker's store of offset syncs keeps as many near each place, on the average of all
        places, as from a pair every `spacing` records everywhere (`test_moving.py`).
        """
        if not self.count:
            return []
        numbers, distance = [self.count - 1], max(1, spacing)
        while distance < self.count:
            numbers.append(self.count - 1 - distance)
            distance = max(distance + spacing, distance + distance // _PART)
        if numbers[-1] != 0:
            numbers.append(0)
        return [self.pair(number) for number in reversed(numbers)]
