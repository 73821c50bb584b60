"""Numbers and booleans as big-endian bytes, compiled inline."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date as day
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StructField, StructType

from headrace.converters.headers import SimpleHeaderConverter
from headrace.converters.json.converter import JsonConverter
from headrace.converters.numbers import (
    BooleanConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from headrace.plugins.contracts import Converter, Decoded
from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records, with_headers_read
from headrace.plugins.schema import DATE, DECIMAL, STRING, Schema, SchemaType, spark_type
from tests.spark.converting import KAFKA_ROW, compiled, configured

pytestmark = [pytest.mark.spark, pytest.mark.long]

INFINITE = (float("inf"), float("-inf"), float("nan"))
NUMBERS: list[tuple[Converter, str, list[Any]]] = [
    (ShortConverter(), ">h", [0, 1, -1, 255, -256, 2**15 - 1, -(2**15)]),
    (IntegerConverter(), ">i", [0, -1, 128, -129, 2**31 - 1, -(2**31)]),
    (LongConverter(), ">q", [0, -1, 2**40, 2**63 - 1, -(2**63)]),
    (FloatConverter(), ">f", [0.0, -0.0, 1.5, -3.75, 2.0**-149, 2.0**127, *INFINITE]),
    (DoubleConverter(), ">d", [0.0, -0.0, 1.1, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, *INFINITE]),
    (BooleanConverter(), ">?", [True, False]),
]


def name(converter: Converter) -> str:
    return type(converter).__name__.removesuffix("Converter").lower()


def here(
    spark: SparkSession,
    types: Sequence[DataType],
    answer: Callable[[int, Column], Decoded],
    values: Sequence[list[Any]],
) -> list[list[Any]]:
    """Of each list of values, which are of the type in its place, the answers or their errors; all in one program."""
    rows = [{f"v{n}": one[row] if row < len(one) else None for n, one in enumerate(values)} for row in range(12)]
    row_type = StructType([StructField(f"v{n}", one) for n, one in enumerate(types)])

    def build(frame: DataFrame) -> DataFrame:
        answers = [answer(n, F.col(f"v{n}")) for n in range(len(types))]
        columns = [
            F.struct(one.value, F.when(one.value.isNull(), one.error)).alias(f"a{n}") for n, one in enumerate(answers)
        ]
        return frame.select(*columns)

    got = compiled(spark, row_type, build, rows)
    told = [[tuple(row[f"a{n}"].values()) for row in got[: len(one)]] for n, one in enumerate(values)]
    return [[error if value is None else value for value, error in one] for one in told]


def written(spark: SparkSession, cases: Sequence[tuple[Converter, Schema | None, list[Any]]]) -> list[list[Any]]:
    types = [spark_type(schema) for _, schema, _ in cases]
    return here(spark, types, lambda n, value: cases[n][0].encode(value, cases[n][1]), [values for *_, values in cases])


def test_numbers_go_both_ways(spark: SparkSession) -> None:
    schemas = [converter.resolve(b"", "t") for converter, *_ in NUMBERS]
    assert all(schema is not None and schema.optional for schema in schemas)
    documents = [[struct.pack(form, value) for value in values] for _, form, values in NUMBERS]
    cases = [(one, schema, [*values, None]) for (one, _, values), schema in zip(NUMBERS, schemas, strict=True)]
    assert written(spark, cases) == [[*one, None] for one in documents]
    wrong = [[b"", one[0][1:], one[0] + b"\x00"] for one in documents]
    given = [good + bad for good, bad in zip(documents, wrong, strict=True)]
    got = here(spark, [BinaryType()] * len(given), lambda n, data: NUMBERS[n][0].decode(data, b"", schemas[n]), given)
    told = [[f"Failed to deserialize {name(converter)}: "] * 3 for converter, *_ in NUMBERS]
    assert [list(map(repr, one)) for one in got] == [
        list(map(repr, values + errors)) for (*_, values), errors in zip(NUMBERS, told, strict=True)
    ]
    (odd,) = here(spark, [BinaryType()], lambda _, data: BooleanConverter().decode(data, b"", None), [[b"\x02"]])
    assert odd == ["Failed to deserialize boolean: "]


def test_values_of_other_types_are_refused(spark: SparkSession) -> None:
    def refused(found: str, by: str = "long") -> str:
        return f"Failed to serialize to {by} (was class {found}): "

    decimal = Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": "0"})
    date = Schema(SchemaType.INT32, name=DATE)
    no_boolean = "Invalid schema type for BooleanConverter: STRING"
    no_object = "BooleanConverter is not compatible with objects of type class java.lang.Long"
    five, half = struct.pack(">q", 5), struct.pack(">d", 0.5)
    cases: list[tuple[Converter, Schema | None, list[Any], list[Any]]] = [
        (LongConverter(), STRING, ["a", None], [refused("java.lang.String"), None]),
        (LongConverter(), Schema(SchemaType.INT32), [1], [refused("java.lang.Integer")]),
        (LongConverter(), decimal, [Decimal(1), None], [refused("java.math.BigDecimal"), None]),
        (IntegerConverter(), date, [day(1970, 1, 2), None], [refused("java.util.Date", "integer"), None]),
        (LongConverter(), None, ["5", "1.5", None], [five, refused("java.lang.Double"), None]),
        (LongConverter(), None, ['"a"', "true"], [refused("java.lang.String"), refused("java.lang.Boolean")]),
        (DoubleConverter(), None, ["0.5", "5"], [half, refused("java.lang.Long", "double")]),
        (ShortConverter(), None, ["5"], [refused("java.lang.Long", "short")]),
        (BooleanConverter(), STRING, ["a", None], [no_boolean, no_boolean]),
        (BooleanConverter(), None, ["true", "false", "5", None], [b"\x01", b"\x00", no_object, None]),
    ]
    assert written(spark, [(one, schema, values) for one, schema, values, _ in cases]) == [
        wanted for *_, wanted in cases
    ]


def test_headers_that_their_converter_cannot_read_are_errors(spark: SparkSession) -> None:
    number = ("n", b"\x00\x00\x00\x01")
    headers = [None, [], [number, ("null", None)], [number, ("bad", b"1"), ("worse", b"")], [("bad", b"2")]]
    values = [b"\x01", b"\x01", b"\x01", b"\x01", b"\x02"]
    rows = [("t", 0, n, None, h, None, v) for n, (h, v) in enumerate(zip(headers, values, strict=True))]
    boolean = configured(BooleanConverter())
    side = ConverterBinding(boolean, "B", ((b"", boolean.resolve(b"", "t")),))
    records = to_records(spark.createDataFrame(rows, KAFKA_ROW), side, side)
    assert with_headers_read(records, SimpleHeaderConverter(), "S") is records
    for settings in ({}, {"schemas.enable": "false"}):
        json = with_headers_read(records, configured(JsonConverter(), settings), "J").frame.orderBy("offset").collect()
        assert [row.error and row.error.stage for row in json] == [
            None,
            None,
            *["HEADER_CONVERTER"] * 2,
            "VALUE_CONVERTER",
        ]
    read = with_headers_read(records, configured(IntegerConverter()), "I").frame.orderBy("offset").collect()
    bad_header = ("HEADER_CONVERTER", "I", "Failed to deserialize integer: ")
    bad_value = ("VALUE_CONVERTER", "B", "Failed to deserialize boolean: ")
    assert [row.error and tuple(row.error) for row in read] == [None, None, None, bad_header, bad_value]
