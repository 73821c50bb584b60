"""Registered schemas that take the documents of a schema of ours, and those that do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.converters.json_schema.compatibility import breaks
from headrace.converters.json_schema.documents import Documents
from headrace.converters.json_schema.from_connect import json_schema, schema_text
from headrace.converters.json_schema.options import JsonSchemaOptions
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType

T = SchemaType
OWN = Schema(
    T.STRUCT,
    fields=(
        Field("a", STRING),
        Field("n", Schema(T.INT32)),
        Field("o", OPTIONAL_STRING),
        Field("l", Schema(T.ARRAY, value_schema=STRING)),
    ),
)
TEXT, LIST = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
MAYBE = {"type": ["string", "null"]}
ALL = {"a": TEXT, "n": {"type": "number"}, "o": MAYBE, "l": LIST}


def found(registered: Any) -> list[str]:
    text = schema_text(json_schema(OWN, JsonSchemaOptions()))
    return list(breaks(Documents(json.dumps(registered)), Documents(text)))


@pytest.mark.parametrize(
    "registered",
    [
        {},
        True,
        {"type": "object"},
        {"type": "object", "properties": ALL, "additionalProperties": False, "required": ["a", "n"]},
        {"properties": {**ALL, "o": {"oneOf": [{"type": "null"}, TEXT]}}},
        {"$ref": "#/$defs/x", "$defs": {"x": {"properties": ALL}}},
        {"allOf": [{"properties": {"a": TEXT}}, {"required": ["a"]}]},
        {"additionalProperties": {"type": ["string", "null", "integer", "array"]}},
    ],
)
def test_a_schema_that_takes_all_documents(registered: Any) -> None:
    assert found(registered) == []


@pytest.mark.parametrize(
    ("registered", "why"),
    [
        ({"type": "array"}, "the value is object, not array"),
        ({"required": ["x"]}, "property x of the value is required"),
        ({"additionalProperties": False, "properties": {"a": TEXT}}, "property n of the value is refused"),
        ({"properties": {"n": {"type": "string"}}}, "property n of the value is integer"),
        ({"properties": {"o": TEXT}}, "property o of the value is null"),
        ({"properties": {"a": {"enum": ["x"]}}}, "property a of the value may have other values"),
        ({"properties": {"l": {"items": {"type": "integer"}}}}, "items of property l of the value"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "fits no branch of oneOf"),
    ],
)
def test_a_schema_that_refuses_documents(registered: Any, why: str) -> None:
    assert any(why in one for one in found(registered)), found(registered)


def test_branches_that_name_each_other_end() -> None:
    assert found({"anyOf": [{"$ref": "#"}] * 10})[0] == "the value fits no branch of anyOf"
