"""Connect's schemas of JSON Schemas that others wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.converters.json_schema.documents import Documents, merged
from headrace.converters.json_schema.options import ENUM, UNION, JsonSchemaOptions
from headrace.converters.json_schema.to_connect import connect_schema
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType

T = SchemaType
INT64, FLOAT64 = Schema(T.INT64), Schema(T.FLOAT64)
NULL = {"type": "null"}
TEXT = {"type": "string"}


def of(document: Any, **options: bool) -> Schema:
    return connect_schema(Documents(json.dumps(document)), JsonSchemaOptions(**options))


def struct(**fields: Schema) -> Schema:
    return Schema(T.STRUCT, fields=tuple(Field(name, schema) for name, schema in fields.items()))


def union(*branches: Schema, optional: bool = False) -> Schema:
    fields = tuple(Field(f"{UNION}.field.{number}", branch) for number, branch in enumerate(branches))
    return Schema(T.STRUCT, optional, name=UNION, fields=fields)


def enum(*values: str, optional: bool = False) -> Schema:
    return Schema(T.STRING, optional, parameters={ENUM: "", **{f"{ENUM}.{value}": value for value in values}})


@pytest.mark.parametrize(
    ("document", "schema"),
    [
        ({"type": "integer"}, INT64),
        ({"type": "number"}, FLOAT64),
        ({"type": "number", "connect.type": "int32"}, Schema(T.INT32)),
        ({"type": "string", "format": "date-time"}, STRING),
        ({"type": ["string", "null"]}, OPTIONAL_STRING),
        ({"type": ["null", "object"], "properties": {"a": TEXT}}, Schema(T.STRUCT, True, fields=(Field("a", STRING),))),
        ({"anyOf": [TEXT, NULL]}, OPTIONAL_STRING),
        ({"oneOf": [TEXT]}, STRING),
        (
            {"oneOf": [NULL, TEXT, {"type": "integer"}]},
            union(OPTIONAL_STRING, Schema(T.INT64, optional=True), optional=True),
        ),
        ({"type": ["string", "integer"]}, union(OPTIONAL_STRING, Schema(T.INT64, optional=True))),
        ({"enum": ["A", "B"]}, enum("A", "B")),
        ({"type": "string", "enum": ["A", None]}, enum("A", "<NULL>", optional=True)),
        ({"const": "A"}, enum("A")),
        ({"type": "integer", "enum": [1, 2]}, INT64),
        ({"items": TEXT}, Schema(T.ARRAY, value_schema=STRING)),
        ({"properties": {"a": TEXT}}, struct(a=STRING)),
        ({"type": "object"}, struct()),
        (
            {"properties": {"a": {**TEXT, "connect.index": 1}, "b": {**TEXT, "connect.index": 0}}},
            struct(b=STRING, a=STRING),
        ),
        (
            {"properties": {"a": {**TEXT, "connect.index": 0}, "b": {**TEXT, "connect.index": 0}}},
            struct(a=STRING, b=STRING),
        ),
        ({"allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}]}, struct(a=STRING, b=STRING)),
        (
            {"type": "object", "properties": {"a": TEXT}, "oneOf": [{"properties": {"b": TEXT}}, {"required": ["a"]}]},
            struct(a=STRING, b=STRING),
        ),
        ({"allOf": [{"type": "string"}, {"enum": ["A"]}]}, enum("A")),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, STRING),
        (
            {
                "type": "object",
                "title": "com.acme.Order",
                "description": "An order.",
                "connect.version": 3,
                "properties": {"n": {"type": "integer", "default": 7}},
            },
            Schema(
                T.STRUCT,
                name="com.acme.Order",
                doc="An order.",
                version=3,
                fields=(Field("n", Schema(T.INT64, default=7)),),
            ),
        ),
    ],
)
def test_schemas_of_all_kinds(document: Any, schema: Schema) -> None:
    assert of(document) == schema


def test_properties_that_are_not_required_are_optional_if_asked_for() -> None:
    document = {"properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}
    assert of(document, optional_unless_required=True) == struct(a=STRING, b=OPTIONAL_STRING)
    assert of(document) == struct(a=STRING, b=STRING)


@pytest.mark.parametrize("where", ["definitions", "$defs"])
def test_references_within_the_document(where: str) -> None:
    document = {
        "properties": {"a": {"$ref": f"#/{where}/x~1y%20z"}, "b": {"oneOf": [NULL, {"$ref": "#word"}]}},
        where: {"x/y z": TEXT, "other": {"$anchor": "word", "type": "string"}},
    }
    assert of(document) == struct(a=STRING, b=OPTIONAL_STRING)


def test_references_to_other_subjects() -> None:
    text = json.dumps({"properties": {"a": {"$ref": "money.json"}, "b": {"$ref": "https://acme.com/i.json#/$defs/n"}}})
    money = json.dumps({"properties": {"of": {"$ref": "coin.json"}}})
    coin = json.dumps({"type": "string"})
    numbers = json.dumps({"$id": "https://acme.com/i.json", "$defs": {"n": {"type": "integer"}}})
    found = merged(text, [("money.json", money), ("coin.json", coin), ("n.json", numbers)])
    assert connect_schema(Documents(found), JsonSchemaOptions()) == struct(a=struct(of=STRING), b=INT64)
    assert merged(text, []) == text


def test_one_name_has_one_document() -> None:
    assert merged("{}", [("a", "{}"), ("a", " {}")])
    with pytest.raises(DataError, match="two different documents for a"):
        merged("{}", [("a", "{}"), ("a", "true")])


def test_a_fragment_is_of_its_own_document_whose_id_is_no_path() -> None:
    text = json.dumps({"properties": {"a": {"$ref": "b.json"}}, "$defs": {"x": {"type": "integer"}}})
    other = json.dumps({"$id": "urn:acme:b", "properties": {"of": {"$ref": "#/$defs/x"}}, "$defs": {"x": TEXT}})
    found = connect_schema(Documents(merged(text, [("b.json", other)])), JsonSchemaOptions())
    assert found == struct(a=struct(of=STRING))


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"properties": {"next": {"$ref": "#"}}}, "contains itself at property next"),
        ({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}, "type": "array"}}, "$ref": "#/$defs/a"}, "contains itself"),
        ({"allOf": [{"$ref": "#"}]}, "contains itself"),
        ({"$ref": "#"}, "do not end"),
        ({"type": "array"}, "Array schema did not specify the items type"),
        ({"type": "array", "items": [TEXT]}, "Array schema did not specify the items type"),
        ({}, "any value"),
        (True, "any value"),
        ({"type": "null"}, "no type"),
        ({"type": "integer", "connect.type": "int128"}, "int128"),
        ({"$ref": "other.json"}, "neither in it nor among its references"),
        ({"$ref": "#/$defs/a"}, "where nothing stands"),
        ({"allOf": [{"type": "object"}]}, "without properties"),
        ({"properties": {"": TEXT}}, "whose name no field can have"),
        ({"type": "integer", "connect.type": ["int8"]}, "which Connect does not know for a number"),
        ({"type": "number", "default": float("inf")}, "default is inf at the schema"),
        ({"allOf": [{"oneOf": 1}]}, "without properties or a type"),
    ],
)
def test_what_connect_or_spark_lacks_is_refused_with_its_place(document: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        of(document)


def test_a_short_document_that_unfolds_to_a_huge_one_is_refused() -> None:
    levels = {f"l{n}": {"properties": {name: {"$ref": f"#/$defs/l{n + 1}"} for name in "abcdefgh"}} for n in range(12)}
    with pytest.raises(DataError, match="too large"):
        of({"$defs": {**levels, "l12": TEXT}, "$ref": "#/$defs/l0"})


def test_a_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(DataError, match="not JSON"):
        Documents("{")
