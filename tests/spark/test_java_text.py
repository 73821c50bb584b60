"""Structs as Java prints them: what is null in them, and how long what prints them is."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.plugins.java_text import decimal_text, java_text
from headrace.plugins.schema import Field, Schema, SchemaType, spark_type

pytestmark = pytest.mark.long

INT, TEXT = Schema(SchemaType.INT32), Schema(SchemaType.STRING, optional=True)


def struct(**fields: Schema) -> Schema:
    return Schema(SchemaType.STRUCT, fields=tuple(Field(name, schema) for name, schema in fields.items()))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, "x", 2), "Struct{a=1,b=x,c=2}"),
        ((1, None, 2), "Struct{a=1,c=2}"),
        ((1, "x", None), "Struct{a=1,b=x}"),
        ((None, "x", 2), "Struct{b=x,c=2}"),
        ((None, None, None), "Struct{}"),
        (None, "null"),
    ],
)
def test_nulls_are_left_out_even_where_the_schema_has_none(
    spark: SparkSession, value: tuple[object, ...] | None, text: str
) -> None:
    schema = struct(a=INT, b=TEXT, c=INT)
    rows = spark.createDataFrame([(value,)], f"v {spark_type(schema).simpleString()}")
    assert rows.select(java_text(F.col("v"), schema)).first() == (text,)


def nested(levels: int) -> Schema:
    return struct(n=INT) if levels == 0 else struct(n=INT, deeper=nested(levels - 1))


def test_each_level_of_structs_adds_as_much_as_the_one_before(spark: SparkSession) -> None:
    sizes = [len(str(java_text(F.col("v"), nested(levels)))) for levels in (4, 8, 12)]
    assert sizes[2] - sizes[1] < 2 * (sizes[1] - sizes[0])
    value: tuple[object, ...] = (8,)
    for n in range(7, -1, -1):
        value = (n, value)
    schema = nested(8)
    rows = spark.createDataFrame([(value,)], f"v {spark_type(schema).simpleString()}")
    (text,) = rows.select(java_text(F.col("v"), schema)).first() or ()
    assert text == "".join(f"Struct{{n={n},deeper=" for n in range(8)) + "Struct{n=8}" + "}" * 8


def test_the_smallest_decimals_keep_their_sign(spark: SparkSession) -> None:
    texts = ["-1E-38", "1E-38", "0E-38", "-1.2E-37"]
    rows = spark.createDataFrame([(Decimal(text),) for text in texts], "value decimal(38, 38)")
    assert [text for (text,) in rows.select(decimal_text(F.col("value"), 38)).collect()] == texts
