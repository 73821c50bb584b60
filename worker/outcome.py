"""The outcome of a batch, inline or of a job: one type for all of a batch, and one merge of its parts' results."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from headrace.plugins.offsets import PartitionResult, Stop, TopicPartition

Key = TypeVar("Key", bound=Hashable)


@dataclass
class Counts:
    """The counts of one partition or split while its batch runs."""

    written: int = 0
    dropped: int = 0
    bad: int = 0
    bytes: int = 0
    stop: Stop | None = None
    reason: str | None = None

    def result(self, **place: Any) -> PartitionResult:
        """Convert the counts to a result; `place` names the partition, and how far it got."""
        return PartitionResult(
            **place,
            written=self.written,
            dropped=self.dropped,
            bad=self.bad,
            bytes=self.bytes,
            stop=self.stop,
            reason=self.reason,
        )


class Outcome(Generic[Key]):
    """The result of each Kafka partition of a sink's batch, or of each split (by its number) of a source's."""

    def __init__(self, of: Mapping[Key, PartitionResult] | None = None, by_job: bool = False) -> None:
        """`by_job`: a Spark job moved the batch."""
        self.of: dict[Key, PartitionResult] = dict(of or {})
        self.by_job = by_job

    def __iter__(self) -> Iterator[PartitionResult]:
        return iter(self.of.values())

    @property
    def rows(self) -> int:
        """The number of rows that are done with."""
        return sum(one.rows for one in self)

    @property
    def stops(self) -> set[Stop]:
        """The reasons for which parts of the batch went no further."""
        return {one.stop for one in self if one.stop is not None}

    def add(self, key: Key, now: PartitionResult) -> None:
        """Merge the result of the batch's next part in a partition or split.

        After a stop nothing counts. Without one nothing goes back: slow records are refused last, although they lie
        before rows that were written.
        """
        before = self.of.get(key)
        if before is None or before.stop is not None:
            self.of.setdefault(key, now)
            return
        upto = before.upto if now.upto is None else now.upto
        if now.stop is None and upto is not None and before.upto is not None:
            upto = max(before.upto, upto)
        self.of[key] = replace(
            now,
            upto=upto,
            source_offset=before.source_offset if now.source_offset is None else now.source_offset,
            topics=tuple(sorted({*before.topics, *now.topics})),
            written=before.written + now.written,
            dropped=before.dropped + now.dropped,
            bad=before.bad + now.bad,
            bytes=before.bytes + now.bytes,
            deliveries=before.deliveries + now.deliveries,
        )


def read_to(outcome: Outcome[TopicPartition], ends: Mapping[TopicPartition, int]) -> None:
    """Note that partitions without a stop were read to these ends: after their rows are only gaps and markers."""
    for partition, end in ends.items():
        reached = outcome.of.get(partition, PartitionResult(partition))
        outcome.of[partition] = reached if reached.stop is not None else replace(reached, upto=end - 1)


def hold(outcome: Outcome[TopicPartition], firsts: Mapping[TopicPartition, int]) -> None:
    """Take partitions no further than the first offset that their sink holds."""
    for partition, first in firsts.items():
        reached = outcome.of.get(partition, PartitionResult(partition, first - 1))
        upto = first - 1 if reached.upto is None else min(reached.upto, first - 1)
        outcome.of[partition] = replace(reached, upto=upto)


def leave_out(outcome: Outcome[TopicPartition], counts: Mapping[TopicPartition, int]) -> None:
    """Count so many rows of partitions as dropped: their sink left them out."""
    for partition in counts.keys() & outcome.of.keys():
        reached = outcome.of[partition]
        count = min(reached.written, counts[partition])
        outcome.of[partition] = replace(reached, written=reached.written - count, dropped=reached.dropped + count)
