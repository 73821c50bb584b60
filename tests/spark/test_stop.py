"""A row's own verdict on Spark is the one that `PartitionGate` acts on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StructType

from headrace.plugins.contracts import PartitionResult, Stop, TopicPartition
from headrace.plugins.records import ERROR, HEADERS
from headrace.worker.pipeline.partition_gate import PartitionGate, Reports, stop_of

pytestmark = pytest.mark.long

BAD = {"stage": "S", "class": "a.B", "message": 'a "quoted"\n\\ ü {"key":'}


class Nothing:
    """A writer that must get no row."""

    def write(self, rows: pa.RecordBatch) -> None:
        raise AssertionError(rows.to_pylist())

    def finish(self) -> bytes:
        return b""

    def abort(self) -> None: ...


class Lines(Nothing):
    """A writer that takes what it gets."""

    def write(self, rows: pa.RecordBatch) -> None:
        assert rows["line"].to_pylist() == ["x"]


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
    gate = PartitionGate(Nothing(), tolerate=False)
    for batch in rows.toArrow().to_batches():
        gate.write(batch)
    assert list(gate.reached()) == [PartitionResult(TopicPartition("t", 0), None, stop=stop, reason=reason)]


def test_a_bad_row_brings_its_own_bytes_where_they_are_wanted(spark: SparkSession) -> None:
    schema = StructType().add("e", ERROR).add("t", LongType()).add("h", HEADERS).add("k", BinaryType())
    headers = [("h", b"\xff" * 100), ("n", None), ("n", b"")]
    given = [(BAD, 5, headers, b"\x00" * 100), (BAD, None, None, None), (None, 5, headers, b"k")]
    came = F.struct(F.col("t").alias("timestamp"), F.col("h").alias("headers"), F.col("k").alias("key"))
    nothing = F.lit(None).cast("binary")
    rows = (
        spark.createDataFrame(given, schema)
        .coalesce(1)
        .select(
            F.lit("t").alias("_topic"),
            F.lit(0).alias("_partition"),
            F.lit(7).cast("long").alias("_offset"),
            F.lit(False).alias("_drop"),
            stop_of(F.col("e"), nothing, nothing, came).alias("_stop"),
            F.lit("x").alias("line"),
        )
    )
    failed: list[dict[str, Any]] = []
    gate = PartitionGate(Lines(), tolerate=True, reports=Reports(lambda batch: failed.extend(batch.to_pylist())))
    for batch in rows.toArrow().to_batches():
        gate.write(batch)
    assert list(gate.reached()) == [PartitionResult(TopicPartition("t", 0), 7, written=1, bad=2)]
    own = [{"key": "h", "value": b"\xff" * 100}, {"key": "n", "value": None}, {"key": "n", "value": b""}]
    assert [(row["timestamp"], row["headers"], row["key"], row["value"]) for row in failed] == [
        (5, own, b"\x00" * 100, None),
        (None, None, None, None),
    ]
    assert [row["message"] for row in failed] == [BAD["message"]] * 2
