"""Columns for which Java looks at bytes."""

from __future__ import annotations

from itertools import product

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.plugins.interop.catalyst.java_calls import is_utf8, place_of_byte

pytestmark = pytest.mark.long

EDGES = (
    0x00,
    0x41,
    0x7F,
    0x80,
    0x8F,
    0x90,
    0x9F,
    0xA0,
    0xBF,
    0xC0,
    0xC1,
    0xC2,
    0xDF,
    0xE0,
    0xED,
    0xEF,
    0xF0,
    0xF4,
    0xFF,
)


def decodes(data: bytes) -> bool:
    try:
        return data.decode() is not None
    except UnicodeDecodeError:
        return False


def test_bytes_are_utf8_where_spark_and_python_say_so(spark: SparkSession) -> None:
    texts = [bytes(text) for length in range(4) for text in product(EDGES, repeat=length)]
    texts += [bytes((0xF0, *text)) for text in product((0x7F, 0x80, 0x8F, 0x90, 0xBF, 0xC0), repeat=3)]
    texts += [bytes((0xF4, *text)) for text in product((0x7F, 0x80, 0x8F, 0x90, 0xBF, 0xC0), repeat=3)]
    rows = spark.createDataFrame([(text,) for text in texts], "data binary")
    text = F.col("data").cast("string")
    found = rows.select("data", is_utf8(F.col("data")), F.is_valid_utf8(text)).collect()
    assert len(found) == len(texts)
    assert [bytes(data) for data, ours, sparks in found if not ours == sparks == decodes(bytes(data))] == []


def test_nothing_is_known_of_no_bytes(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(None,)], "data binary")
    assert rows.select(is_utf8(F.col("data")), place_of_byte(F.col("data"), b"a")).first() == (None, None)


def test_a_byte_is_found_from_a_place_on(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(b"a\\b\\",), (b"\xff\\",), (b"",), (b"abc",)], "data binary")
    places = [place_of_byte(F.col("data"), b"\\", start) for start in (0, 2, 9)]
    assert [tuple(row) for row in rows.select(*places).collect()] == [
        (1, 3, -1),
        (1, -1, -1),
        (-1, -1, -1),
        (-1, -1, -1),
    ]
