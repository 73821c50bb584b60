"""The answer of a job's Python workers: how far each split, or Kafka partition, got, what was staged and reported.

No rows come back.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.offsets import Delivery, PartitionResult, Stop, TopicPartition
from headrace.worker.deadletters.reporting import Reporter

ANSWER: Final = (
    "split int, topics array<string>, topic string, partition int, upto long, source_offset string, "
    "written long, dropped long, bad long, bytes long, deliveries string, stop string, reason string, part binary, "
    "first long, reported string"
)
"""Spark's type of the rows."""


def answer(
    reached: PartitionResult,
    reporter: Reporter | None,
    split: int | None = None,
    part: bytes | None = None,
    first: int | None = None,
) -> pa.RecordBatch:
    """One row of `ANSWER`; `part`: staged by a sink's writer; `first`: the first offset that it was given."""
    topic, partition = reached.partition or (None, None)
    offset = None if reached.source_offset is None else json.dumps(reached.source_offset)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([split], pa.int32()),
            pa.array([list(reached.topics)], pa.list_(pa.string())),
            pa.array([topic], pa.string()),
            pa.array([partition], pa.int32()),
            pa.array([reached.upto], pa.int64()),
            pa.array([offset], pa.string()),
            pa.array([reached.written], pa.int64()),
            pa.array([reached.dropped], pa.int64()),
            pa.array([reached.bad], pa.int64()),
            pa.array([reached.bytes], pa.int64()),
            pa.array([json.dumps(reached.deliveries)], pa.string()),
            pa.array([reached.stop.value if reached.stop else None], pa.string()),
            pa.array([reached.reason], pa.string()),
            pa.array([part], pa.binary()),
            pa.array([first], pa.int64()),
            pa.array([None if reporter is None else reporter.reported.to_json()], pa.string()),
        ],
        names=[column.split()[0] for column in ANSWER.split(", ")],
    )


def reached_of(row: Any) -> PartitionResult:
    """Convert a row, as the driver has it, to the result of its split or partition."""
    return PartitionResult(
        partition=None if row.topic is None else TopicPartition(row.topic, row.partition),
        upto=row.upto,
        source_offset=None if row.source_offset is None else json.loads(row.source_offset),
        topics=tuple(row.topics),
        written=row.written,
        dropped=row.dropped,
        bad=row.bad,
        bytes=row.bytes,
        deliveries=tuple(Delivery(*one) for one in json.loads(row.deliveries)),
        stop=None if row.stop is None else Stop(row.stop),
        reason=row.reason,
    )
