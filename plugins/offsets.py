"""Partitions, offsets and how far a batch got in each partition; free of Spark, for the control plane to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

SourcePartition = Mapping[str, Any]
"""A part of a source with its own offsets, as in Connect: `{"filename": "/tmp/a"}`; values are JSON primitives."""

SourceOffset = Mapping[str, Any]
"""How far a source partition was read: `{"position": 34, "line": 3}`; values are JSON primitives.

Members whose names begin with `_` are stored like the others, but not shown to operators.
"""


class TopicPartition(NamedTuple):
    """A Kafka partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Stop(StrEnum):
    """Why a batch went no further in a partition."""

    UNKNOWN = "unknown"
    """A schema not met before: resolve it and go on."""
    RETRY = "retry"
    """The outside system could not take more now."""
    FATAL = "fatal"
    """This record cannot be processed."""
    AS_RECORDS = "as records"
    """What comes next cannot be copied as it is (`CopyingReader`): read it as records."""


class TransactionEnd(StrEnum):
    """How a source that bounds its transactions itself ends one."""

    COMMIT = "commit"
    ABORT = "abort"
    """Nobody ever sees its records, and they do not come again: their offsets are stored all the same."""


class Deliveries(Enum):
    """Of which of a batch's rows a source wants to know where they stand in Kafka."""

    NONE = "none"
    LAST = "last"
    """Of the last one, in `PartitionResult.deliveries`; costs a little a batch."""
    ALL = "all"
    """Of each one, in `PartitionResult.acknowledged`; only for sources that run in the worker's own process."""


class Delivery(NamedTuple):
    """A source's row that Kafka acknowledged, and where it stands there."""

    source_offset: SourceOffset
    offset: int
    """In the Kafka partition that the row went to."""
    timestamp: int
    """The record's; units: milliseconds since 1970, -1 where it is not known."""


@dataclass(frozen=True)
class PartitionResult:
    """How far a batch got in one partition: everything up to and including `upto` is durable, dropped or dead-lettered.

    Units: `upto` is a Kafka offset for a sink, None where nothing was reached; a source partition's `upto` is in
    `source_offset`.
    """

    partition: TopicPartition | None = None
    upto: int | None = None
    source_partition: SourcePartition | None = None
    source_offset: SourceOffset | None = None
    topics: tuple[str, ...] = ()
    """The topics that a source's rows went to."""
    written: int = 0
    dropped: int = 0
    bad: int = 0
    bytes: int = 0
    """Of what a source copied as it is (`CopyingReader`)."""
    deliveries: tuple[Delivery, ...] = ()
    """Rows of a source that wants LAST, in order: the last one written, and maybe some before it."""
    acknowledged: pa.RecordBatch | None = None
    """The rows of a source that wants ALL that Kafka has, in order; also rows after the one reached.

    Shape: `source_offset, topic, partition, offset, timestamp`; the offset is -1 where the broker does not tell it, the
    timestamp is the topic's own: the record's, or the time of its arrival.
    """
    stop: Stop | None = None
    reason: str | None = None
    """For UNKNOWN the identity in hex and the side ('key' or 'value'), else what happened, for people."""

    @property
    def rows(self) -> int:
        """How many rows are done with: written, dropped or bad."""
        return self.written + self.dropped + self.bad


def kafka_offsets(body: Mapping[str, Any]) -> dict[TopicPartition, int | None]:
    """The offsets of a sink in a request's body (`Connector.check_offsets`); None: to be forgotten."""
    return {
        TopicPartition(one["partition"]["kafka_topic"], one["partition"]["kafka_partition"]): (
            None if one["offset"] is None else one["offset"]["kafka_offset"]
        )
        for one in body["offsets"]
    }
