"""Connect's schemas to JSON Schemas, with the text that Confluent's converter registers.

The order of members is part of that text: the type, what describes the schema, Connect's own members and the properties
in the order of Java's HashMap, the parts last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from headrace.converters.json.schema import MOST_WRITTEN, refusal
from headrace.converters.json_schema.options import ENUM, OWN, JsonSchemaOptions, is_union
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.java.hash_order import hash_ordered
from headrace.plugins.interop.java.jackson import java_json, json_number
from headrace.plugins.interop.json.values import value_text
from headrace.plugins.schema import DECIMAL, INTEGER_BITS, Schema, SchemaType, logical

_NULL: Final[Mapping[str, Any]] = {"type": "null"}
_FLOATS: Final = {SchemaType.FLOAT32: "float32", SchemaType.FLOAT64: "float64"}


def json_schema(schema: Schema | None, options: JsonSchemaOptions) -> dict[str, Any]:
    """The JSON Schema of a Connect schema. Errors: DataError for none, and for one that Headrace cannot write."""
    if schema is None:
        raise DataError("JsonSchemaConverter writes values with a Connect schema only; use JsonConverter for others")
    if (why := refusal(schema, MOST_WRITTEN)) is not None:
        raise DataError(why)
    return _written(schema, options, None)


def schema_text(document: Mapping[str, Any]) -> str:
    """The text of a JSON Schema as it is registered."""
    return java_json(document)


def _written(schema: Schema, options: JsonSchemaOptions, index: int | None) -> dict[str, Any]:
    if not schema.optional:
        return _described(schema, options, index)
    if is_union(schema):
        found = _described(replace(schema, optional=False), options, index)
        return {**found, "oneOf": [_NULL, *found["oneOf"]]}
    around = {} if index is None else {"connect.index": index}
    return {**around, "oneOf": [_NULL, _described(schema, options, None)]}


def _described(schema: Schema, options: JsonSchemaOptions, index: int | None) -> dict[str, Any]:
    """The schema, as if it were not optional."""
    kind, parts = _parts(schema, options)
    described: dict[str, Any] = {}
    if schema.name is not None and not is_union(schema):
        described["title"] = schema.name
    if schema.doc is not None:
        described["description"] = schema.doc
    if schema.default is not None:
        described["default"] = _default(schema, options)
    parameters = {name: value for name, value in schema.parameters.items() if not name.startswith(OWN)}
    own = {
        "connect.index": index,
        "connect.version": schema.version,
        "connect.type": _connect_type(schema),
        "connect.parameters": {name: parameters[name] for name in hash_ordered(parameters)} or None,
    }
    described |= {name: own[name] for name in hash_ordered(own) if own[name] is not None}
    if schema.type is SchemaType.BOOLEAN:
        return described | kind  # the library that prints it writes this type last
    return kind | described | parts


def _connect_type(schema: Schema) -> str | None:
    match schema.type:
        case SchemaType.MAP | SchemaType.BYTES:
            return str(schema.type)
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return _FLOATS[schema.type]
    return str(schema.type) if schema.type in INTEGER_BITS else None


def _parts(schema: Schema, options: JsonSchemaOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """The members that stand before the description, and those after it."""
    if schema.type in INTEGER_BITS:
        return {"type": "integer"}, {}
    match schema.type:
        case SchemaType.STRING if ENUM in schema.parameters:
            values = [name.removeprefix(f"{ENUM}.") for name in schema.parameters if name.startswith(f"{ENUM}.")]
            return {"enum": [None if value == "<NULL>" else value for value in values]}, {}
        case SchemaType.BYTES if logical(schema) == DECIMAL and options.numeric:
            return {"type": "number"}, {}
        case SchemaType.STRING | SchemaType.BYTES:
            return {"type": "string"}, {}
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return {"type": "number"}, {}
        case SchemaType.BOOLEAN:
            return {"type": "boolean"}, {}
        case SchemaType.ARRAY:
            return {"type": "array"}, {"items": _inner(schema.value_schema, options)}
        case SchemaType.MAP:
            return _map(schema, options)
    return _struct(schema, options)


def _inner(schema: Schema | None, options: JsonSchemaOptions, index: int | None = None) -> dict[str, Any]:
    if schema is None:
        raise DataError("JsonSchemaConverter cannot write items or values without a schema")
    return _written(schema, options, index)


def _map(schema: Schema, options: JsonSchemaOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    key, value = schema.key_schema, schema.value_schema
    if is_object(schema):
        return {"type": "object"}, {"additionalProperties": _inner(value, options)}
    of = {"key": _inner(key, options, 0), "value": _inner(value, options, 1)}
    entry = {"type": "object", "properties": {name: of[name] for name in hash_ordered(of)}}
    return {"type": "array"}, {"items": entry}


def is_object(schema: Schema) -> bool:
    """True if a map's values are written as an object; else as an array of objects with key and value."""
    key = schema.key_schema
    return key is not None and key.type is SchemaType.STRING and not key.optional


def _struct(schema: Schema, options: JsonSchemaOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    found = {
        field.name: _written(
            replace(field.schema, optional=False) if is_union(schema) else field.schema, options, place
        )
        for place, field in enumerate(schema.fields)
    }
    if is_union(schema):
        return {}, {"oneOf": list(found.values())}
    kind: dict[str, Any] = {"type": "object"}
    if not options.open_objects:
        kind["additionalProperties"] = False
    return kind, {"properties": {name: found[name] for name in hash_ordered(found)}} if found else {}


def _default(schema: Schema, options: JsonSchemaOptions) -> Any:
    """The default as a JSON value; a number without a fraction is an integer, as the library prints it."""
    if isinstance(schema.default, float) and not isinstance(schema.default, bool):
        number = json_number((np.float32 if schema.type is SchemaType.FLOAT32 else np.float64)(schema.default))
    else:
        number = value_text(replace(schema, optional=True), schema.default, options.numeric, options.replace_nulls)
    return _without_fraction(json.loads(number))


def _without_fraction(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e7:
        return int(value)
    return value
