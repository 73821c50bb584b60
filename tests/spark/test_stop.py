"""What a row says about itself on Spark is what `Prefix` makes of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from headrace.plugins.contracts import Reached, Stop, TopicPartition
from headrace.plugins.records import ERROR
from headrace.worker.prefix import Prefix, stop_of

BAD = {"stage": "S", "class": "a.B", "message": 'a "quoted"\n\\ ü {"key":'}


class Nothing:
    """A writer that must get no row."""

    def write(self, rows: pa.RecordBatch) -> None:
        raise AssertionError(rows.to_pylist())

    def finish(self) -> bytes:
        return b""

    def abort(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "key", "value", "stop", "reason"),
    [
        (BAD, None, None, Stop.FATAL, f"S (a.B), record of t-0 at offset 7: {BAD['message']}"),
        (None, b"\x00\xff", None, Stop.UNKNOWN, "key:00ff"),
        (None, None, b"", Stop.UNKNOWN, "value:"),
        (None, b"k", b"v", Stop.UNKNOWN, "key:6b"),
    ],
)
def test_why_a_row_stops_its_partition(
    error: Any, key: bytes | None, value: bytes | None, stop: Stop, reason: str, spark: SparkSession
) -> None:
    schema = StructType().add("e", ERROR).add("k", BinaryType()).add("v", BinaryType())
    rows = spark.createDataFrame([(error, key, value)], schema).select(
        F.lit("t").alias("_topic"),
        F.lit(0).alias("_partition"),
        F.lit(7).cast("long").alias("_offset"),
        F.lit(False).alias("_drop"),
        stop_of(F.col("e"), F.col("k"), F.col("v")).alias("_stop"),
        F.lit("x").alias("line"),
    )
    prefix = Prefix(Nothing(), tolerate=False)
    for batch in rows.toArrow().to_batches():
        prefix.write(batch)
    assert prefix.reached() == [Reached(TopicPartition("t", 0), None, stop=stop, reason=reason)]
