"""AvroConverter over Spark's codec, against fastavro; each as a job, and compiled inline."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any
from unittest.mock import patch

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from headrace.converters.avro.converter import AvroConverter
from headrace.converters.bytes import ByteArrayConverter
from headrace.plugins.interop.avro.parsing import MOST_DEPTH
from headrace.plugins.interop.avro.tree import ENUM, FIXED_SIZE, UNION
from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
    spark_type,
)
from tests.spark.avro_values import Generator, T, datum, in_order, without_logical_types
from tests.spark.converting import KAFKA_ROW, compiled, configured, read
from tests.unit.converters.avro.fake_registry import FakeRegistry, registry_of

pytestmark = pytest.mark.spark

URL = {"schema.registry.url": "http://localhost:1"}
NULL_REFUSED = "Found null value for non-optional schema"
UNREADABLE = "Failed to deserialize data for topic t to Avro: "


def avro(settings: Mapping[str, str] | None = None) -> AvroConverter:
    """A converter, with an empty registry."""
    with patch("headrace.converters.registry.converter.SchemaRegistry", FakeRegistry):
        return configured(AvroConverter(), {**URL, **(settings or {})})


def written(converter: AvroConverter, schema: Any, value: Any) -> bytes:
    """The bytes that a producer with this schema sends."""
    number = registry_of(converter).register("t-value", json.dumps(schema))
    body = io.BytesIO()
    fastavro.schemaless_writer(body, without_logical_types(json.dumps(schema)), value)
    alone = 1 if isinstance(schema, dict) and schema["type"] == "bytes" else 0  # then no length stands before it
    return b"\x00" + number.to_bytes(4, "big") + body.getvalue()[alone:]


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    """A record schema of fields `f0`, `f1`, …"""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{n}", "type": type_} for n, type_ in enumerate(fields)],
    }


def encoded(
    spark: SparkSession, converter: AvroConverter, schema: Schema | None, values: Sequence[Any], topic: str = "t"
) -> list[Any]:
    """The bytes, or the error's text."""
    row = StructType([StructField("n", IntegerType()), StructField("v", spark_type(schema))])
    converter.learn(topic, schema)
    made = converter.encode_for(F.lit(topic), F.col("v"), schema)
    assert made.unknown is not None
    frame = spark.createDataFrame(list(enumerate(values)), row).coalesce(1)
    columns = [
        F.col("n"),
        made.value.alias("v"),
        F.when(made.value.isNull(), made.error).alias("e"),
        made.unknown.alias("u"),
    ]
    got = sorted(frame.select(*columns).collect(), key=lambda one: int(one.n))
    assert not any(one.u for one in got)
    return [one.e if one.v is None else bytes(one.v) for one in got]


def decoded(spark: SparkSession, converter: AvroConverter, data: Sequence[bytes]) -> list[tuple[Any, str | None]]:
    """Values and errors of bytes of one schema, by the thorough way alone."""
    schema = converter.resolve(data[0][:5], "t")
    frame = spark.createDataFrame(list(enumerate(data)), "n int, v binary").coalesce(1)
    value, error = converter.decode(F.col("v"), data[0][:5], schema)
    rows = frame.select("n", value.alias("v"), error.alias("e")).collect()
    return [(row.v, row.e if row.v is None else None) for row in sorted(rows)]


def plain(value: Any) -> Any:
    """A collected value in types that compare."""
    match value:
        case bytearray():
            return bytes(value)
        case dt.datetime():
            return value.replace(tzinfo=dt.UTC)
        case tuple():
            return tuple(plain(one) for one in value)
        case list():
            return [plain(one) for one in value]
        case dict():
            return {plain(k): plain(v) for k, v in value.items()}
    return value


def test_values_of_all_kinds_go_and_come(spark: SparkSession) -> None:
    """Values that we write are read by fastavro, and the converter reads them back as they were."""
    generator, converter = Generator(2), avro({"enhanced.avro.schema.support": "true"})
    schemas = [generator.schema() for _ in range(12)]
    rows = [[generator.value(schema) for schema in schemas] for _ in range(12)]
    for schema in schemas:
        converter.learn("t", schema)
    number = StructField("n", IntegerType())
    types = StructType([number, *(StructField(f"v{n}", spark_type(schema)) for n, schema in enumerate(schemas))])
    frame = spark.createDataFrame([(n, *row) for n, row in enumerate(rows)], types).coalesce(1)
    bytes_of = [converter.encode_for(F.lit("t"), F.col(f"v{n}"), schema).value for n, schema in enumerate(schemas)]
    data = sorted(frame.select("n", *(made.alias(f"v{n}") for n, made in enumerate(bytes_of))).collect())
    values = []
    for n, schema in enumerate(schemas):
        found = [one[f"v{n}"] for one in data]
        wanted = [row[n] for row in rows]
        assert [one is None for one in found] == [one is None for one in wanted]
        identity = next(bytes(one[:5]) for one in found if one is not None)
        text = registry_of(converter).schema(int.from_bytes(identity[1:], "big"))
        for one, value in zip(found, wanted, strict=True):
            if one is not None:
                body = bytes(one[5:])
                theirs = body if schema.type is T.BYTES and not schema.optional else in_order(_fastavro(text, body))
                assert theirs == datum(schema, value)
        values.append(converter.decode(F.col(f"v{n}"), identity, converter.resolve(identity, "t")).value)
    stored = StructType([number, *(StructField(f"v{n}", BinaryType()) for n in range(len(schemas)))])
    again = spark.createDataFrame(data, stored).coalesce(1)
    back = sorted(again.select("n", *(value.alias(f"v{n}") for n, value in enumerate(values))).collect())
    assert [[plain(value) for value in row[1:]] for row in back] == rows


def _fastavro(text: str, body: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(body), without_logical_types(text))


INNER = record("string", name="In")
ENTRY = {"type": "record", "name": "io.confluent.connect.avro.MapEntry"} | {
    "fields": [{"name": "key", "type": ["null", "double"]}, {"name": "value", "type": "string"}]
}
INT8, INT16 = ({"type": "int", "connect.type": name} for name in ("int8", "int16"))
DECIMAL_2 = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}
FIXED_DECIMAL = {"type": "fixed", "name": "FD", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
UUID = {"type": "string", "logicalType": "uuid"}
READ: list[tuple[Any, Any, Any]] = [
    ("string", "é😀", "é😀"),
    ("long", -(1 << 63), -(1 << 63)),
    (["null", "long"], None, None),
    (["long", "null"], 5, 5),
    (["null", INNER], {"f0": "x"}, ("x",)),
    ([INNER, "null"], {"f0": "x"}, ("x",)),
    ([INNER, "null"], None, None),
    (DECIMAL_2, b"\xff\x01", Decimal("-2.55")),
    ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
    (record(INT8, INT16), {"f0": 300, "f1": -40000}, (44, 25536)),
    (record(MICROS, UUID, FIXED_DECIMAL), {"f0": 7, "f1": "u", "f2": b"\xff\xff\xff\x01"}, (7, "u", Decimal("-2.55"))),
    (record(["int", "long"]), {"f0": ("long", 1 << 40)}, ((None, 1 << 40),)),
    (record(["float", "null", "double"]), {"f0": None}, (None,)),
    (record(["null", "string", {"type": "array", "items": INNER}]), {"f0": [{"f0": "y"}]}, ((None, [("y",)]),)),
    (
        record({"type": "array", "items": ENTRY}),
        {"f0": [{"key": k, "value": v} for k, v in ((1, "a"), (2, "b"), (1, "c"))]},
        ({2.0: "b", 1.0: "c"},),
    ),
    (record(["null", "int"], ["null", "int"]), {"f0": None, "f1": None}, (None, None)),
    (record(), {}, ()),
]  # fmt: skip


def test_what_others_wrote_is_read(spark: SparkSession) -> None:
    converter = avro()
    documents = [written(converter, schema, value) for schema, value, _ in READ]
    raw = b"\x00" + registry_of(converter).register("t-value", '"bytes"').to_bytes(4, "big")
    got = read(spark, converter, [*documents, raw + b"\x00\xff"])
    wanted = [value for _, _, value in READ]
    assert [(plain(one.value), one.error) for one in got] == [(value, None) for value in [*wanted, b"\x00\xff"]]
    assert [one.schema.type for one in got if one.schema][-1] is SchemaType.BYTES


def test_a_null_becomes_the_default_of_its_field(spark: SparkSession) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["string", "null"], "default": "d"}]}
    for settings, value in (({}, "d"), ({"ignore.default.for.nullables": "true"}, None)):
        converter = avro(settings)
        (got,) = read(spark, converter, [written(converter, schema, {"a": None})])
        assert got.value == (value,)


HOSTILE = record("long", "string", DECIMAL_2, {"type": "long", "logicalType": "timestamp-millis"}, ["null", "int"])
LENGTHS = [b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x04", b"\xff" * 10]


def test_broken_bytes_are_errors_of_their_records(spark: SparkSession) -> None:
    converter = avro()
    value = {"f0": 1, "f1": "text", "f2": b"\x01", "f3": 5, "f4": 3}
    good = written(converter, HOSTILE, value)
    cut = [good[:length] for length in range(len(good))]
    beyond = [value | change for change in ({"f2": b"\x7f" * 17}, {"f3": 1 << 60})]
    arrays = written(converter, record({"type": "array", "items": "int"}, name="A"), {"f0": []})[:5]
    documents = [
        *cut,
        good + b"\x00",
        b"\x01" + good[1:],
        b"\x00\x00\x00\x01\x00" + good[5:],
        b'{"no":"avro"}',
        *(written(converter, HOSTILE, one) for one in beyond),
        *(good[:6] + length + b"x" for length in LENGTHS),
        *(arrays + length + b"\x02" for length in LENGTHS),
        written(converter, record({"type": "int", "logicalType": "time-millis"}, name="T"), {"f0": -1}),
        written(converter, record({"type": "array", "items": ENTRY}, name="M"), {"f0": [{"key": None, "value": ""}]}),
        good,
    ]
    got = read(spark, converter, documents)
    assert got[-1].error is None
    assert [one.error is not None and one.error.startswith(UNREADABLE) for one in got[:-1]] == [True] * len(got[:-1])
    told = {one.error for one in got}
    assert UNREADABLE + "Unknown magic byte!" in told
    assert any("Schema 256 not found" in (text or "") for text in told)


def test_a_decimal_too_long_is_told_by_its_field_and_what_helps(spark: SparkSession) -> None:
    """Debezium's numeric(50,10) in its envelope; a decimal of the digits that Spark has is none of these."""
    converter = avro()
    long, short = ({"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": 10} for digits in (50, 38))
    row = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "total", "type": long}, {"name": "part", "type": short}],
    }
    schema = {"type": "record", "name": "Envelope", "fields": [{"name": "after", "type": ["null", row]}]}
    digits = [(10**38).to_bytes(17, "big"), (10**38 - 1).to_bytes(17, "big")]
    refused, held = read(
        spark, converter, [written(converter, schema, {"after": {"total": one, "part": b"\x01"}}) for one in digits]
    )
    assert refused.error is not None
    assert refused.error.startswith(f"{UNREADABLE}the bytes do not follow the schema of id 1, or hold ")
    assert "a Decimal (after.total, 10 digits after the decimal point) has more than the 38 digits" in refused.error
    assert "decimal.handling.mode=string" in refused.error
    assert "numeric.long.mapping=string" in refused.error
    assert held.value == ((Decimal(10**38 - 1).scaleb(-10, Context(prec=40)), Decimal("0.0000000001")),)


def test_invalid_utf8_reads_as_in_java(spark: SparkSession) -> None:
    converter = avro()
    frame = written(converter, record("string"), {"f0": "ab"})
    (got,) = read(spark, converter, [frame[:-2] + b"a\xff"])
    assert got.value == ("a\ufffd",)


def test_what_the_converter_cannot_carry_is_refused_for_all_bytes_of_a_schema(spark: SparkSession) -> None:
    converter = avro()
    recursive = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    documents = [
        b"\x00" + registry_of(converter).register("t-value", json.dumps(schema)).to_bytes(4, "big") + b"\x00"
        for schema in (recursive, "null", {**DECIMAL_2, "scale": 39}, "no such type")
    ]
    told = [one.error for one in read(spark, converter, documents)]
    assert [text for text in told if text is None] == []
    assert "contains itself" in str(told[0])
    assert "Standalone null schemas are not supported by this converter" in str(told[1])
    assert "scale 39" in str(told[2])


def test_types_within_types_are_read_up_to_a_depth(spark: SparkSession) -> None:
    """Inline as well, where a program is compiled."""
    converter = avro()
    schema: Any = "int"
    for _ in range(MOST_DEPTH):
        schema = {"type": "array", "items": schema}
    value: Any = 1
    for _ in range(MOST_DEPTH):
        value = [value]
    data = written(converter, schema, value)
    side = ConverterBinding(converter, "V").learned([(data[:5], "t")])
    assert not side.hopeless
    row = {"topic": "t", "partition": 0, "offset": 0, "timestamp": None, "headers": None, "key": None, "value": data}

    def decode(frame: DataFrame) -> DataFrame:
        records = to_records(frame, ConverterBinding(converter, "K"), side)
        return records.frame.select(records.value(0).alias("v"), "error")

    (got,) = compiled(spark, KAFKA_ROW, decode, [row])
    assert (got["v"], got["error"]) == (value, None)


def test_here_gives_the_same(spark: SparkSession) -> None:
    """Decoding and encoding compile to a chain of projections, thorough or not."""
    converter = avro()
    value = {"f0": 1, "f1": "text", "f2": b"\x01", "f3": 5, "f4": 3}
    good = written(converter, HOSTILE, value)
    identity = good[:5]
    side = ConverterBinding(converter, "V").learned([(identity, "t")])
    rows = [{"topic": "t", "partition": 0, "offset": n, "value": data} for n, data in enumerate((good, good[:-1], b""))]
    keys = {"timestamp": None, "headers": None, "key": None}

    def decode(frame: DataFrame, which: ConverterBinding) -> DataFrame:
        records = to_records(frame, ConverterBinding(converter, "K"), which)
        return records.frame.select("value_0", "error", "unknown_value")

    quick = compiled(spark, KAFKA_ROW, lambda frame: decode(frame, side), [row | keys for row in rows])
    thorough = side.learned([(identity, "t"), (b"", "t")])
    all_of_it = compiled(spark, KAFKA_ROW, lambda frame: decode(frame, thorough), [row | keys for row in rows])
    assert [one["unknown_value"] for one in quick] == [None, identity, b""]
    assert all_of_it[0] == quick[0]
    assert quick[0]["value_0"]["f2"] == Decimal("0.01")
    assert [one["error"] is not None for one in all_of_it] == [False, True, True]

    schema = side.known[0][1]
    assert schema is not None
    converter.learn("t", schema)
    row = StructType([StructField("v", spark_type(schema))])
    again = compiled(
        spark,
        row,
        lambda frame: frame.select(converter.encode_for(F.lit("t"), F.col("v"), schema).value.alias("v")),
        [{"v": quick[0]["value_0"]}, {"v": None}],
    )
    assert again[0]["v"][5:] == good[5:]
    assert again[1]["v"] is None


ENUM_SCHEMA = Schema(T.STRING, True, name="a.E", parameters={ENUM: "a.E", f"{ENUM}.A": "A"})
FIXED_SCHEMA = Schema(T.BYTES, True, name="a.F", parameters={FIXED_SIZE: "2"})
BRANCHES = (Field("int", Schema(T.INT32, True)), Field("string", OPTIONAL_STRING))
STRICT = Schema(
    T.STRUCT,
    fields=(
        Field("id", Schema(T.INT64)),
        Field("in", Schema(T.STRUCT, True, fields=(Field("x", STRING),))),
        Field("list", Schema(T.ARRAY, True, value_schema=STRING)),
        Field("e", ENUM_SCHEMA),
        Field("f", FIXED_SCHEMA),
        Field("u", Schema(T.STRUCT, True, name=UNION, fields=BRANCHES)),
    ),
)
FITS = (1, ("x",), ["a"], "A", b"ab", (1, None))


def test_values_that_do_not_fit_are_errors_of_their_records(spark: SparkSession) -> None:
    converter = avro({"enhanced.avro.schema.support": "true"})
    values = [
        FITS,
        (1, None, None, None, None, None),
        (None, None, None, None, None, None),
        (1, (None,), None, None, None, None),
        (1, None, ["a", None], None, None, None),
        (1, None, None, "C", None, None),
        (1, None, None, None, b"abc", None),
        None,
    ]
    good, empty, *bad = encoded(spark, converter, STRICT, values)
    text = registry_of(converter).schema(1)
    assert _fastavro(text, good[5:])["list"] == ["a"]
    assert _fastavro(text, empty[5:])["u"] is None
    misfit = "Failed to serialize Avro data from topic t : a value does not fit its Avro type"
    assert bad == [NULL_REFUSED, NULL_REFUSED, NULL_REFUSED, misfit, misfit, NULL_REFUSED]
    assert encoded(spark, converter, OPTIONAL_STRING, [None]) == [None]


def test_topics_have_their_own_prefixes_and_errors(spark: SparkSession) -> None:
    converter = avro()
    registry_of(converter).register("u-value", '"int"')
    registry_of(converter).refused["v-value"] = "the field 'x' is not compatible"
    for topic in ("t", "u", "v"):
        converter.learn(topic, STRING)
    rows = [(topic, "a") for topic in ("t", "u", "v", "w")]
    frame = spark.createDataFrame(rows, StructType([StructField("t", StringType()), StructField("v", StringType())]))
    made = converter.encode_for(F.col("t"), F.col("v"), STRING)
    assert made.unknown is not None
    got = sorted(
        frame.coalesce(1).select("t", made.value, F.when(made.value.isNull(), made.error), made.unknown).collect()
    )
    assert [(row[0], row[1] and bytes(row[1]), row[2], row[3]) for row in got] == [
        ("t", b"\x00\x00\x00\x00\x02\x02a", None, False),
        ("u", b"\x00\x00\x00\x00\x02\x02a", None, False),
        ("v", None, "Failed to serialize Avro data from topic v : the field 'x' is not compatible", False),
        ("w", None, None, True),
    ]


LATEST_AS_IT_IS = {
    "auto.register.schemas": "false",
    "use.latest.version": "true",
    "latest.compatibility.strict": "false",
    "enhanced.avro.schema.support": "true",
}


def test_topics_do_not_judge_each_others_values(spark: SparkSession) -> None:
    """One Connect schema, which each topic has registered otherwise."""
    converter = avro(LATEST_AS_IT_IS)
    letters = {"t": ["A"], "u": ["A", "B"], "v": ["B", "C"]}
    for topic, symbols in letters.items():
        schema = {"type": "enum", "name": "a.E", "symbols": symbols}
        registry_of(converter).register(f"{topic}-value", json.dumps(schema))
        converter.learn(topic, ENUM_SCHEMA)
    rows = [(topic, letter) for topic in letters for letter in "ABC"]
    frame = spark.createDataFrame(rows, "t string, v string").coalesce(1)
    made = converter.encode_for(F.col("t"), F.col("v"), ENUM_SCHEMA)
    got = frame.select("t", "v", made.value.alias("data"), made.error.alias("error")).collect()
    assert [(row.data and row.data[-1] // 2, row.error is None) for row in got] == [
        (letters[topic].index(letter), True) if letter in letters[topic] else (None, False) for topic, letter in rows
    ]


MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 10_000, tzinfo=dt.UTC)
MOMENT_MS = 1714979289010
UNDERLYING: list[tuple[Schema, Any, Any, Any]] = [
    (Schema(T.INT64), MOMENT_MS, {"type": "long", "logicalType": "timestamp-millis"}, MOMENT_MS),
    (Schema(T.INT64, name=TIMESTAMP), MOMENT, "long", MOMENT_MS),
    (Schema(T.INT32, name=DATE), dt.date(1970, 1, 3), "int", 2),
    (Schema(T.INT32, name=DATE), dt.date(1970, 1, 3), "long", 2),
    (Schema(T.INT32, name=TIME), 5, "int", 5),
    (Schema(T.INT32), 5, {"type": "int", "logicalType": "time-millis"}, 5),
    (Schema(T.BYTES, name=DECIMAL, parameters={"scale": "2"}), Decimal("-2.55"), "bytes", b"\xff\x01"),
    (Schema(T.BYTES), b"\x01", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, b"\x01"),
]


def test_logical_types_are_written_as_what_avro_calls_them(spark: SparkSession) -> None:
    converter = avro(LATEST_AS_IT_IS)
    fields = tuple(Field(f"f{n}", schema) for n, (schema, *_) in enumerate(UNDERLYING))
    text = json.dumps(record(*(type_ for _, _, type_, _ in UNDERLYING)))
    registry_of(converter).register("t-value", text)
    (data,) = encoded(
        spark, converter, Schema(T.STRUCT, name="R", fields=fields), [tuple(value for _, value, *_ in UNDERLYING)]
    )
    assert list(_fastavro(text, data[5:]).values()) == [written for *_, written in UNDERLYING]


def test_a_decimal_of_another_scale_is_refused(spark: SparkSession) -> None:
    """Confluent's converter writes another number."""
    converter = avro(LATEST_AS_IT_IS)
    registry_of(converter).register("t-value", json.dumps(DECIMAL_2))
    schema = Schema(T.BYTES, name=DECIMAL, parameters={"scale": "3"})
    (told,) = encoded(spark, converter, schema, [Decimal("1.000")])
    assert "does not hold" in told


NEW = {"type": "record", "name": "N", "fields": [{"name": "x", "type": ["int", "null"]}]}
LATEST = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "b", "type": ["null", "double"], "default": None},
        {"name": "new", "type": NEW, "default": {"x": 7}},
        {"name": "many", "type": ["null", "string", "long"], "default": None},
        {"name": "a", "type": "long"},
    ],
}


def test_the_latest_schema_is_written(spark: SparkSession) -> None:
    """Fields by name, wider numbers, defaults, and a union with more branches."""
    settings = {"auto.register.schemas": "false", "use.latest.version": "true", "latest.compatibility.strict": "false"}
    converter = avro(settings)
    registry_of(converter).register("t-value", json.dumps(LATEST))
    fields = (Field("a", Schema(T.INT32)), Field("b", Schema(T.FLOAT32, True)), Field("many", Schema(T.INT64, True)))
    (data,) = encoded(
        spark, converter, Schema(T.STRUCT, name="R", fields=(*fields, Field("gone", STRING))), [(1, 2.5, 9, "g")]
    )
    assert data[:5] == b"\x00\x00\x00\x00\x01"
    assert _fastavro(json.dumps(LATEST), data[5:]) == {"a": 1, "b": 2.5, "many": 9, "new": {"x": 7}}


SCHEMALESS = [
    "null",
    "true",
    "-5",
    "1.5",
    '"a\\"é\\n"',
    "[]",
    "{}",
    '[1,"a",null,[true,{"k":2.5}]]',
    '{"a":{"b":[1,{"c":"x"}]},"n":null}',
]
DEEP = "[" * 5 + "1" + "]" * 5


def test_schemaless_values_go_and_come(spark: SparkSession) -> None:
    """Values of any depth are written; what is read has `DEEPEST` arrays and maps in each other at most."""
    converter = avro()
    *data, deep, nothing, no_json = encoded(spark, converter, None, [*SCHEMALESS, DEEP, None, "{"])
    anything = registry_of(converter).schema(1)
    assert json.loads(anything)["name"] == "Anything"
    assert _fastavro(anything, data[3][5:])["double"] == 1.5
    assert nothing is None
    assert no_json.startswith("Failed to serialize Avro data from topic t : ")
    least, most = "-" + "1" * 38, "1" * 39
    held, *too_long = encoded(spark, converter, None, [f'["{most}",{least}]', most, f"[-{most}]", f'{{"a":{most}}}'])
    assert isinstance(held, bytes)
    assert too_long == [no_json] * 3
    got = decoded(spark, converter, [*data, deep])
    assert [value for value, _ in got] == [None, *SCHEMALESS[1:], None]
    assert [error is None for _, error in got] == [*([True] * len(SCHEMALESS)), False]


def test_schemaless_values_are_read_within_arrays(spark: SparkSession) -> None:
    converter = avro()
    converter.learn("t", None)
    anything = registry_of(converter).schema(1)
    got = decoded(spark, converter, [_array_of_anything(converter, anything)])
    assert got == [(["1", '{"k":"v"}', None], None)]


def _array_of_anything(converter: AvroConverter, anything: str) -> bytes:
    items = [{"long": 1}, {"map": [{"key": {"string": "k"}, "value": {"string": "v"}}]}, {}]
    schema = {"type": "array", "items": json.loads(anything)}
    number = registry_of(converter).register("t-value", json.dumps(schema))
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, items)
    return b"\x00" + number.to_bytes(4, "big") + body.getvalue()


def test_logical_types_of_connect_keep_their_registered_form(spark: SparkSession) -> None:
    """A decimal alone is its bytes, and milliseconds before 1582 are what they are in Java."""
    converter = avro()
    decimal = Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
    assert encoded(spark, converter, decimal, [Decimal("-2.55")])[0][5:] == b"\xff\x01"
    moment = dt.datetime(1500, 1, 1, tzinfo=dt.UTC)
    (data,) = encoded(spark, converter, Schema(T.INT64, name=TIMESTAMP, version=1), [moment])
    assert _fastavro(registry_of(converter).schema(2), data[5:]) == -14831769600000


@pytest.mark.parametrize("header", [b"\x00" + (1).to_bytes(4, "big"), b"\x01" + (1).to_bytes(16, "big")])
def test_a_header_or_a_guid_may_name_the_schema(spark: SparkSession, header: bytes) -> None:
    converter = avro()
    body = written(converter, record("int"), {"f0": 7})[5:]
    other = written(converter, record("string"), {"f0": "x"})
    named = {"key": "__value_schema_id", "value": header}
    ignored = {"key": "__key_schema_id", "value": b"\x00\x00\x00\x00\x63"}
    rows = [
        ("t", 0, 0, 0, [ignored, {"key": "__value_schema_id", "value": b"?"}, named], None, body),
        ("t", 0, 0, 0, None, None, header + body),
        ("t", 0, 0, 0, [ignored], None, other),
        ("t", 0, 0, 0, [named], None, None),
        ("t", 0, 0, 0, [], None, body),
    ]
    frame = spark.createDataFrame(rows, KAFKA_ROW).coalesce(1)
    key = ConverterBinding(ByteArrayConverter(), "Bytes")
    value = ConverterBinding(converter, "Avro").learned([(header, "t"), (other[:5], "t"), (b"", "t")])
    read_rows = to_records(frame, key, value).frame.select("value_0", "value_1", "error").collect()
    assert [(row[0] and row[0][0], row[1] and row[1][0]) for row in read_rows] == [
        (7, None),
        (7, None),
        (None, "x"),
        (None, None),
        (None, None),
    ]
    assert [row.error is None for row in read_rows] == [True, True, True, True, False]
