"""Partitions, offsets and the progress of a batch in each partition; free of Spark, for the control plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

SourcePartition = Mapping[str, Any]
"""Part of a source with its own offsets, as in Connect: `{"filename": "/tmp/a"}`; values are JSON primitives."""

SourceOffset = Mapping[str, Any]
"""Position in a source partition: `{"position": 34, "line": 3}`; values are JSON primitives.

Members whose names begin with `_` are stored, but not shown to operators.
"""


class TopicPartition(NamedTuple):
    """A Kafka partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Stop(StrEnum):
    """Reasons why a batch stopped in a partition."""

    UNKNOWN = "unknown"
    """New schema: resolve it and go on."""
    RETRY = "retry"
    """The outside system accepts no more for now."""
    FATAL = "fatal"
    """This record cannot be processed."""
    AS_RECORDS = "as records"
    """The next rows cannot be copied unchanged (`CopyingReader`): read them as records."""


class TransactionEnd(StrEnum):
    """The ways in which a source that bounds its own transactions ends one."""

    COMMIT = "commit"
    ABORT = "abort"
    """Its records never become visible and do not come again: their offsets are stored all the same."""


class Deliveries(Enum):
    """Rows of a batch whose positions in Kafka a source wants to know."""

    NONE = "none"
    LAST = "last"
    """The last one, in `PartitionResult.deliveries`; costs little for each batch."""
    ALL = "all"
    """All, in `PartitionResult.acknowledged`; only for sources that run in the worker process."""


class Delivery(NamedTuple):
    """A source row acknowledged by Kafka, with its position there."""

    source_offset: SourceOffset
    offset: int
    """In the Kafka partition of the row."""
    timestamp: int
    """Of the record; units: milliseconds since 1970, -1 if unknown."""


@dataclass(frozen=True)
class PartitionResult:
    """Progress of a batch in one partition: everything up to and including `upto` is durable, dropped or dead-lettered.

    Units: for a sink `upto` is a Kafka offset, None if nothing was reached; for a source the position is
    `source_offset`.
    """

    partition: TopicPartition | None = None
    upto: int | None = None
    source_partition: SourcePartition | None = None
    source_offset: SourceOffset | None = None
    topics: tuple[str, ...] = ()
    """Topics that a source's rows went to."""
    written: int = 0
    dropped: int = 0
    bad: int = 0
    bytes: int = 0
    """Bytes of a source's keys and values that were sent to Kafka; those copied unchanged as they are there."""
    deliveries: tuple[Delivery, ...] = ()
    """For a source that wants LAST: rows in order, ending with the last one written."""
    acknowledged: pa.RecordBatch | None = None
    """For a source that wants ALL: acknowledged rows in order, including rows after the position reached.

    Shape: `source_offset, topic, partition, offset, timestamp`. The offset is -1 if the broker does not tell it. The
    timestamp follows the topic's type: the record's, or the time of its arrival.
    """
    stop: Stop | None = None
    reason: str | None = None
    """For UNKNOWN the identity in hex and the side ('key' or 'value'), else a text for people."""

    @property
    def rows(self) -> int:
        """Number of rows written, dropped or bad."""
        return self.written + self.dropped + self.bad


def kafka_offsets(body: Mapping[str, Any]) -> dict[TopicPartition, int | None]:
    """Return a sink's offsets from a request's body (`Connector.check_offsets`); None: to be forgotten."""
    return {
        TopicPartition(one["partition"]["kafka_topic"], one["partition"]["kafka_partition"]): (
            None if one["offset"] is None else one["offset"]["kafka_offset"]
        )
        for one in body["offsets"]
    }
