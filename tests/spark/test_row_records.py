"""Records of rows by the names of their columns, and columns of records by their schemas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.plugins.arrow_types import struct_of
from headrace.plugins.java_text import value_text
from headrace.plugins.records import Records
from headrace.plugins.row_records import records_by_name
from headrace.plugins.schema import STRING, SchemaType

pytestmark = pytest.mark.spark
OWN = [("source_offset", pa.struct([("n", pa.int64())])), ("split", pa.int32())]


def records(spark: SparkSession, row_type: pa.Schema, *rows: tuple[Any, ...]) -> Records:
    whole = struct_of(pa.schema([*row_type, *map(pa.field, *zip(*OWN, strict=True))]))
    frame = spark.createDataFrame([(*row, (n,), 0) for n, row in enumerate(rows)], whole)
    return records_by_name(frame, row_type, ["t"])


def test_columns_named_as_parts_of_a_record_become_these(spark: SparkSession) -> None:
    row_type = pa.schema(
        [("key", pa.string()), ("value", pa.int64()), ("timestamp", pa.int64()), ("topic", pa.string())]
    )
    made = records(spark, row_type, ("k", 7, 1_000, "other"), (None, None, None, "t"))
    rows = made.frame.select(
        "topic", "key_0", "value_0", "timestamp", "partition", "headers", "source_offset"
    ).collect()
    assert [tuple(row) for row in rows] == [("other", "k", 7, 1_000, None, None, (0,)), ("t", *[None] * 5, (1,))]
    assert [(one.type, one.optional) for one in (*made.keys, *made.values) if one] == [
        (SchemaType.STRING, True),
        (SchemaType.INT64, True),
    ]


def test_other_columns_together_are_the_value(spark: SparkSession) -> None:
    made = records(spark, pa.schema([("id", pa.int64()), ("a.b", pa.string()), ("key", pa.int32())]), (1, "x", 5))
    (row,) = made.frame.select("topic", "key_0", "value_0").collect()
    assert (row.topic, row.key_0, row.value_0.asDict()) == ("t", 5, {"id": 1, "a.b": "x"})
    (schema,) = made.values
    assert schema is not None
    assert [field.name for field in schema.fields] == ["id", "a.b"]


def test_what_spark_would_misread_is_refused(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match=r"no time of day \(at\); write int32"):
        records_by_name(spark.range(1), pa.schema([("at", pa.struct([("t", pa.time32("ms"))]))]), ["t"])
    with pytest.raises(ValueError, match="add the column `topic`"):
        records_by_name(spark.range(1), pa.schema([("v", pa.int32())]), ["t", "u"])


def test_each_value_is_taken_by_its_schema(spark: SparkSession) -> None:
    rows = [(0, '"j"', "a"), (1, "1", "b"), (None, None, None)]
    frame = spark.createDataFrame(rows, "value_schema int, value_0 string, value_1 string")
    made = Records(frame, (), (None, STRING))
    shown = made.of_values(lambda value, schema: value if schema is None else F.upper(value))
    assert [tuple(row) for row in frame.select(shown, value_text(made)).collect()] == [
        ('"j"', "j"),
        ("B", "b"),
        (None, "null"),
    ]
