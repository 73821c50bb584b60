"""The Connect records of heartbeats and checkpoints: keys and values in bytes, to partition 0 of one topic.

With the ByteArrayConverter, which MirrorMaker's workers have, the bytes in Kafka are MirrorMaker's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.plugins.contracts import SourceOffset
from headrace.plugins.records import ERROR, HEADERS, Records
from headrace.plugins.schema import Schema, SchemaType

ROW_TYPE: Final = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
    ]
)
OFFSET_TYPE: Final = pa.struct([("offset", pa.int64())])
OFFSET: Final[SourceOffset] = {"offset": 0}
"""The offset of every such record: it marks that there was one, and nothing is read from it."""

_BYTES: Final = Schema(SchemaType.BYTES)
_ROWS: Final = ROW_TYPE.append(pa.field("source_offset", OFFSET_TYPE))


class ByteRecord(NamedTuple):
    """One record, with its time in milliseconds since 1970."""

    key: bytes
    value: bytes
    timestamp: int


@dataclass(frozen=True)
class ByteRecordReader:
    """Reads one record for each split."""

    records: tuple[ByteRecord, ...]

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """The split's record."""
        record = self.records[split]
        row = {**record._asdict(), "source_offset": OFFSET}
        yield pa.RecordBatch.from_pylist([row], schema=_ROWS)


def byte_records(frame: DataFrame, topic: str) -> Records:
    """The records of these rows."""
    columns = [
        F.lit(topic).alias("topic"),
        F.lit(0).alias("partition"),
        F.col("timestamp"),
        F.lit(None).cast(HEADERS).alias("headers"),
        F.lit(0).alias("key_schema"),
        F.col("key").alias("key_0"),
        F.lit(0).alias("value_schema"),
        F.col("value").alias("value_0"),
        F.lit(None).cast(ERROR).alias("error"),
        F.lit(False).alias("drop"),
        F.col("source_offset"),
        F.col("split"),
    ]
    return Records(frame.select(*columns), keys=(_BYTES,), values=(_BYTES,))
