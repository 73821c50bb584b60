"""Connect schemas as the JSON texts of `key.schema` and `value.schema`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.plugins.schema import OPTIONAL_STRING, Field, Schema, SchemaType, uncarried

_TYPES: Final[Mapping[str, SchemaType]] = {one.name: one for one in SchemaType}


def parsed(text: str) -> Schema:
    """Return the schema of a JSON text. Errors: ValueError, which says what is wrong and where."""
    try:
        node = json.loads(text)
    except ValueError as error:
        raise ValueError(f"It is no JSON: {error}") from error
    schema = _schema(node, "the schema")
    if schema.type is not SchemaType.STRUCT or not schema.fields:
        raise ValueError("It is no STRUCT with fieldSchemas")
    if (why := uncarried(schema)) is not None:
        raise ValueError(why)
    return schema


def _schema(node: Any, at: str) -> Schema:
    if not isinstance(node, dict):
        raise ValueError(f"{at} is no JSON object")
    kind = _TYPES.get(str(node.get("type")))
    if kind is None:
        raise ValueError(f"The type of {at} is {node.get('type')!r}, not one of {', '.join(_TYPES)}")
    fields = node.get("fieldSchemas") or {}
    if not isinstance(fields, dict):
        raise ValueError(f"The fieldSchemas of {at} are no JSON object")
    return Schema(
        kind,
        optional=bool(node.get("isOptional", False)),
        default=_default(node.get("defaultValue"), kind, at),
        name=node.get("name"),
        version=node.get("version"),
        doc=node.get("doc"),
        parameters={str(key): str(value) for key, value in (node.get("parameters") or {}).items()},
        fields=tuple(Field(name, _schema(one, f"the field {name}")) for name, one in fields.items()),
        key_schema=_schema(node["keySchema"], f"the keys of {at}") if node.get("keySchema") else None,
        value_schema=_schema(node["valueSchema"], f"the items of {at}") if node.get("valueSchema") else None,
    )


def _default(value: Any, kind: SchemaType, at: str) -> Any:
    if value is not None and (kind in (SchemaType.BYTES, SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)):
        raise ValueError(f"A defaultValue of {at}, of type {kind.name}, is not served. Remove it")
    return value


def text_of(schema: Schema) -> str:
    """Return the JSON text of a schema of optional strings, as `generated` makes it."""
    fields = {one.name: {"type": one.schema.type.name, "isOptional": one.schema.optional} for one in schema.fields}
    whole = {"name": schema.name, "type": "STRUCT", "isOptional": schema.optional, "fieldSchemas": fields}
    return json.dumps(whole)


def generated(name: str, fields: Sequence[str]) -> Schema:
    """Return a schema of optional strings."""
    return Schema(SchemaType.STRUCT, name=name, fields=tuple(Field(one, OPTIONAL_STRING) for one in fields))
