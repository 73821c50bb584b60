"""Reads the planned ranges of the source cluster, or copies them unchanged to the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.copy.compression import codec_of
from headrace.connectors.mirror.copy.connection import can_be_reached
from headrace.connectors.mirror.copy.fetching import FetchLimits, PartitionFetch
from headrace.connectors.mirror.copy.link import CopyProgress, CopyRange, Link
from headrace.connectors.mirror.source.profile import tuned
from headrace.connectors.mirror.source.records import RecordRanges
from headrace.plugins.offsets import Delivery, PartitionResult, Stop, TopicPartition
from headrace.plugins.stopping import StopToken

_READ_AHEAD_BYTES = 16 << 20
_ANSWER_BYTES = 1 << 20
"""librdkafka decompresses a whole answer: without this bound a well compressed one could be many times as much."""


@dataclass(frozen=True)
class CopyRoute:
    """The common part of a task's readers: the clusters, and the settings of the copying."""

    source: ClientConfig
    """The consumer's configuration."""
    source_name: str
    target_name: str
    limits: FetchLimits
    spacing: int
    """The records between two reported pairs of offsets, near the end of a copied range."""
    config: Mapping[str, str] = field(repr=False)
    """The task's config."""

    def link(self) -> Link:
        """Opens new connections."""
        return Link(self.source, f"source ({self.source_name})", f"target ({self.target_name})", self.limits)

    def record_ranges(self) -> RecordRanges:
        """Opens a new consumer."""
        return RecordRanges(self.source.librdkafka(_READ_AHEAD_BYTES, _ANSWER_BYTES))


@dataclass
class Opened:
    """The connections that a task keeps inline from one plan to the next."""

    flow: CopyRoute
    link: Link
    fetches: Mapping[TopicPartition, PartitionFetch]
    """The fetches of all partitions that do not rest."""
    stopping: StopToken
    _records: RecordRanges | None = None
    _can_reach: bool | None = None

    def can_reach(self, target: ClientConfig) -> bool:
        """True if batches can go from the source to the task's one target; found out once, as TLS takes files."""
        if self._can_reach is None:
            self._can_reach = can_be_reached(self.flow.source) and can_be_reached(target)
        return self._can_reach

    @property
    def records(self) -> RecordRanges:
        """The consumer, which most tasks never need."""
        if self._records is None:
            self._records = self.flow.record_ranges()
        return self._records

    def close(self) -> None:
        """Close the connections."""
        self.link.close()
        if self._records is not None:
            self._records.close()


@dataclass
class MirrorReader:
    """Reads or copies the ranges of one plan; picklable, and then opens its own connections."""

    flow: CopyRoute
    ranges: tuple[CopyRange, ...]
    as_records: bool
    """True if the plan has records that cannot be copied in batches."""
    opened: Opened | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "opened": None}

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range. Errors: RetriableError."""
        one = self.ranges[split]
        records = self.flow.record_ranges() if self.opened is None else self.opened.records
        try:
            stopping = None if self.opened is None else self.opened.stopping
            for rows in records.read(one.source, one.after, one.upto, stopping):
                yield _renamed(rows, one.target)
        finally:
            if self.opened is None:
                records.close()

    def can_copy(self, target: ClientConfig) -> bool:
        """True if the ranges can go unchanged to the cluster of this producer."""
        codec = codec_of(target)
        is_served = not self.as_records and (codec is None or codec.is_served)
        return is_served and self.opened is not None and self.opened.can_reach(target)

    def copy(self, splits: Sequence[int], target: ClientConfig, stop: StopToken) -> dict[int, PartitionResult]:
        """Copy these ranges unchanged; return how far each got. Errors: RetriableError."""
        ranges = [self.ranges[split] for split in splits]
        client = tuned(self.flow.config, target)
        if self.opened is not None:
            copied = self.opened.link.copy(ranges, self.opened.fetches, client, stop)
        else:
            link = self.flow.link()
            fetches = {one.source: PartitionFetch(one.source, one.after + 1, one.topic_id) for one in ranges}
            try:
                copied = link.copy(ranges, fetches, client, stop)
            finally:
                link.close()
        return {split: self._result(self.ranges[split], one) for split, one in zip(splits, copied, strict=True)}

    def _result(self, planned: CopyRange, copied: CopyProgress) -> PartitionResult:
        stop = None if copied.why is None else Stop.AS_RECORDS if copied.not_whole else Stop.RETRY
        pairs = copied.runs.pairs(self.flow.spacing)
        return PartitionResult(
            source_offset=None if copied.upto is None else {"offset": copied.upto},
            topics=(planned.target.topic,) if copied.runs.count else (),
            written=copied.runs.count,
            bytes=copied.bytes,
            deliveries=tuple(Delivery({"offset": up}, down, copied.timestamp) for up, down in pairs),
            stop=stop,
            reason=copied.why,
        )


def _renamed(rows: pa.RecordBatch, target: TopicPartition) -> pa.RecordBatch:
    """Kafka's rows as those of a source, in the topic of the target."""
    count = rows.num_rows
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(target.topic), count),
            pa.repeat(pa.scalar(target.partition, pa.int32()), count),
            *(rows[name] for name in ("timestamp", "headers", "key", "value")),
            pa.StructArray.from_arrays([rows["offset"]], ["offset"]),
        ],
        names=["topic", "partition", "timestamp", "headers", "key", "value", "source_offset"],
    )
