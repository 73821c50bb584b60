"""The age of the oldest record that waits in Kafka for a sink, bounded without asking Kafka for it.

Two things are known of the record that comes next in a partition: it is not older than the last one that was taken,
and it was not there yet when the partition had nothing left. The later of both bounds its age.

Decided: a bound, because to ask for the timestamp of one record takes a fetch of its own; loses: while Spark jobs work
a backlog off, the age is that of where they began, and falls once they have caught up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

import pyarrow as pa

from headrace.plugins.offsets import TopicPartition


class WaitingAge:
    """The ages in the partitions of one sink task; for its own thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._now = now
        self._last: pa.RecordBatch | None = None
        self._stamps: dict[TopicPartition, int] = {}
        """The timestamp of the last record that was taken. Units: milliseconds of the epoch."""
        self._empty: dict[TopicPartition, float] = {}
        """The last time at which nothing waited, by the clock."""

    def took(self, rows: pa.RecordBatch) -> None:
        """Note rows that were taken; they are looked at only if records wait when that is measured."""
        self._last = rows

    def had_all(self, partitions: Collection[TopicPartition], at: float) -> None:
        """Note that all records that were there at this time have been handled."""
        for partition in partitions:
            self._empty[partition] = max(at, self._empty.get(partition, at))

    def measure(self, waiting: Mapping[TopicPartition, int], are_held: bool) -> float | None:
        """Return the seconds that the oldest record has waited at most: 0 if none waits, None if nothing is known.

        `waiting`: the number of records that wait, of each partition of the task; `are_held`: the client learns of no
        new ones now.
        """
        if not are_held:
            self.had_all([partition for partition, count in waiting.items() if not count], self._clock())
        behind = [partition for partition, count in waiting.items() if count]
        if behind and self._last is not None:
            self._note_stamps(self._last)
        self._last = None
        for known in (self._stamps, self._empty):
            for partition in known.keys() - waiting.keys():
                del known[partition]
        ages = [age for partition in behind if (age := self._age(partition)) is not None]
        return max(ages) if ages else None if behind or are_held else 0.0

    def _note_stamps(self, rows: pa.RecordBatch) -> None:
        table = pa.Table.from_batches([rows.select(["topic", "partition", "timestamp"])])
        for row in table.group_by(["topic", "partition"]).aggregate([("timestamp", "max")]).to_pylist():
            if row["timestamp_max"] is not None:
                self._stamps[TopicPartition(row["topic"], row["partition"])] = row["timestamp_max"]

    def _age(self, partition: TopicPartition) -> float | None:
        ages = []
        if (stamp := self._stamps.get(partition)) is not None:
            ages.append(self._now() - stamp / 1000)
        if (empty := self._empty.get(partition)) is not None:
            ages.append(self._clock() - empty)
        return max(0.0, min(ages)) if ages else None
