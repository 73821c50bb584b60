"""Records from Kafka as Arrow batches: the one place where Python touches each incoming record.

Shape: `KAFKA_ROW`, the same columns as of a batch that a sink's job reads by Spark's Kafka source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import types as spark

from headrace.plugins.errors import DataError
from headrace.plugins.records import HEADERS

Headers: TypeAlias = "list[tuple[str, bytes | None]]"


class KafkaMessage(Protocol):
    """A message of confluent-kafka's consumer."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> Headers | None: ...
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
_ROW = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_NO_TIMESTAMP = -1
_headers: Final[Callable[[KafkaMessage], Headers | None]] = methodcaller("headers")
"""Calls the method from C code; see `headers_of`."""


def headers_of(message: KafkaMessage) -> Headers | None:
    """Return the message's headers. Errors: DataError if the name of one is not UTF-8.

    confluent-kafka (2.16) then answers with a list that has a null pointer, and an error set. If C code calls the
    method, Python sees the error; called from Python 3.11 and newer, the process may end.
    """
    try:
        return _headers(message)
    except SystemError as error:
        at = f"{message.topic()}-{message.partition()} at offset {message.offset()}"
        raise DataError(
            f"The record of {at} has a header whose name is not UTF-8, which confluent-kafka cannot read. Begin after "
            "it: stop the connector, and set the partition's offset by PATCH /connectors/NAME/offsets"
        ) from error


def to_arrow(messages: Sequence[KafkaMessage]) -> pa.RecordBatch:
    """Convert these messages to one batch, in their order. Errors: DataError for one whose headers cannot be read.

    Decided: one call of Arrow makes all columns, because a call for each column takes twice as long for one message, as
    in most batches (45 microseconds instead of 20), and as long for 10,000; loses: a fifth for messages with headers.
    """
    return pa.RecordBatch.from_struct_array(pa.array([_row(message) for message in messages], _ROW))


def _row(message: KafkaMessage) -> tuple[Any, ...]:
    stamp = message.timestamp()[1]
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        None if stamp == _NO_TIMESTAMP else stamp,
        headers_of(message) or None,
        message.key(),
        message.value(),
    )
