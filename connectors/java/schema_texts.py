"""Connect schemas as JSON of Apache's JsonConverter: the reverse of `schemas.py`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from headrace.plugins.schema import Schema, SchemaType


def described(schema: Schema | None) -> dict[str, Any] | None:
    """Return the description of this schema; None for schemaless."""
    if schema is None:
        return None
    found: dict[str, Any] = {"type": str(schema.type), "optional": schema.optional}
    known = {"name": schema.name, "version": schema.version, "doc": schema.doc}
    found |= {key: value for key, value in known.items() if value is not None}
    if schema.parameters:
        found["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        found["default"] = _value(schema.default, schema)
    match schema.type:
        case SchemaType.ARRAY:
            found["items"] = described(schema.value_schema)
        case SchemaType.MAP:
            found |= {"keys": described(schema.key_schema), "values": described(schema.value_schema)}
        case SchemaType.STRUCT:
            found["fields"] = [{**(described(one.schema) or {}), "field": one.name} for one in schema.fields]
    return found


def _value(given: Any, schema: Schema | None) -> Any:
    """Return a default of `Schema.default` as JSON."""
    if given is None or schema is None:
        return given
    if isinstance(given, Decimal):
        sign, shown, _ = given.as_tuple()  # `scaleb` would round to 28 digits
        digits = int("".join(map(str, shown))) * (-1 if sign else 1)
        return _base64(digits.to_bytes(digits.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(given, bytes):
        return _base64(given)
    if schema.type is SchemaType.ARRAY:
        return [_value(one, schema.value_schema) for one in given]
    if schema.type is SchemaType.MAP:
        return _map(given, schema)
    if schema.type is SchemaType.STRUCT:
        return {field.name: _value(given.get(field.name), field.schema) for field in schema.fields}
    return given


def _map(given: Mapping[Any, Any], schema: Schema) -> Any:
    pairs = [[_value(key, schema.key_schema), _value(one, schema.value_schema)] for key, one in given.items()]
    keys = schema.key_schema
    return dict(pairs) if keys is not None and keys.type is SchemaType.STRING else pairs


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
