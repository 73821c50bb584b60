"""Connect schemas from the JSON of Apache's JsonConverter, which a host sends once for each schema."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from headrace.plugins.schema import DECIMAL, Field, Schema, SchemaType, logical, scale


def schema_of(node: Mapping[str, Any] | None) -> Schema | None:
    """Return the schema of this description; None for schemaless."""
    return None if node is None else _schema(node)


def _schema(node: Mapping[str, Any]) -> Schema:
    inner = {key: _schema(node[name]) for name, key in _PARTS[node["type"]]} if node["type"] in _PARTS else {}
    found = Schema(
        SchemaType(node["type"]),
        optional=node.get("optional", False),
        name=node.get("name"),
        version=node.get("version"),
        doc=node.get("doc"),
        parameters=node.get("parameters") or {},
        fields=tuple(Field(field["field"], _schema(field)) for field in node.get("fields") or ()),
        **inner,
    )
    if node.get("default") is None:
        return found
    return Schema(**{**vars(found), "default": _value(node["default"], found)})


_PARTS = {"array": [("items", "value_schema")], "map": [("keys", "key_schema"), ("values", "value_schema")]}


def _value(given: Any, schema: Schema | None) -> Any:
    """Return a default as in `Schema.default`."""
    if given is None or schema is None:
        return given
    if schema.type is SchemaType.BYTES:
        data = base64.b64decode(given)
        if logical(schema) == DECIMAL:
            sign, digits, _ = Decimal(int.from_bytes(data, "big", signed=True)).as_tuple()
            return Decimal((sign, digits, -scale(schema)))  # `scaleb` would round to 28 digits
        return data
    if schema.type is SchemaType.ARRAY:
        return [_value(one, schema.value_schema) for one in given]
    if schema.type is SchemaType.MAP:
        pairs = given.items() if isinstance(given, dict) else given
        return {_value(key, schema.key_schema): _value(value, schema.value_schema) for key, value in pairs}
    if schema.type is SchemaType.STRUCT:
        return {field.name: _value(given.get(field.name), field.schema) for field in schema.fields}
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return float(given)
    return given
