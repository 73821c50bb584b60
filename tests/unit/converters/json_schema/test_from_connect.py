"""JSON Schemas of Connect's, beside texts that Java's converter registered."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.converters.json_schema.documents import Documents
from headrace.converters.json_schema.from_connect import json_schema, schema_text
from headrace.converters.json_schema.options import ENUM, UNION, JsonSchemaOptions
from headrace.converters.json_schema.to_connect import connect_schema
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import DATE, DECIMAL, OPTIONAL_STRING, STRING, TIME, TIMESTAMP, Field, Schema, SchemaType

T = SchemaType
OPTIONS = JsonSchemaOptions()
INT32 = Schema(T.INT32)

ROW = (
    '{"type":"object","title":"server1.shop.orders.Value","properties":{'
    '"val":{"connect.index":1,"oneOf":[{"type":"null"},{"type":"string"}]},'
    '"id":{"type":"integer","connect.index":0,"connect.type":"int32"}}}'
)
LONG = '"oneOf":[{"type":"null"},{"type":"integer","connect.type":"int64"}]'
ENVELOPE = (
    '{"type":"object","title":"server1.shop.orders.Envelope","connect.version":1,"properties":{'
    '"op":{"type":"string","connect.index":3},'
    f'"before":{{"connect.index":0,"oneOf":[{{"type":"null"}},{ROW}]}},'
    f'"after":{{"connect.index":1,"oneOf":[{{"type":"null"}},{ROW}]}},'
    '"source":{"type":"object","title":"io.debezium.connector.postgresql.Source","connect.index":2,"properties":{'
    '"schema":{"type":"string","connect.index":7},'
    '"sequence":{"connect.index":6,"oneOf":[{"type":"null"},{"type":"string"}]},'
    f'"xmin":{{"connect.index":11,{LONG}}},'
    '"connector":{"type":"string","connect.index":1},'
    f'"lsn":{{"connect.index":10,{LONG}}},'
    '"name":{"type":"string","connect.index":2},'
    f'"txId":{{"connect.index":9,{LONG}}},'
    '"version":{"type":"string","connect.index":0},'
    '"ts_ms":{"type":"integer","connect.index":3,"connect.type":"int64"},'
    '"snapshot":{"connect.index":4,"oneOf":[{"type":"null"},{"type":"string","title":"io.debezium.data.Enum",'
    '"default":"false","connect.version":1,"connect.parameters":{"allowed":"true,last,false,incremental"}}]},'
    '"db":{"type":"string","connect.index":5},'
    '"table":{"type":"string","connect.index":8}}},'
    f'"ts_ms":{{"connect.index":4,{LONG}}},'
    '"transaction":{"connect.index":5,"oneOf":[{"type":"null"},{"type":"object","title":"event.block",'
    '"connect.version":1,"properties":{'
    '"data_collection_order":{"type":"integer","connect.index":2,"connect.type":"int64"},'
    '"id":{"type":"string","connect.index":0},'
    '"total_order":{"type":"integer","connect.index":1,"connect.type":"int64"}}}]}}}'
)
"""As Java's converter registered it for Debezium (names of the shop are ours)."""
CARD = (
    '{"type":"object","properties":{"cvv":{"type":"string","connect.index":2},'
    '"card_number":{"type":"string","connect.index":1},"expiration_date":{"type":"string","connect.index":3},'
    '"card_id":{"type":"number","connect.index":0,"connect.type":"float64"}}}'
)


def text(schema: Schema, options: JsonSchemaOptions = OPTIONS) -> str:
    return schema_text(json_schema(schema, options))


@pytest.mark.parametrize("registered", [ENVELOPE, CARD])
def test_what_java_registered_is_read_and_written_byte_for_byte(registered: str) -> None:
    assert text(connect_schema(Documents(registered), OPTIONS)) == registered


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        (Schema(T.INT8), '{"type":"integer","connect.type":"int8"}'),
        (Schema(T.INT64), '{"type":"integer","connect.type":"int64"}'),
        (Schema(T.FLOAT32), '{"type":"number","connect.type":"float32"}'),
        (Schema(T.BOOLEAN, doc="d", default=True), '{"description":"d","default":true,"type":"boolean"}'),
        (Schema(T.BYTES, default=b"\x01"), '{"type":"string","default":"AQ==","connect.type":"bytes"}'),
        (OPTIONAL_STRING, '{"oneOf":[{"type":"null"},{"type":"string"}]}'),
        (Schema(T.FLOAT64, default=5.0), '{"type":"number","default":5,"connect.type":"float64"}'),
        (Schema(T.FLOAT64, default=1e30), '{"type":"number","default":1.0E30,"connect.type":"float64"}'),
        (
            Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"}),
            f'{{"type":"string","title":"{DECIMAL}","connect.version":1,"connect.type":"bytes",'
            '"connect.parameters":{"scale":"2"}}',
        ),
        (
            Schema(T.INT32, name=DATE, version=1),
            f'{{"type":"integer","title":"{DATE}","connect.version":1,"connect.type":"int32"}}',
        ),
        (
            Schema(T.INT64, name=TIMESTAMP, version=1),
            f'{{"type":"integer","title":"{TIMESTAMP}","connect.version":1,"connect.type":"int64"}}',
        ),
        (Schema(T.ARRAY, value_schema=STRING), '{"type":"array","items":{"type":"string"}}'),
        (
            Schema(T.MAP, key_schema=STRING, value_schema=INT32),
            '{"type":"object","connect.type":"map","additionalProperties":{"type":"integer","connect.type":"int32"}}',
        ),
        (
            Schema(T.MAP, key_schema=OPTIONAL_STRING, value_schema=STRING),
            '{"type":"array","connect.type":"map","items":{"type":"object","properties":{'
            '"value":{"type":"string","connect.index":1},'
            '"key":{"connect.index":0,"oneOf":[{"type":"null"},{"type":"string"}]}}}}',
        ),
        (Schema(T.STRING, parameters={ENUM: "", f"{ENUM}.A": "A", f"{ENUM}.B": "B"}), '{"enum":["A","B"]}'),
        (
            Schema(T.STRUCT, True, name=UNION, fields=(Field(f"{UNION}.field.0", OPTIONAL_STRING),)),
            '{"oneOf":[{"type":"null"},{"type":"string","connect.index":0}]}',
        ),
        (Schema(T.STRUCT), '{"type":"object"}'),
    ],
)
def test_schemas_of_all_kinds(schema: Schema, written: str) -> None:
    assert text(schema) == written


def test_decimals_as_numbers_and_closed_objects() -> None:
    schema = Schema(T.STRUCT, name="O", fields=(Field("d", Schema(T.BYTES, name=DECIMAL, parameters={"scale": "1"})),))
    assert text(schema, JsonSchemaOptions(open_objects=False, numeric=True)) == (
        '{"type":"object","additionalProperties":false,"title":"O","properties":{"d":{"type":"number",'
        f'"title":"{DECIMAL}","connect.index":0,"connect.type":"bytes","connect.parameters":{{"scale":"1"}}}}}}}}'
    )


def test_values_without_schema_are_refused() -> None:
    with pytest.raises(DataError, match="use JsonConverter"):
        json_schema(None, OPTIONS)


def deep(depth: int) -> Schema:
    schema = STRING
    for _ in range(depth):
        schema = Schema(T.STRUCT, fields=(Field("f", schema),))
    return schema


def test_a_schema_that_is_too_large_is_refused() -> None:
    with pytest.raises(DataError, match="too large"):
        json_schema(deep(40), OPTIONS)


FIELDS: list[tuple[str, Any]] = [
    ("a", Schema(T.INT16, True, default=3, doc="d")),
    ("b", Schema(T.BYTES)),
    ("c", Schema(T.INT32, name=TIME, version=1)),
    ("d", Schema(T.MAP, True, key_schema=INT32, value_schema=OPTIONAL_STRING, name="m")),
    ("e", Schema(T.ARRAY, value_schema=Schema(T.BOOLEAN, True))),
    ("f", Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2", "connect.decimal.precision": "9"})),
    ("g", Schema(T.STRUCT, True, name="x.y.Z", version=4, fields=(Field("h", OPTIONAL_STRING),))),
    ("i", Schema(T.STRING, parameters={ENUM: "", f"{ENUM}.A": "A"})),
    (
        "j",
        Schema(
            T.STRUCT,
            name=UNION,
            fields=(
                Field(f"{UNION}.field.0", OPTIONAL_STRING),
                Field(f"{UNION}.field.1", Schema(T.INT64, optional=True)),
            ),
        ),
    ),
]


@pytest.mark.parametrize("numeric", [False, True])
def test_a_schema_comes_back_as_it_went(numeric: bool) -> None:
    schema = Schema(T.STRUCT, name="O", fields=tuple(Field(name, of) for name, of in FIELDS))
    options = JsonSchemaOptions(numeric=numeric)
    assert connect_schema(Documents(text(schema, options)), options) == schema
