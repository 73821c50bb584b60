"""JsonSchemaConverter: values of all kinds there and back, and documents that others wrote; as a job and inline."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from unittest.mock import patch

import jsonschema
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from headrace.converters.json_schema.converter import JsonSchemaConverter
from headrace.converters.json_schema.options import ENUM, UNION
from headrace.plugins.interop.avro.tree import ENUM as AVRO_ENUM
from headrace.plugins.interop.avro.tree import UNION as AVRO_UNION
from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType, spark_type
from headrace.plugins.testkit import ConverterContract
from tests.spark.avro_values import Generator
from tests.spark.converting import KAFKA_ROW, compiled, configured, read
from tests.spark.test_testkit import Order
from tests.unit.converters.avro.fake_registry import FakeRegistry, registry_of

pytestmark = pytest.mark.spark

T = SchemaType
URL = {"schema.registry.url": "http://localhost:1"}
FAILED = "Converting byte[] to Kafka Connect data failed due to serialization error of topic t: "


def made(settings: Mapping[str, str] | None = None) -> JsonSchemaConverter:
    """A converter, with a registry whose next id is no valid UTF-8."""
    with patch("headrace.converters.registry.converter.SchemaRegistry", FakeRegistry):
        converter = configured(JsonSchemaConverter(), {**URL, **(settings or {})})
    registry_of(converter).texts = [f'{{"title":"{n}","type":"null"}}' for n in range(200)]
    return converter


def framed(converter: JsonSchemaConverter, schema: Any, document: str) -> bytes:
    """The bytes that a producer with this schema sends."""
    number = registry_of(converter).register("t-value", json.dumps(schema))
    return b"\x00" + number.to_bytes(4, "big") + document.encode()


def encoded(spark: SparkSession, converter: JsonSchemaConverter, schema: Schema, values: Sequence[Any]) -> list[Any]:
    """The bytes, or the error's text."""
    row = StructType([StructField("n", IntegerType()), StructField("v", spark_type(schema))])
    converter.learn("t", schema)
    found = converter.encode_for(F.lit("t"), F.col("v"), schema)
    frame = spark.createDataFrame(list(enumerate(values)), row).coalesce(1)
    columns = [F.col("n"), found.value.alias("v"), F.when(found.value.isNull(), found.error).alias("e")]
    got = sorted(frame.select(*columns).collect(), key=lambda one: int(one.n))
    return [one.e if one.v is None else bytes(one.v) for one in got]


class TestContract(ConverterContract):
    converter = JsonSchemaConverter
    examples = 2
    schemas: ClassVar = [Order, list[int], str | None]

    @pytest.fixture
    def made(self) -> JsonSchemaConverter:
        return made()


def as_json_schema(schema: Schema) -> Schema:
    """The same schema with the marks of JSON Schema in place of Avro's."""
    inner = {
        "fields": tuple(Field(field.name, as_json_schema(field.schema)) for field in schema.fields),
        "key_schema": schema.key_schema and as_json_schema(schema.key_schema),
        "value_schema": schema.value_schema and as_json_schema(schema.value_schema),
    }
    if schema.name == AVRO_UNION:
        fields = tuple(Field(f"{UNION}.field.{n}", field.schema) for n, field in enumerate(schema.fields))
        return dataclasses.replace(schema, name=UNION, fields=fields)
    parameters = {name.replace(AVRO_ENUM, ENUM): value for name, value in schema.parameters.items()}
    return dataclasses.replace(schema, parameters=parameters, **inner)


def test_what_is_written_is_valid_under_the_schema_that_is_registered(spark: SparkSession) -> None:
    generator = Generator(5)
    pairs = [(schema, [generator.value(schema) for _ in range(6)]) for schema in (generator.schema() for _ in range(8))]
    for settings in ({}, {"decimal.format": "NUMERIC", "object.additional.properties": "false"}):
        converter = made(settings)
        for given, values in pairs:
            schema = as_json_schema(given)
            told = encoded(spark, converter, schema, values)
            document = json.loads(registry_of(converter).texts[-1])
            jsonschema.Draft7Validator.check_schema(document)
            for value, data in zip(values, told, strict=True):
                if value is None and not schema.optional:
                    continue
                assert isinstance(data, bytes), data
                if b"Infinity" not in data:  # no number of JSON's
                    jsonschema.validate(json.loads(data[5:]), document)


TEXT, LONG, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
MAYBE = {"oneOf": [NULL, TEXT]}
INNER = {"type": "object", "properties": {"x": LONG}}
OTHER = {"type": "object", "properties": {"x": LONG, "y": TEXT}}
FLAT = {"type": "object", "properties": {"a": LONG, "b": TEXT, "c": MAYBE}}
DEEP = {"type": "object", "properties": {"l": {"type": "array", "items": INNER}, "b": TEXT, "c": MAYBE}}
PAIRS = {
    "type": "array",
    "connect.type": "map",
    "items": {"type": "object", "properties": {"key": LONG, "value": TEXT}},
}
BRANCHES = {"type": "object", "properties": {"u": {"oneOf": [NULL, LONG, TEXT, INNER, OTHER]}, "n": LONG}}
SINGLE = {**FLAT, "properties": {**FLAT["properties"], "a": {**LONG, "default": 7}}}  # type: ignore[dict-item]
CASES: list[tuple[Any, str, Any]] = [
    (FLAT, '{"a":1,"b":"x","c":null}', {"a": 1, "b": "x", "c": None}),
    (FLAT, ' { "c" : "z", "b" : "y", "more": [1, {"a": 2}], "a" : 2 } ', {"a": 2, "b": "y", "c": "z"}),
    (FLAT, '{"b":"x"}', {"a": None, "b": "x", "c": None}),
    (FLAT, "{}", {"a": None, "b": None, "c": None}),
    (FLAT, '{"a":null,"b":"x"}', "Invalid null value for required INT64 field"),
    (FLAT, '{"a":1,"b":5}', 'Invalid value: null used for required field: "b", schema type: STRING'),
    (FLAT, "[1]", "Structs should be encoded as JSON objects, but found ARRAY"),
    (FLAT, "null", "Invalid null value for required STRUCT field"),
    (FLAT, '{"a":1', "Converting byte[] to Kafka Connect data failed"),
    (DEEP, '{"l":[{"x":1}],"b":"null"}', {"l": [{"x": 1}], "b": "null", "c": None}),
    (DEEP, '{"b":"x"}', {"l": None, "b": "x", "c": None}),
    (DEEP, '{"l":[{}],"b":"x"}', "Invalid null value for required INT64 field"),
    (SINGLE, '{"a":null,"b":"x"}', {"a": 7, "b": "x", "c": None}),
    (SINGLE, '{"b":"x"}', {"a": 7, "b": "x", "c": None}),
    (PAIRS, '[{"key":1,"value":"a"},{"value":"b","key":2}]', {1: "a", 2: "b"}),
    (PAIRS, '[["a","b"]]', "Found invalid map entry"),
    (BRANCHES, '{"u":5,"n":1}', {"u": {0: 5}, "n": 1}),
    (BRANCHES, '{"u":"5","n":1}', {"u": {1: "5"}, "n": 1}),
    (BRANCHES, '{"u":{"x":1},"n":1}', {"u": {2: {"x": 1}}, "n": 1}),
    (BRANCHES, '{"u":{"y":"q","x":1},"n":1}', {"u": {3: {"x": 1, "y": "q"}}, "n": 1}),
    (BRANCHES, '{"u":null,"n":1}', {"u": None, "n": 1}),
    (BRANCHES, '{"u":true,"n":1}', "Did not find matching oneof field for a value of type BOOLEAN"),
    (MAYBE, "null", None),
    (MAYBE, '"x\\u0041"', "xA"),
    (TEXT, '"漢"', "漢"),
    (LONG, "-5", -5),
    ({"type": "array", "items": LONG}, "[1,2]", [1, 2]),
    ({"type": "object"}, '{"a":1}', {}),
    ({"$ref": "#"}, "1", "do not end"),
]
"""Schema, document, and the value or a part of the error; of a union only the field that is set, by its number."""


def plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        members = value.asDict()
        if members and all(name.startswith(UNION) for name in members):
            return {int(name[-1]): plain(one) for name, one in members.items() if one is not None}
        return {name: plain(one) for name, one in members.items()}
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def test_documents_of_every_spelling(spark: SparkSession) -> None:
    converter = made()
    data = [framed(converter, schema, document) for schema, document, _ in CASES]
    got = read(spark, converter, data)
    for (schema, document, expected), one in zip(CASES, got, strict=True):
        if isinstance(expected, str) and one.error is not None:
            assert expected in one.error, (schema, document, one.error)
        else:
            assert (plain(one.value), one.error) == (expected, None), (schema, document)


def test_the_quick_way_inline_gives_the_same(spark: SparkSession) -> None:
    """Without the thorough way: what the quick one reads it reads rightly, and it reads what is usual."""
    for schema in (FLAT, DEEP, PAIRS, TEXT, LONG):
        converter = made()
        documents = [(document, expected) for of, document, expected in CASES if of is schema]
        data = [framed(converter, schema, document) for document, _ in documents]
        binding = ConverterBinding(converter, "V").learned([(data[0][:5], "t")])
        keys = ConverterBinding(converter, "K")
        rows = [{"topic": "t", "partition": 0, "offset": n, "value": one} for n, one in enumerate(data)]
        told = compiled(spark, KAFKA_ROW, lambda frame: to_records(frame, keys, binding).frame, rows)  # noqa: B023
        quick = [one["value_0"] for one in told if one["unknown_value"] is None and one["error"] is None]
        assert quick, schema
        for one, (_, expected) in zip(told, documents, strict=True):
            if one["unknown_value"] is None and one["error"] is None and not isinstance(expected, dict):
                assert one["value_0"] == expected


def test_bytes_that_name_no_schema_are_errors_of_their_rows(spark: SparkSession) -> None:
    converter = made()
    good = framed(converter, TEXT, '"x"')
    got = read(spark, converter, [good, b"", b"\x00\x00", b'{"a":1}', good[:5], good[:6], good])
    assert [one.value for one in got] == ["x", None, None, None, None, None, "x"]
    assert [one.error for one in got[1:4]] == [f"{FAILED}Unknown magic byte!"] * 3


def test_nulls_are_framed_if_the_schema_allows_them(spark: SparkSession) -> None:
    converter = made()
    prefix = b"\x00" + (201).to_bytes(4, "big")
    assert encoded(spark, converter, OPTIONAL_STRING, ["a", None]) == [prefix + b'"a"', prefix + b"null"]
    assert encoded(spark, made(), Schema(T.STRING, default="d"), [None]) == [prefix + b'"d"']
    kept = made({"ignore.default.for.nullables": "true"})
    assert encoded(spark, kept, Schema(T.STRING, True, default="d"), [None]) == [prefix + b"null"]
    inner = Schema(T.STRUCT, fields=(Field("a", STRING),))
    assert "null value for field that is required" in encoded(spark, made(), inner, [(None,)])[0]


def test_a_latest_schema_that_refuses_our_documents_is_not_written_with(spark: SparkSession) -> None:
    settings = {"auto.register.schemas": "false", "use.latest.version": "true"}
    own = Schema(T.STRUCT, fields=(Field("a", STRING),))
    for registered, why in (({"properties": {"a": LONG}}, "property a of the value is string"), ({}, None)):
        converter = made(settings)
        registry_of(converter).register("t-value", json.dumps(registered))
        (told,) = encoded(spark, converter, own, [("x",)])
        if why is None:
            assert told == b'\x00\x00\x00\x00\xc9{"a":"x"}'
        else:
            assert why in told
            assert "latest.compatibility.strict=false" in told
