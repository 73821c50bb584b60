"""The grouping of a connector's parts, such as tables, for its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def group_partitions(parts: Sequence[T], most: int) -> list[Sequence[T]]:
    """Split the parts, in order, into at most so many groups, whose sizes differ by one at most, larger first.

    As Kafka Connect's `ConnectorUtils.groupPartitions`, but no group is empty.
    """
    count = min(len(parts), most)
    if not count:
        return []
    size, larger = divmod(len(parts), count)
    bounds = [number * size + min(number, larger) for number in range(count + 1)]
    return [parts[begin:end] for begin, end in pairwise(bounds)]
