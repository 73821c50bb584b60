"""Records from Kafka as Arrow batches. The one place where Python touches each incoming record.

Shape: `KAFKA_ROW`, the same columns as a batch that a sink's job reads by Spark's Kafka source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import types as spark

from headrace.plugins.records import HEADERS


class Message(Protocol):
    """A message as confluent-kafka's consumer gives it."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...
    def key(self) -> Any: ...
    def value(self) -> Any: ...


KAFKA_ROW = spark.StructType(
    [
        spark.StructField("topic", spark.StringType()),
        spark.StructField("partition", spark.IntegerType()),
        spark.StructField("offset", spark.LongType()),
        spark.StructField("timestamp", spark.LongType()),
        spark.StructField("headers", HEADERS),
        spark.StructField("key", spark.BinaryType()),
        spark.StructField("value", spark.BinaryType()),
    ]
)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_NO_TIMESTAMP = -1


def to_arrow(messages: Sequence[Message]) -> pa.RecordBatch:
    """These messages as one batch, in their order."""
    headers = [message.headers() for message in messages]
    stamps: list[Any] = [message.timestamp()[1] for message in messages]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([message.topic() for message in messages], pa.string()),
            pa.array([message.partition() for message in messages], pa.int32()),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([None if stamp == _NO_TIMESTAMP else stamp for stamp in stamps], pa.int64()),
            _headers(headers) if any(headers) else pa.nulls(len(messages), _HEADERS),
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
        ],
        names=KAFKA_ROW.names,
    )


def _headers(headers: Sequence[Any]) -> pa.Array:
    return pa.array(
        [[{"key": key, "value": value} for key, value in of_one] if of_one else None for of_one in headers], _HEADERS
    )
