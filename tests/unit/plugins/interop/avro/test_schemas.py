"""Avro schemas of Connect schemas and back; the texts are those that Confluent's AvroData gives."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.from_connect import avro_tree
from headrace.plugins.interop.avro.parsing import parsed
from headrace.plugins.interop.avro.to_connect import connect_schema
from headrace.plugins.interop.avro.tree import (
    ENUM,
    ENUM_DEFAULT,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    PRECISION,
    RECORD_DOC,
    UNION,
    AvroOptions,
    schema_text,
    scrubbed,
)
from headrace.plugins.schema import DATE, DECIMAL, STRING, TIME, TIMESTAMP, Field, Schema, SchemaType

T = SchemaType
INT32 = Schema(T.INT32)
PRICE = Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
PRICE_TEXT = (
    '{"type":"bytes","scale":2,"precision":64,"connect.version":1,"connect.parameters":{"scale":"2"},'
    '"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}'
)
DATA = "org.apache.kafka.connect.data"


def struct(*fields: tuple[str, Schema], **parts: Any) -> Schema:
    """A struct of these fields."""
    return Schema(T.STRUCT, fields=tuple(Field(name, schema) for name, schema in fields), **parts)


def text_of(schema: Schema | None, **options: bool) -> str:
    """The text that is registered."""
    return schema_text(avro_tree(schema, AvroOptions(**options)))


def of(text: str, **options: bool) -> Schema | None:
    """The Connect schema of a registered text."""
    return connect_schema(parsed(text), AvroOptions(**options))


TEXTS: list[tuple[Schema, str]] = [
    (STRING, '"string"'),
    (Schema(T.INT16), '{"type":"int","connect.type":"int16"}'),
    (Schema(T.INT64, True, default=5), '[{"type":"long","connect.default":5},"null"]'),
    (PRICE, PRICE_TEXT),
    (
        replace(PRICE, parameters={"scale": "2", PRECISION: "10"}, default=Decimal("-2.55")),
        '{"type":"bytes","scale":2,"precision":10,"connect.version":1,"connect.parameters":{"scale":"2",'
        '"connect.decimal.precision":"10"},"connect.default":"\xff\\u0001",'
        '"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}',
    ),
    *(
        (
            Schema(type_, name=f"{DATA}.{name}", version=1),
            f'{{"type":"{avro}","connect.version":1,"connect.name":"{DATA}.{name}","logicalType":"{logical}"}}',
        )
        for type_, name, avro, logical in (
            (T.INT32, "Date", "int", "date"),
            (T.INT32, "Time", "int", "time-millis"),
            (T.INT64, "Timestamp", "long", "timestamp-millis"),
        )
    ),
    (Schema(T.MAP, key_schema=STRING, value_schema=INT32), '{"type":"map","values":"int"}'),
    (
        Schema(T.MAP, key_schema=INT32, value_schema=STRING),
        '{"type":"array","items":{"type":"record","name":"MapEntry","namespace":"io.confluent.connect.avro",'
        '"fields":[{"name":"key","type":"int"},{"name":"value","type":"string"}]}}',
    ),
    (
        Schema(T.MAP, name="a.M", key_schema=INT32, value_schema=STRING),
        '{"type":"array","items":{"type":"record","name":"M","namespace":"a","fields":[{"name":"key","type":"int"},'
        '{"name":"value","type":"string"}],"connect.internal.type":"MapEntry"},"connect.name":"a.M"}',
    ),
    (
        struct(
            ("a", Schema(T.STRING, True)),
            ("b", Schema(T.FLOAT32, default=0.10000000149011612, doc="d")),
            ("c", struct(("x", INT32), name="a.b.In", optional=True)),
            ("d", struct(("x", INT32), name="a.b.In")),
            name="a.b.Out",
            version=2,
            parameters={RECORD_DOC: "rec", FIELD_DOC + "a": "first"},
        ),
        '{"type":"record","name":"Out","namespace":"a.b","doc":"rec","fields":[{"name":"a","type":["null","string"],'
        '"doc":"first","default":null},{"name":"b","type":{"type":"float","connect.doc":"d","connect.default":0.1},'
        '"default":0.1},{"name":"c","type":["null",{"type":"record","name":"In","fields":[{"name":"x","type":"int"}],'
        '"connect.name":"a.b.In"}],"default":null},{"name":"d","type":"In"}],"connect.version":2,'
        '"connect.parameters":{"io.confluent.connect.avro.record.doc":"rec",'
        '"io.confluent.connect.avro.field.doc.a":"first"},"connect.name":"a.b.Out"}',
    ),
    (
        struct(("int", Schema(T.INT32, True)), ("string", Schema(T.STRING, True)), name=UNION, optional=True),
        '["null","int","string"]',
    ),
]


@pytest.mark.parametrize(("schema", "text"), TEXTS)
def test_a_schema_is_registered_as_confluent_does_and_comes_back(schema: Schema, text: str) -> None:
    assert text_of(schema) == text
    assert of(text) == schema


def test_structs_without_name_are_numbered_as_they_are_met() -> None:
    inner = struct(("x", INT32))
    schema = struct(("a", inner), ("b", struct(("y", INT32))), ("c", inner))
    names = [field["type"] for field in json.loads(text_of(schema))["fields"]]
    assert [names[0]["name"], names[1]["name"], names[2]] == ["ConnectDefault2", "ConnectDefault3", "ConnectDefault2"]
    assert of(text_of(schema)) == schema


def test_a_name_stands_for_one_type_only() -> None:
    twice = struct(("a", struct(("x", INT32), name="N")), ("b", struct(("y", INT32), name="N")), name="R")
    with pytest.raises(DataError, match=r"^Can't redefine: N$"):
        text_of(twice)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (struct(("a-b", INT32), name="R"), "Illegal character in: a-b"),
        (struct(("1", INT32), name="R"), "Illegal initial character: 1"),
        (struct(("", INT32), name="R"), "Empty name"),
        (struct(("a", INT32), name="a.b c"), "Illegal character in: b c"),
    ],
)
def test_names_that_avro_does_not_allow(schema: Schema, message: str) -> None:
    with pytest.raises(DataError, match=f"^{message}$"):
        text_of(schema)


def test_names_that_avro_does_not_allow_are_scrubbed_if_configured() -> None:
    schema = struct(("a-b", INT32), ("1", INT32), name="a.b c")
    assert text_of(schema, scrub=True, metadata=False) == (
        '{"type":"record","name":"b_c","namespace":"a","fields":[{"name":"a_b","type":"int"},'
        '{"name":"x1","type":"int"}]}'
    )


@pytest.mark.parametrize(
    ("name", "changed"),
    [("a_1", "a_1"), ("1a", "x1a"), ("a-b c", "a_b_c"), ("é", "_C3_A9"), ("a~", "a_7E"), ("-", "_")],
)
def test_scrubbed_names(name: str, changed: str) -> None:
    assert scrubbed(name) == changed


def test_settings_for_schemas() -> None:
    enum = Schema(T.STRING, name="a.E", parameters={ENUM: "a.E", f"{ENUM}.A": "A", ENUM_DEFAULT + "E": "A"})
    assert text_of(enum, enhanced=True).startswith(
        '{"type":"enum","name":"E","namespace":"a","symbols":["A"],"default":"A"'
    )
    assert text_of(enum).startswith('{"type":"string","connect.parameters"')
    assert text_of(PRICE, metadata=False) == '{"type":"bytes","scale":2,"precision":64,"logicalType":"decimal"}'
    keys = Schema(T.MAP, key_schema=Schema(T.STRING, True), value_schema=INT32)
    assert text_of(keys, optional_map_keys=True) == '{"type":"map","values":"int"}'
    assert of('["int"]', flatten_singletons=False) == struct(("int", Schema(T.INT32, True)), name=UNION)
    fixed = Schema(T.BYTES, name="a.F", parameters={FIXED_SIZE: "4"})
    assert text_of(fixed, metadata=False) == '{"type":"fixed","name":"F","namespace":"a","size":4}'
    assert of('{"type":"fixed","name":"a.F","size":4}') == fixed


READ: list[tuple[str, Schema]] = [
    ('{"type":"long","logicalType":"timestamp-micros"}', Schema(T.INT64)),
    ('{"type":"string","logicalType":"uuid"}', STRING),
    ('{"type":"string","avro.java.string":"String"}', Schema(T.STRING, parameters={"avro.java.string": "String"})),
    ('{"type":"int","logicalType":"date"}', Schema(T.INT32, name=DATE, version=1)),
    ('{"type":"int","logicalType":"time-millis"}', Schema(T.INT32, name=TIME, version=1)),
    ('{"type":"long","logicalType":"timestamp-millis"}', Schema(T.INT64, name=TIMESTAMP, version=1)),
    (
        '{"type":"fixed","name":"F","size":8,"logicalType":"decimal","precision":10,"scale":2}',
        Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2", PRECISION: "10", FIXED_SIZE: "8"}),
    ),
    (
        '{"type":"bytes","logicalType":"decimal","precision":3,"scale":5}',
        Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "5", PRECISION: "3"}),
    ),
    (
        '{"type":"record","name":"a.R","fields":[{"name":"x","type":["string","null"],"default":"q"}]}',
        struct(("x", Schema(T.STRING, True, default="q", parameters={FIELD_DEFAULT: "true"})), name="a.R"),
    ),
    (
        '[{"type":"record","name":"a.R","fields":[]},{"type":"enum","name":"b.E","symbols":["A"]}]',
        struct(
            ("R", Schema(T.STRUCT, True, name="a.R")),
            ("E", Schema(T.STRING, True, name="b.E", parameters={ENUM: "b.E", f"{ENUM}.A": "A"})),
            name=UNION,
        ),
    ),
]


@pytest.mark.parametrize(("text", "schema"), READ)
def test_schemas_of_other_producers_are_read(text: str, schema: Schema) -> None:
    assert of(text) == schema


def test_a_schema_has_the_registrys_version_unless_it_says_its_own() -> None:
    options = AvroOptions()
    record = connect_schema(parsed('{"type":"record","name":"R","fields":[]}'), options, 3)
    own = connect_schema(parsed('{"type":"record","name":"R","fields":[],"connect.version":7}'), options, 3)
    assert (record and record.version, own and own.version) == (3, 7)
    assert connect_schema(parsed(PRICE_TEXT), options, 3) == PRICE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Invalid Avro schema"),
        ('"nothing"', "Invalid Avro schema"),
        ('"null"', "Standalone null schemas are not supported by this converter"),
        ('{"type":"int","connect.type":"x"}', "Connect type annotation for Avro int field is null"),
        ('{"type":"int","connect.name":5}', "Invalid schema name: 5"),
        ('{"type":"int","connect.version":"1"}', "Invalid Connect version found: 1"),
        ('{"type":"int","connect.parameters":{"a":1}}', "Expected schema parameter values to be strings but found: 1"),
        ('{"type":"int","connect.type":["int8"]}', "Connect type annotation for Avro int field is null"),
        (
            '{"type":"record","name":"L","fields":[{"name":"n","type":["null","L"]}]}',
            "The Avro record L contains itself: Spark has no recursive types",
        ),
        ('{"type":"array","items":' * 300 + '"int"' + "}" * 300, "The Avro schema is too large"),
        ('{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000, "Invalid Avro schema: RecursionError"),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
            "Invalid Avro schema: a name comes twice among the fields a, a",
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"\\ud800","type":"int"}]}',
            "Illegal initial character: ",
        ),
        ('{"type":"record","name":"R","fields":[{"name":5,"type":"int"}]}', "Invalid Avro schema: "),
        ('{"type":"fixed","name":"F","size":"x"}', "Invalid Avro schema: no record holds x bytes"),
        ('{"type":"fixed","name":"F","size":2000000000}', "Invalid Avro schema: no record holds 2000000000 bytes"),
        (
            '{"type":"record","name":"R","fields":[{"name":"d","type":{"type":"bytes","logicalType":"decimal",'
            '"precision":64,"scale":2},"default":"zzzzzzzzzzzzzzzzzzzz"}]}',
            "Spark cannot hold a default of more than 38 digits, 2 after the decimal point",
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"},'
            '"default":9223372036854775807}]}',
            "Spark cannot hold the default 9223372036854775807 of a timestamp",
        ),
    ],
)
def test_schemas_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        of(text)
    assert str(raised.value).startswith(message)


def test_a_schema_that_doubles_with_each_level_is_refused_at_once() -> None:
    """Of fifty such it would be read a quadrillion times."""
    inner: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
    for n in range(50):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{n}"}]
        inner = {"type": "record", "name": f"R{n + 1}", "fields": fields}
    with pytest.raises(DataError, match="The Avro schema is too large"):
        of(json.dumps(inner))


def test_properties_of_the_wrong_kind_are_none() -> None:
    text = '{"type":"record","name":"R","doc":5,"connect.doc":[],"fields":[{"name":"x","type":"int","doc":{}}]}'
    assert of(text) == struct(("x", INT32), name="R")
    assert of(text, discard_docs=True) == struct(("x", INT32), name="R")
    assert of('{"type":"enum","name":"E","symbols":["A"],"doc":5}') == Schema(
        T.STRING, name="E", parameters={ENUM: "E", f"{ENUM}.A": "A"}
    )


def test_an_error_is_a_record() -> None:
    text = '{"type":"error","name":"R","fields":[{"name":"x","type":"int"}]}'
    assert of(text) == struct(("x", INT32), name="R")
    assert parsed(text) == parsed(text.replace("error", "record"))
