"""Connect schemas to JSON as by JsonConverter, and back; `json.defaults` reads their defaults.

Decided: the default of a struct is read, which Apache writes and then refuses (`Invalid default value`), because Apache
refuses it only by comparing the schema with its own builder; loses: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, NoReturn

from headrace.converters.json.defaults import read_value, refuse_invalid
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.java.jackson import json_string
from headrace.plugins.interop.java.numbers import parse_decimal
from headrace.plugins.interop.json.values import value_text
from headrace.plugins.schema import Field, Schema, SchemaType, sendable, uncarried

MOST_DEPTH: Final = 16
MOST_PARTS: Final = 500
"""The most parts of a schema to read: Spark plans 500 fields in a quarter of a minute."""
MOST_WRITTEN: Final = 2_000
"""The most parts of a schema to write: the time to plan grows only linearly."""
_LONGEST_NUMBER: Final = 1_000
"""The longest number in characters, as in Jackson."""
TOO_LARGE: Final = (
    f"The schema is too large: Headrace converts up to {MOST_DEPTH} levels of nesting and {{}} fields, items, keys and "
    "values in all."
)


def refusal(schema: Schema | None, most: int = MOST_PARTS) -> str | None:
    """The reason that values of this schema cannot be converted; None if they can."""
    if schema is None:
        return None
    for parts, depth in enumerate(_depths(schema), 1):
        if depth > MOST_DEPTH or parts > most:
            return TOO_LARGE.format(most)
    return uncarried(schema)


def _depths(schema: Schema) -> Iterator[int]:
    """The depth of each part of a schema; without recursion, because the schema may be malicious."""
    waiting = [(schema, 0)]
    while waiting:
        part, depth = waiting.pop()
        yield depth
        inner = (part.key_schema, part.value_schema, *(field.schema for field in part.fields))
        waiting += [(one, depth + 1) for one in inner if one is not None]


def read_json(text: str) -> Any:
    """The JSON document. Errors: ValueError or RecursionError for any other text."""
    return json.loads(text, strict=False, parse_constant=_refuse_constant, parse_float=_fraction, parse_int=_integer)


def _integer(text: str) -> int:
    return int(_bounded(text))


def _fraction(text: str) -> Decimal:
    number = parse_decimal(_bounded(text))
    if number is None:
        raise ValueError(f"{text} is beyond the numbers of Java")
    return number


def _bounded(text: str) -> str:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} characters")
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse_schema(node: object) -> Schema | None:
    """The schema in this JSON document; None for null. Errors: DataError with Connect's text."""
    if node is None:
        return None
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        raise DataError("Schema must contain 'type' field")
    try:
        schema_type = SchemaType(node["type"])
    except ValueError:
        raise DataError(f"Unknown schema type: {node['type']}") from None
    name, version, doc = node.get("name"), node.get("version"), node.get("doc")
    schema = Schema(
        schema_type,
        optional=node.get("optional") is True,
        name=name if isinstance(name, str) else None,
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
        doc=doc if isinstance(doc, str) else None,
        parameters=_parameters(node.get("parameters")),
        **_parts(schema_type, node),
    )
    if "default" not in node:
        return schema
    if (why := uncarried(schema)) is not None:
        raise DataError(why)
    default = read_value(schema, node["default"])
    refuse_invalid(schema, default)
    return replace(schema, default=default)


def _parameters(node: object) -> dict[str, str]:
    if not isinstance(node, dict):
        return {}
    if not all(isinstance(value, str) for value in node.values()):
        raise DataError("Schema parameters must have string values.")
    return node


def _parts(schema_type: SchemaType, node: Mapping[str, Any]) -> dict[str, Any]:
    if schema_type is SchemaType.ARRAY:
        if node.get("items") is None:
            raise DataError("Array schema did not specify the element type")
        return {"value_schema": parse_schema(node["items"])}
    if schema_type is SchemaType.MAP:
        for member, what in (("keys", "key"), ("values", "value")):
            if member not in node:
                raise DataError(f"Map schema did not specify the {what} type")
        schemas = {
            f"{what}_schema": parse_schema(node[member]) for member, what in (("keys", "key"), ("values", "value"))
        }
        for what in ("key", "value"):
            if schemas[f"{what}_schema"] is None:
                raise DataError(f"{what}Schema cannot be null.")
        return schemas
    if schema_type is SchemaType.STRUCT:
        return {"fields": _fields(node.get("fields"))}
    return {}


def _fields(node: object) -> tuple[Field, ...]:
    if not isinstance(node, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields: dict[str, Field] = {}
    for member in node:
        name = member.get("field") if isinstance(member, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        if not name:
            raise DataError("fieldName cannot be null.")
        if sendable(name) != name:
            raise DataError(f"Headrace cannot hold a field whose name is no text: {name}")
        if name in fields:
            raise DataError(f"Cannot create field because of field name duplication {name}")
        schema = parse_schema(member)
        assert schema is not None
        fields[name] = Field(name, schema)
    return tuple(fields.values())


def schema_text(schema: Schema | None, numeric: bool = False, replace_nulls: bool = True) -> str:
    """The schema in JSON, byte for byte as JsonConverter writes it; `numeric`: decimals in defaults as numbers."""
    return "null" if schema is None else "{" + ",".join(_members(schema, numeric, replace_nulls)) + "}"


def _members(schema: Schema, numeric: bool, replace_nulls: bool) -> list[str]:
    def text(of: Schema | None) -> str:
        return schema_text(of, numeric, replace_nulls)

    members = [f'"type":"{schema.type}"']
    if schema.type is SchemaType.ARRAY:
        members.append(f'"items":{text(schema.value_schema)}')
    elif schema.type is SchemaType.MAP:
        members.append(f'"keys":{text(schema.key_schema)},"values":{text(schema.value_schema)}')
    elif schema.type is SchemaType.STRUCT:
        fields = (
            "{" + ",".join([*_members(f.schema, numeric, replace_nulls), f'"field":{json_string(f.name)}']) + "}"
            for f in schema.fields
        )
        members.append(f'"fields":[{",".join(fields)}]')
    members.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        members.append(f'"name":{json_string(schema.name)}')
    if schema.version is not None:
        members.append(f'"version":{schema.version}')
    if schema.doc is not None:
        members.append(f'"doc":{json_string(schema.doc)}')
    if schema.parameters:
        pairs = (f"{json_string(key)}:{json_string(value)}" for key, value in schema.parameters.items())
        members.append(f'"parameters":{{{",".join(pairs)}}}')
    if schema.default is not None:
        members.append(f'"default":{value_text(schema, schema.default, numeric, replace_nulls)}')
    return members
