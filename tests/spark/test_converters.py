"""Converters over hostile values, each as a Spark job and compiled inline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from headrace.converters.bytes import ByteArrayConverter
from headrace.converters.json.converter import JsonConverter
from headrace.converters.string import StringConverter
from headrace.plugins.contracts import Converter
from headrace.plugins.schema import OPTIONAL_BYTES, OPTIONAL_STRING, STRING, Schema, SchemaType, spark_type
from tests.spark.converting import compiled, configured, read

pytestmark = pytest.mark.spark

BEFORE = b'{"schema":{"type":"string","optional":false},"payload":'
LONG = "x\\" * 1_000_000


def encoded(spark: SparkSession, converter: Converter, schema: Schema | None, values: list[Any]) -> list[Any]:
    """The bytes, or the error's text, as a job gives them; inline must give the same."""
    row = StructType([StructField("n", StringType()), StructField("v", spark_type(schema))])
    made = converter.encode(F.col("v"), schema)
    columns = [F.col("n"), made.value.alias("data"), F.when(made.value.isNull(), made.error).alias("error")]
    rows = [{"n": f"{n:04}", "v": value} for n, value in enumerate(values)]
    frame = spark.createDataFrame([(one["n"], one["v"]) for one in rows], row)
    there = [tuple(got) for got in frame.select(*columns).orderBy("n").collect()]
    here = [tuple(got.values()) for got in compiled(spark, row, lambda frame: frame.select(*columns), rows)]
    assert here == [(n, data and bytes(data), error) for n, data, error in there]
    return [bytes(data) if data is not None else error for _, data, error in there]


SPELLINGS: list[tuple[bytes, str | None]] = [
    (BEFORE + b'"}', None),
    (BEFORE + b'""}', ""),
    (BEFORE + b'"a","x":"b"}', None),
    (BEFORE + b'"a"}"}', "a"),
    (BEFORE + b'"a\\\\"}', "a\\"),
    (BEFORE + b'"a\\"}', None),
    (BEFORE + b'"\xff"}', None),
    (BEFORE + '"\\u00e9漢"}'.encode(), "é漢"),
    (BEFORE + b'"tab\there"}', "tab\there"),
    (b'{ "payload" : "p", "schema" : {"type":"string"} }', "p"),
    (b'{"schema":{"type":"string","parameters":{"a":"b","payload":"c"}},"payload":"trap"}', "trap"),
    (b'{"schema":{"type":"string","doc":"\xff"},"payload":"x"}', None),
]


@pytest.mark.long
def test_json_strings_of_every_spelling(spark: SparkSession) -> None:
    """In one batch, so that each identity also meets the documents of the others."""
    got = read(spark, configured(JsonConverter()), [document for document, _ in SPELLINGS])
    assert [(one.value, one.error is None) for one in got] == [(text, text is not None) for _, text in SPELLINGS]


@pytest.mark.long
def test_a_long_value_needs_no_deep_stack(spark: SparkSession) -> None:
    (data,) = encoded(spark, configured(JsonConverter()), STRING, [LONG])
    (got,) = read(spark, configured(JsonConverter()), [data])
    assert got.value == LONG
    (utf16,) = read(spark, string("UTF-16LE"), [LONG.encode("utf-16-le")])
    assert utf16.value == LONG


@pytest.mark.parametrize(
    ("settings", "schema", "value", "data"),
    [
        ({}, STRING, "a", BEFORE + b'"a"}'),
        ({}, STRING, 'a"\\/\t\x01\x7fé', BEFORE + '"a\\"\\\\/\\t\\u0001\x7fé"}'.encode()),
        ({}, None, None, None),
        ({}, None, '{"a":1}', b'{"schema":null,"payload":{"a":1}}'),
        ({"schemas.enable": "false"}, None, '"text"', b'"text"'),
        ({"schemas.enable": "false"}, OPTIONAL_STRING, None, b"null"),
        ({"schemas.enable": "false"}, OPTIONAL_BYTES, b"\xff" * 100, b'"' + b"/" * 132 + b'/w=="'),
        ({}, Schema(SchemaType.STRUCT), None, "Conversion error: null value for field that is required"),
    ],
)
def test_json_is_written(
    spark: SparkSession, settings: Mapping[str, str], schema: Schema | None, value: Any, data: bytes | str | None
) -> None:
    (got,) = encoded(spark, configured(JsonConverter(), settings), schema, [value])
    assert got == data or (isinstance(data, str) and data in got)


def test_an_unreadable_number_is_an_error(spark: SparkSession) -> None:
    (got,) = read(spark, configured(JsonConverter()), [b'{"schema":{"type":"int8"},"payload":' + b"9" * 39 + b"}"])
    assert got.error == "A number of more than 38 digits for an integer, which Headrace cannot hold"


def string(encoding: str) -> StringConverter:
    return configured(StringConverter(), {"converter.encoding": encoding})


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        ("UTF-8", "é漢😀".encode(), "é漢😀"),
        ("UTF-8", b"", ""),
        ("UTF-8", b"a\xffb\xe6\xbcc", "a\ufffdb\ufffdc"),
        ("ISO-8859-1", b"\xe9\xff", "éÿ"),
        ("US-ASCII", b"a\xe9\xff", "a\ufffd\ufffd"),
        ("UTF-16", "é😀".encode("utf-16-be"), "é😀"),
        ("UTF-16", b"\xff\xfe" + "é😀".encode("utf-16-le"), "é😀"),
        ("UTF-16LE", "é😀".encode("utf-16-le"), "é😀"),
        ("UTF-16BE", b"\xd8\x00a", None),
        ("UTF-16LE", b"a", None),
    ],
)
def test_text_is_read(spark: SparkSession, encoding: str, data: bytes, text: str | None) -> None:
    (got,) = read(spark, string(encoding), [data])
    assert got.value == text
    assert got.error == (None if text is not None else f"Value is not valid {encoding}")


@pytest.mark.parametrize(
    ("encoding", "schema", "value", "data"),
    [
        ("UTF-8", STRING, "é", b"\xc3\xa9"),
        ("UTF-8", STRING, None, None),
        ("UTF-8", Schema(SchemaType.FLOAT64), 1e10, b"1.0E10"),
        ("UTF-8", Schema(SchemaType.INT8), -3, b"-3"),
        ("UTF-8", None, '"text"', b"text"),
        ("ISO-8859-1", STRING, "é漢", b"\xe9?"),
        ("US-ASCII", STRING, "é😀", b"??"),
        ("UTF-16", STRING, "é", b"\xfe\xff\x00\xe9"),
    ],
)
def test_text_is_written(
    spark: SparkSession, encoding: str, schema: Schema | None, value: Any, data: bytes | None
) -> None:
    assert encoded(spark, string(encoding), schema, [value]) == [data]


def test_bytes_stay_bytes(spark: SparkSession) -> None:
    converter = configured(ByteArrayConverter())
    assert [got.value for got in read(spark, converter, [b"", b"\xff\x00"])] == [b"", b"\xff\x00"]
    assert encoded(spark, converter, OPTIONAL_BYTES, [b"", b"\xff", None]) == [b"", b"\xff", None]
    assert encoded(spark, converter, STRING, ["a"]) == ["Invalid schema type for ByteArrayConverter: STRING"]
    classes = encoded(spark, converter, None, ['"a"', "1", "1.0", "true", "[1]", '{"a":1}', None])
    prefix = "ByteArrayConverter is not compatible with objects of type class java."
    assert [str(text).removeprefix(prefix) for text in classes] == [
        "lang.String",
        "lang.Long",
        "lang.Double",
        "lang.Boolean",
        "util.ArrayList",
        "util.HashMap",
        "None",
    ]
