"""The next offset of a sink task in each of its partitions, and the offsets that its group has committed.

Offsets are of the next record to read, as Kafka commits them. Nothing here asks Kafka; the consumer's parts do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID

from headrace.config.kafka.client_config import reset_age_ms
from headrace.plugins.offsets import TopicPartition
from headrace.worker.kafka.distinct import is_uniform

log = logging.getLogger(__name__)

_STARTS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END, "error": OFFSET_INVALID}
"""The beginning of a partition without a committed offset, by `auto.offset.reset`."""


class Positions:
    """Offsets of the partitions that a task has; for the task's own thread only."""

    def __init__(self, policy: str, whole: Collection[str] = ()) -> None:
        """`policy`: the consumer's `auto.offset.reset`; `whole`: topics read from their beginning anyway."""
        self.policy = policy
        self._whole = set(whole)
        self._next: dict[TopicPartition, int] = {}
        self._began: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    def next(self, partition: TopicPartition) -> int | None:
        """The next record to read; None if nothing was read or committed yet."""
        return self._next.get(partition)

    def began(self, partition: TopicPartition, offset: int) -> None:
        """Note the first record, or end, that the partition gave."""
        self._began[partition] = offset

    def read_from(self, partition: TopicPartition) -> int | None:
        """The next record to read, or where the partition began; None if nothing was read or committed."""
        return self._next.get(partition, self._began.get(partition))

    def start(self, partition: TopicPartition) -> int:
        """`read_from`, or librdkafka's code for the beginning or the end of the partition."""
        known = self.read_from(partition)
        # All records of a topic that was made again are new enough for a policy of age.
        policy = "earliest" if partition.topic in self._whole else self.policy
        return _STARTS.get(policy, OFFSET_BEGINNING) if known is None else known

    def since_ms(self) -> int | None:
        """The timestamp from which a policy of age reads records; None for other policies."""
        age_ms = reset_age_ms(self.policy)
        return None if age_ms is None else int(time.time() * 1000) - age_ms

    def go_on(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note that all before these offsets is done with, or is not wanted."""
        self._next.update(positions)

    def go_on_at_least(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note that all before these offsets is done with; perhaps more is."""
        self.go_on({p: offset for p, offset in positions.items() if offset > self._next.get(p, -1)})

    def go_on_as_told(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note that all before these offsets is done with and nothing after, whatever the group has committed."""
        for partition, offset in positions.items():
            if offset < (committed := self._next.get(partition, offset)):
                log.warning(
                    "%s-%d goes back from offset %d, which its group has committed, to %d, up to which it is written "
                    "in the outside system: that seems to have been restored from a backup",
                    *partition, committed, offset,
                )  # fmt: skip
        self.go_on(positions)

    def found_committed(self, partition: TopicPartition, offset: int) -> None:
        """Note that the group has committed this offset: the task goes on at it."""
        self._next[partition] = self._committed[partition] = offset

    def pass_gap(self, partition: TopicPartition, end: int) -> None:
        """Go past the markers and gaps that are left after the last record."""
        if self._next.get(partition, end) < end:
            self._next[partition] = end

    def in_topic(self, partition: TopicPartition, begin: int, low: int, high: int) -> int:
        """The offset to read on at in the topic's range `[low, high)`; lost records are logged (Invariant 3)."""
        if begin < low:
            to = high if self.policy == "latest" else low
            log.error(
                "%s-%d: the records %d to %d were deleted by the topic's retention before they were read; "
                "going on from %d", *partition, begin, low - 1, to,
            )  # fmt: skip
            return to
        if begin > high:
            log.error("%s-%d ends at offset %d, but was read up to %d: its brokers have lost records; going on from "
                      "its end", *partition, high, begin)  # fmt: skip
            return high
        return begin

    def uncommitted(self) -> dict[TopicPartition, int]:
        """The offsets to commit now."""
        return {p: offset for p, offset in self._next.items() if self._committed.get(p) != offset}

    def uncommitted_of(self, released: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offsets among these that are after the committed ones."""
        return {p: offset for p, offset in released.items() if offset > self._committed.get(p, -1)}

    def ahead(self) -> int:
        """The number of offsets done with since the last commit, as far as that is known."""
        return sum(offset - self._committed.get(partition, offset) for partition, offset in self._next.items())

    def committed(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note that these offsets are committed, as far as is known."""
        self._committed.update(positions)

    def not_committed(self, partitions: Collection[TopicPartition]) -> None:
        """Note that these partitions' offsets have to be committed again."""
        for partition in partitions:
            self._committed.pop(partition, None)

    def forget_topics(self, remade: Collection[str]) -> None:
        """Forget the offsets of topics that were deleted and made again: they are void (Invariant 2).

        All records of the new topics are new, whatever the policy says of records from before the task.
        """
        if self.policy != "error":
            self._whole.update(remade)
        for partition, offset in (self._began | self._next).items():
            if partition.topic in remade:
                log.error(
                    "%s-%d, of which offset %d was next, was deleted and made again: it is read anew; what was not "
                    "read of the former topic is lost", *partition, offset,
                )  # fmt: skip
                self.give_up([partition])

    def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that belong to another task now."""
        for partition in partitions:
            self._next.pop(partition, None)
            self._began.pop(partition, None)
            self._committed.pop(partition, None)

    def new_of(self, messages: Sequence[Any]) -> Sequence[Any]:
        """As `not_handled`, for a few messages: for one, the kernels cost as much as fetching it."""
        known = self._next
        return [one for one in messages if one.offset() >= known.get(TopicPartition(one.topic(), one.partition()), 0)]

    def not_handled(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Drop rows that were handled already: the client may still give what it fetched before a seek."""
        firsts = list(_firsts(rows))
        for partition, first in firsts:
            known = self._next.get(partition)
            if known is None or first >= known:
                continue
            if rows.num_rows == len(firsts) == 1:  # the usual end of small batches, and each kernel costs a part of one
                return rows.slice(1)
            new = pc.greater_equal(rows["offset"], known)
            if len(firsts) > 1:
                topic, number = partition
                new = pc.or_(new, pc.or_(pc.not_equal(rows["topic"], topic), pc.not_equal(rows["partition"], number)))
            rows = rows.filter(new)
        return rows


def ends(rows: pa.RecordBatch) -> dict[TopicPartition, int]:
    """The offset after the last one of each partition in these rows."""
    return {partition: last + 1 for partition, last in _grouped(rows, "max")}


def _firsts(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, int]]:
    topic, partition = rows["topic"], rows["partition"]
    if is_uniform(partition) and is_uniform(topic):
        yield TopicPartition(topic[0].as_py(), partition[0].as_py()), rows["offset"][0].as_py()
        return
    yield from _grouped(rows, "min")


def _grouped(rows: pa.RecordBatch, which: str) -> Iterator[tuple[TopicPartition, int]]:
    """Yield each partition with its least or greatest offset ("min", "max") in these rows."""
    table = pa.Table.from_batches([rows.select(["topic", "partition", "offset"])])
    for row in table.group_by(["topic", "partition"]).aggregate([("offset", which)]).to_pylist():
        yield TopicPartition(row["topic"], row["partition"]), row[f"offset_{which}"]
