"""JSON Schemas as Connect schemas, values in them, and back."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.singer.errors import SingerError
from headrace.connectors.singer.json_schemas import json_line, json_schema
from headrace.connectors.singer.messages import Inexact
from headrace.connectors.singer.schemas import JSON, stream_type
from headrace.plugins.arrow_types import arrow_type_of
from headrace.plugins.errors import DataError
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType, spark_type

LONG, DOUBLE = Schema(SchemaType.INT64), Schema(SchemaType.FLOAT64)
BOOLEAN, STRING = Schema(SchemaType.BOOLEAN), Schema(SchemaType.STRING)


OPTIONAL_INTEGER = {"type": ["null", "integer"]}


def optional(schema: Schema) -> Schema:
    return Schema(**{**schema.__dict__, "optional": True})


def of(declared: Any, value: Any, numbers_as_text: bool = False, required: bool = True) -> tuple[Schema, Any]:
    """The schema of a property, and its value after it went through Arrow."""
    members = {"x": declared}
    made = stream_type("s", {"properties": members, "required": ["x"] if required else []}, (), numbers_as_text)
    packed = [made.value.pack({} if value is ... else {"x": value})]
    (field,) = made.value.schema.fields
    return field.schema, pa.array(packed, arrow_type_of(spark_type(made.value.schema))).to_pylist()[0]["x"]


@pytest.mark.parametrize(
    ("declared", "value", "schema", "carried"),
    [
        ({"type": "integer"}, 2**63 - 1, LONG, 2**63 - 1),
        ({"type": "integer"}, 3.0, LONG, 3),
        ({"type": ["integer"]}, 3, LONG, 3),
        ({"type": ["null", "integer"]}, None, optional(LONG), None),
        ({"type": "number"}, 0.1, DOUBLE, 0.1),
        ({"type": ["integer", "number"]}, 7, DOUBLE, 7.0),
        ({"type": "boolean"}, True, BOOLEAN, True),
        ({"type": "string"}, "ä\U0001f600", STRING, "ä\U0001f600"),
        (
            {"type": "string", "format": "date-time"},
            "2026-01-02T03:04:05.678901Z",
            STRING,
            "2026-01-02T03:04:05.678901Z",
        ),
        ({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string"}]}, "x", STRING, "x"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, None, optional(LONG), None),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 5, JSON, "5"),
        ({"type": ["string", "integer"]}, "5", JSON, '"5"'),
        ({}, {"a": [1, None]}, optional(JSON), '{"a":[1,null]}'),
        ({"$ref": "#/x"}, 1, optional(JSON), "1"),
        ({"type": "object"}, {"b": 1.5}, JSON, '{"b":1.5}'),
        ({"type": "array"}, [1, "a"], JSON, '[1,"a"]'),
        (
            {"type": "array", "items": {"type": "integer"}},
            [1, 2],
            Schema(SchemaType.ARRAY, value_schema=LONG),
            [1, 2],
        ),
        (
            {"type": "object", "additionalProperties": {"type": ["null", "boolean"]}},
            {"a": True, "b": None},
            Schema(SchemaType.MAP, key_schema=STRING, value_schema=optional(BOOLEAN)),
            [("a", True), ("b", None)],
        ),
        (
            {"type": "object", "properties": {"y": {"type": "string"}}},
            {},
            Schema(SchemaType.STRUCT, name="s.x", fields=(Field("y", optional(STRING)),)),
            {"y": None},
        ),
    ],
)
def test_a_property_has_the_schema_that_its_json_schema_says(
    declared: Any, value: Any, schema: Schema, carried: Any
) -> None:
    assert of(declared, value) == (schema, carried)


def test_a_property_that_is_not_required_may_be_missing() -> None:
    assert of({"type": "integer"}, ..., required=False) == (optional(LONG), None)


@pytest.mark.parametrize(
    ("value", "text"), [(0.1, "0.1"), (5, "5"), (Inexact("1.00000000000000000001"), "1.00000000000000000001")]
)
def test_numbers_as_strings_keep_all_digits(value: Any, text: str) -> None:
    assert of({"type": "number"}, value, numbers_as_text=True) == (STRING, text)


@pytest.mark.parametrize(
    ("declared", "value", "why"),
    [
        ({"type": "integer"}, 2**63, "9223372036854775808 is no integer of 64 bits"),
        ({"type": "integer"}, 1.5, "1.5 is no integer"),
        ({"type": "integer"}, True, "True is no integer"),
        ({"type": "integer"}, "1", "'1' is no integer"),
        ({"type": "integer"}, None, "nothing for its property x"),
        ({"type": "number"}, Inexact("0.10000000000000000001"), "numbers.as=string"),
        ({"type": "number"}, 2**53 + 1, "numbers.as=string"),
        ({"type": "number"}, 10**400, "numbers.as=string"),
        ({"type": "number"}, "1", "'1' is no number"),
        ({"type": "boolean"}, 1, "1 is no boolean"),
        ({"type": "string"}, 1, "1 is no string"),
        ({"type": "string"}, "\ud800", "half of a surrogate pair"),
        ({}, "\ud800", "half of a surrogate pair"),
        ({}, [Inexact("0.10000000000000000001")], "more digits"),
        ({}, float("nan"), "cannot be written as JSON"),
        ({"type": "object", "properties": {"y": {"type": "string"}}}, {"z": 1}, "SCHEMA lacks properties .* z"),
        ({"type": "array", "items": {"type": "integer"}}, [None], "None is no integer"),
    ],
)
def test_a_value_that_does_not_fit_is_named(declared: Any, value: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        of(declared, value)


def test_key_properties_are_the_key() -> None:
    declared = {
        "properties": {"a": {"type": "integer"}, "b": {"type": ["null", "string"]}, "c": {"type": "number"}},
        "required": ["a"],
    }
    made = stream_type("s", declared, ("b", "a"), False)
    assert made.key is not None
    assert made.key.schema.fields == (Field("b", optional(STRING)), Field("a", LONG))
    assert made.key_of({"a": 1, "b": "x", "c": 2}) == ("x", 1)
    with pytest.raises(SingerError, match="no properties for the keys of its stream s: d"):
        stream_type("s", declared, ("d",), False)
    with pytest.raises(SingerError, match="keys"):
        stream_type("s", {}, ("d",), False)


def logical(kind: SchemaType, name: str, **more: Any) -> Schema:
    return Schema(kind, name=name, version=1, **more)


@pytest.mark.parametrize(
    ("schema", "declared"),
    [
        (Schema(SchemaType.INT8), {"type": "integer"}),
        (optional(DOUBLE), {"type": ["null", "number"]}),
        (Schema(SchemaType.BYTES), {"type": "string", "contentEncoding": "base64"}),
        (logical(SchemaType.BYTES, DECIMAL, parameters={"scale": "2"}), {"type": "string", "format": "singer.decimal"}),
        (logical(SchemaType.INT32, DATE), {"type": "string", "format": "date"}),
        (logical(SchemaType.INT32, TIME), {"type": "string", "format": "time"}),
        (logical(SchemaType.INT64, TIMESTAMP), {"type": "string", "format": "date-time"}),
        (
            Schema(SchemaType.ARRAY, value_schema=optional(LONG)),
            {"type": "array", "items": {"type": ["null", "integer"]}},
        ),
        (
            Schema(SchemaType.MAP, key_schema=STRING, value_schema=LONG),
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (
            Schema(SchemaType.STRUCT, fields=(Field("a", LONG), Field("b", optional(STRING)))),
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": ["null", "string"]}},
                "required": ["a"],
            },
        ),
    ],
)
def test_a_connect_schema_is_a_json_schema(schema: Schema, declared: Any) -> None:
    assert json_schema(schema) == declared


def test_maps_of_other_keys_are_refused() -> None:
    with pytest.raises(DataError, match="keys are no strings"):
        json_schema(Schema(SchemaType.MAP, key_schema=LONG, value_schema=LONG))


def test_values_are_written_as_their_json_schemas_say() -> None:
    value = [
        Decimal("1E+3"),
        b"\x00\xff",
        date(2026, 1, 2),
        time(3, 4, 5, 6000),
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "ä",
    ]
    assert json_line({"x": value}) == (
        b'{"x":["1000","AP8=","2026-01-02","03:04:05.006000","2026-01-02T03:04:05+00:00","\xc3\xa4"]}\n'
    )
    with pytest.raises(DataError, match="JSON"):
        json_line({"x": float("inf")})
