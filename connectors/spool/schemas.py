"""Connect schemas as the JSON texts of `key.schema` and `value.schema`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.interop.formats.projection import default_array
from headrace.plugins.schema import OPTIONAL_STRING, Field, Schema, SchemaType, uncarried

_TYPES: Final[Mapping[str, SchemaType]] = {one.name: one for one in SchemaType}

_MEMBERS: Final = (
    ("name", str, "a text"),
    ("version", int, "a number"),
    ("doc", str, "a text"),
    ("parameters", dict, "a JSON object"),
    ("fieldSchemas", dict, "a JSON object"),
)


def parsed(text: str) -> Schema:
    """Return the schema of a JSON text. Errors: ValueError, which says what is wrong and where."""
    try:
        node = json.loads(text)
    except ValueError as error:
        raise ValueError(f"It is no JSON: {error}") from error
    except RecursionError:
        raise ValueError("It is nested too deep") from None
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
    for member, type_, text in _MEMBERS:
        if not isinstance(node.get(member), type_ | None):
            raise ValueError(f"{member} of {at} is {node[member]!r}, not {text}")
    fields = node.get("fieldSchemas") or {}
    schema = Schema(
        kind,
        optional=_flag(node.get("isOptional", False), at),
        default=node.get("defaultValue"),
        name=node.get("name"),
        version=node.get("version"),
        doc=node.get("doc"),
        parameters={str(key): str(value) for key, value in (node.get("parameters") or {}).items()},
        fields=tuple(Field(name, _schema(one, f"the field {name}")) for name, one in fields.items()),
        key_schema=_schema(node["keySchema"], f"the keys of {at}") if node.get("keySchema") else None,
        value_schema=_schema(node["valueSchema"], f"the items of {at}") if node.get("valueSchema") else None,
    )
    _check_default(schema, at)
    return schema


def _flag(value: Any, at: str) -> bool:
    """The value of `isOptional`, which may be a text as in the original."""
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError(f"The isOptional of {at} is {value!r}, not true or false")
    return text == "true"


def _check_default(schema: Schema, at: str) -> None:
    if schema.default is None:
        return
    if schema.type in (SchemaType.BYTES, SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT):
        raise ValueError(f"A defaultValue of {at}, of type {schema.type.name}, is not served. Remove it")
    try:
        default_array(schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"The defaultValue of {at} is no {schema.type.name}: {schema.default!r}") from error


def text_of(schema: Schema) -> str:
    """Return the JSON text of a schema of optional strings, as `generated` makes it."""
    fields = {one.name: {"type": one.schema.type.name, "isOptional": one.schema.optional} for one in schema.fields}
    whole = {"name": schema.name, "type": "STRUCT", "isOptional": schema.optional, "fieldSchemas": fields}
    return json.dumps(whole)


def generated(name: str, fields: Sequence[str]) -> Schema:
    """Return a schema of optional strings."""
    return Schema(SchemaType.STRUCT, name=name, fields=tuple(Field(one, OPTIONAL_STRING) for one in fields))
