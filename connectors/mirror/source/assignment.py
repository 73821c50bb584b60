"""Divides partitions among tasks: by traffic, and without moving them for little.

Decided: a partition moves only if the number of tasks changes, or if the busiest task has half as much again as it
would have in a fresh layout, because each move restarts the tasks; loses: somewhat unequal tasks.

Decided: a connector that starts anew knows no traffic and divides evenly, because nothing keeps the rates; loses: one
more restart of tasks after it, if traffic is very uneven.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from headrace.plugins.offsets import TopicPartition

_TOLERATED: Final = 1.5
"""A task may have so many times its load in a fresh layout."""
_QUIET: Final = 1_000.0
"""Below so many records per second of all partitions no task is too busy."""
_FLOOR: Final = 0.1
"""The weight of an idle partition, in those of an average one: each costs something."""

Layout = tuple[tuple[TopicPartition, ...], ...]


class PartitionTraffic:
    """Records per second of each partition, by the partitions' ends at two times."""

    def __init__(self) -> None:
        self._ends: Mapping[TopicPartition, int] = {}
        self._at = 0.0
        self.rates: Mapping[TopicPartition, float] = {}

    def measure(self, ends: Mapping[TopicPartition, int], now: float) -> None:
        """Take the partitions' present ends, with the time in seconds of a monotonic clock."""
        seconds = now - self._at
        if self._ends and seconds > 0:
            known = ends.keys() & self._ends.keys()
            # Below 0: the topic was deleted and created again.
            self.rates = {one: max(0, ends[one] - self._ends[one]) / seconds for one in known}
        self._ends, self._at = dict(ends), now


def layout(
    partitions: Collection[TopicPartition], most_tasks: int, rates: Mapping[TopicPartition, float], before: Layout = ()
) -> Layout:
    """The partitions of each task; those of `before` stay unless that is much worse."""
    count = min(most_tasks, len(partitions))
    if count < 1:
        return ()
    weights = _weights(partitions, rates)
    fresh = _filled([[] for _ in range(count)], sorted(partitions), weights)
    if len(before) != count:
        return fresh
    wanted = set(partitions)
    kept = [[one for one in task if one in wanted] for task in before]
    placed = {one for task in kept for one in task}
    stable = _filled(kept, sorted(wanted - placed), weights)
    if not all(stable):
        return fresh
    moves = sum(rates.get(one, 0.0) for one in partitions) >= _QUIET
    worse = _greatest(stable, weights) > _TOLERATED * _greatest(fresh, weights)
    return fresh if moves and worse else stable


def _weights(
    partitions: Iterable[TopicPartition], rates: Mapping[TopicPartition, float]
) -> dict[TopicPartition, float]:
    average = sum(rates.values()) / len(rates) if rates else 0.0
    if not average:
        return dict.fromkeys(partitions, 1.0)
    return {one: rates.get(one, average) + _FLOOR * average for one in partitions}


def _filled(
    tasks: Sequence[list[TopicPartition]], new: Iterable[TopicPartition], weights: Mapping[TopicPartition, float]
) -> Layout:
    """The tasks with these partitions, the heaviest first to the task that has least."""
    filled = [list(task) for task in tasks]
    loads = [sum(weights[one] for one in task) for task in filled]
    for one in sorted(new, key=lambda one: -weights[one]):
        least = min(range(len(filled)), key=lambda number: (loads[number], len(filled[number]), number))
        filled[least].append(one)
        loads[least] += weights[one]
    return tuple(tuple(sorted(task)) for task in filled)


def _greatest(tasks: Layout, weights: Mapping[TopicPartition, float]) -> float:
    return max(sum(weights[one] for one in task) for task in tasks)
