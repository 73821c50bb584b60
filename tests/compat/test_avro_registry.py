"""AvroConverter beside Confluent's Python clients and a real registry: what one writes the other reads.

Confluent's serializer writes, its deserializer reads back what we wrote.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import ConfigCompatibilityLevel, Schema, SchemaRegistryClient, ServerConfig
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headrace.converters.avro.converter import AvroConverter
from headrace.converters.bytes import ByteArrayConverter
from headrace.plugins.interop.avro.from_connect import avro_tree
from headrace.plugins.interop.avro.tree import AvroOptions, schema_text
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.interop.conversion.encode import UNKNOWN_TOPIC, learn_topics, to_bytes
from headrace.plugins.schema import DECIMAL as CONNECT_DECIMAL
from headrace.plugins.schema import OPTIONAL_STRING, STRING, TIMESTAMP, Field, SchemaType, spark_type
from headrace.plugins.schema import Schema as Connect
from tests.spark.converting import configured, kafka_rows, learned, read

VALUE = SerializationContext("t", MessageField.VALUE)
UTC = dt.UTC


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


DECIMAL = logical("bytes", "decimal", precision=12, scale=2)
ENUM = {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}
FIXED = {"type": "fixed", "name": "Four", "size": 4}
NOON = dt.datetime(2026, 5, 4, 12, 0, 0, 1000, UTC)

MEMBERS: dict[str, tuple[Any, Any, Any]] = {
    "flag": ("boolean", True, True),
    "least": ("int", -(2**31), -(2**31)),
    "most": ("long", 2**63 - 1, 2**63 - 1),
    "single": ("float", 1.5, 1.5),
    "double": ("double", 1e300, 1e300),
    "text": ("string", "ü€", "ü€"),
    "data": ("bytes", b"\x00\xff", b"\x00\xff"),
    "absent": (["null", "string"], None, None),
    "present": (["int", "null"], 3, 3),
    "enum": (ENUM, "GREEN", "GREEN"),
    "fixed": (FIXED, b"abcd", b"abcd"),
    "decimal": (DECIMAL, Decimal("-12.34"), Decimal("-12.34")),
    "wide": (["null", logical("bytes", "decimal", precision=64, scale=3)], Decimal("1.000"), Decimal("1.000")),
    "date": (logical("int", "date"), dt.date(1969, 12, 30), dt.date(1969, 12, 30)),
    "time": (logical("int", "time-millis"), dt.time(1, 2, 3, 4000), 3_723_004),
    "stamp": (logical("long", "timestamp-millis"), NOON, NOON.replace(tzinfo=None)),
    "micros": (logical("long", "timestamp-micros"), NOON, int(NOON.timestamp() * 1000) * 1000),
    "array": ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
    "empty": ({"type": "array", "items": "string"}, [], []),
    "map": ({"type": "map", "values": "long"}, {"k": 1}, {"k": 1}),
    "inner": (record("Inner", x=["null", "int"]), {"x": 1}, {"x": 1}),
    "many": ({"type": "array", "items": "Inner"}, [{"x": None}, {"x": 2}], [{"x": None}, {"x": 2}]),
    "named": ({"type": "map", "values": ["null", "Inner"]}, {"a": {"x": 3}, "b": None}, {"a": {"x": 3}, "b": None}),
}
"""Schema, what Confluent's serializer is given, and what we read."""

UNION = record("Union", u=["null", "int", "string"], w=["null", "int", "string"])
KNOWN = {**record("Known", e=ENUM, d=DECIMAL, o=["null", "int"]), "namespace": "n.s", "doc": "what it is"}
ALL = record("All", **{name: schema for name, (schema, _, _) in MEMBERS.items()})
CASES: list[tuple[Any, Any, Any]] = [
    (
        ALL,
        {name: given for name, (_, given, _) in MEMBERS.items()},
        {name: got for name, (_, _, got) in MEMBERS.items()},
    ),
    ("string", "top", "top"),
    ("bytes", b"\x00\x01", b"\x00\x01"),
    ({"type": "map", "values": "int"}, {"k": 1}, {"k": 1}),
    (UNION, {"u": "x", "w": None}, {"u": {"int": None, "string": "x"}, "w": None}),
    (KNOWN, *[{"e": "RED", "d": Decimal("0.10"), "o": None}] * 2),
]


@pytest.fixture
def theirs(registry: str) -> SchemaRegistryClient:
    """Confluent's client; the subject takes any schema, however unlike the one before."""
    client = SchemaRegistryClient({"url": registry, "timeout": 30})
    client.register_schema("t-value", Schema('"string"', "AVRO"))
    client.set_config("t-value", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    return client


def written(theirs: SchemaRegistryClient, schema: Any, value: Any) -> bytes:
    message = AvroSerializer(theirs, json.dumps(schema))(value, VALUE)
    assert isinstance(message, bytes)
    return message


def plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: plain(member) for name, member in value.asDict().items()}
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return bytes(value) if isinstance(value, bytearray) else value


def avro(registry: str, **settings: str) -> AvroConverter:
    return configured(AvroConverter(), {"schema.registry.url": registry, **settings})


def encoded(spark: SparkSession, registry: str, messages: Sequence[bytes]) -> list[tuple[bytes | None, str | None]]:
    """Return what our converter writes of what it has read, and its errors."""
    rows = kafka_rows(spark, [(None, message) for message in messages])
    records, key, _ = learned(rows, ConverterBinding(ByteArrayConverter(), "K"), ConverterBinding(avro(registry), "V"))
    value = ConverterBinding(avro(registry), "V")
    for _ in range(2):
        told = sorted(to_bytes(records, key, value).collect(), key=lambda row: int(row.offset))
        unknown = {row[UNKNOWN_TOPIC] for row in told if row[UNKNOWN_TOPIC] is not None}
        if not unknown:
            return [(row.value and bytes(row.value), row.error and row.error.message) for row in told]
        learn_topics(unknown, records, key, value)
    raise AssertionError(f"still unknown: {unknown}")


def differences(expected: Any, got: Any) -> Any:
    """Return the differences, member by member if both are structs of the same members."""
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        return {name: (expected[name], got[name]) for name in expected if expected[name] != got[name]}
    return {} if expected == got else (expected, got)


def test_what_confluents_serializer_wrote_is_read_with_its_schema(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    told = read(spark, avro(registry), [written(theirs, schema, value) for schema, value, _ in CASES])
    assert [each.error for each in told if each.error] == []
    found = [differences(expected, plain(each.value)) for (_, _, expected), each in zip(CASES, told, strict=True)]
    assert [each for each in found if each] == []
    schema = told[-1].schema
    assert schema is not None
    assert (schema.type, schema.name) == (SchemaType.STRUCT, "n.s.Known")
    assert schema.version == theirs.get_latest_version("t-value").version
    assert schema.parameters["io.confluent.connect.avro.record.doc"] == "what it is"
    enum, decimal, optional = (field.schema for field in schema.fields)
    assert (enum.type, enum.name) == (SchemaType.STRING, "n.s.Colour")
    assert decimal.name == "org.apache.kafka.connect.data.Decimal"
    assert optional.optional


def test_confluents_deserializer_reads_what_we_write_and_nothing_new_is_registered_twice(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    ours = encoded(spark, registry, [written(theirs, schema, value) for schema, value, _ in CASES])
    assert [error for _, error in ours if error] == []
    messages = [message for message, _ in ours if message is not None]
    back = [AvroDeserializer(theirs)(message, VALUE) for message in messages]
    asked = {**CASES[0][1], "micros": CASES[0][2]["micros"]}  # Connect has no microseconds: a plain long
    assert differences(asked, back[0]) == {}
    assert back[1:] == [value for _, value, _ in CASES[1:]]
    versions = theirs.get_versions("t-value")
    again = encoded(spark, registry, messages)
    assert [message for message, _ in again] == messages
    assert theirs.get_versions("t-value") == versions


FIELDS = (
    Field("id", Connect(SchemaType.INT64)),
    Field("name", OPTIONAL_STRING),
    Field("price", Connect(SchemaType.BYTES, name=CONNECT_DECIMAL, version=1, parameters={"scale": "2"})),
    Field("at", Connect(SchemaType.INT64, name=TIMESTAMP, version=1)),
    Field("tags", Connect(SchemaType.MAP, key_schema=STRING, value_schema=Connect(SchemaType.INT32))),
)
ORDER = Connect(SchemaType.STRUCT, name="shop.Order", fields=FIELDS)


def told(spark: SparkSession, converter: AvroConverter, schema: Connect, values: Sequence[Any]) -> Row:
    """`data`, our bytes of a struct of a source's, for topic `t`; `error`, why there are none."""
    converter.learn("t", schema)
    made = converter.encode_for(F.lit("t"), F.col("v"), schema)
    rows = spark.createDataFrame([(tuple(values),)], StructType([StructField("v", spark_type(schema))]))
    (row,) = rows.select(made.value.alias("data"), made.error.alias("error")).collect()
    return row


def test_confluents_serializer_writes_the_same_under_the_schema_that_we_register(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    value = {"id": 7, "name": None, "price": Decimal("-12.34"), "at": NOON, "tags": {"a": 1}}
    data = bytes(told(spark, avro(registry), ORDER, list(value.values())).data)
    text = schema_text(avro_tree(ORDER, AvroOptions()))
    latest = theirs.get_latest_version("t-value")
    assert json.loads(latest.schema.schema_str or "") == json.loads(text)
    assert int.from_bytes(data[1:5], "big") == latest.schema_id
    assert AvroSerializer(theirs, text)(value, VALUE) == data


def test_a_schema_that_breaks_compatibility_names_its_field(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    first = Connect(SchemaType.STRUCT, name="R", fields=(Field("a", STRING),))
    more = Connect(SchemaType.STRUCT, name="R", fields=(*first.fields, Field("added", Connect(SchemaType.INT64))))
    assert told(spark, avro(registry), first, ["x"]).data is not None
    theirs.set_config("t-value", ServerConfig(compatibility=ConfigCompatibilityLevel.BACKWARD))
    refused = told(spark, avro(registry), more, ["x", 1])
    assert refused.data is None
    assert refused.error.startswith("Failed to serialize Avro data from topic t : ")
    assert "added" in refused.error


def test_hostile_bytes_are_errors_of_their_rows_only(
    spark: SparkSession, registry: str, theirs: SchemaRegistryClient
) -> None:
    good = written(theirs, record("Good", s="string", n="long"), {"s": "x" * 40, "n": 2**40})
    hostile = [
        b"",
        b"\x00",
        good[:4],
        good[:5],
        good[:-1],
        good[:20],
        good + b"\x00",
        b"\x01" + good[1:],
        b"{" + good[1:],
        b"\x00\x7f\xff\xff\xff" + good[5:],
        good[:5] + b"\xff" * 20,  # a length that is no number
        good[:5] + b"\x01" + good[6:],  # a negative length
        good[:5] + b"\xfe\xff\xff\xff\x0f" + good[6:],  # two gigabytes, it says
    ]
    told = read(spark, avro(registry), [good, *hostile, good])
    assert [plain(each.value) for each in (told[0], told[-1])] == [{"s": "x" * 40, "n": 2**40}] * 2
    passed = [data for data, got in zip(hostile, told[1:-1], strict=True) if not got.error]
    assert passed == []


def test_a_tombstone_is_a_null_both_ways(spark: SparkSession, registry: str) -> None:
    rows = kafka_rows(spark, [(None, None)])
    records, key, value = learned(
        rows, ConverterBinding(ByteArrayConverter(), "K"), ConverterBinding(avro(registry), "V")
    )
    (row,) = to_bytes(records, key, value).collect()
    assert (row.value, row.error) == (None, None)
