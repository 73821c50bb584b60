"""Connect schemas as JsonConverter writes them in JSON, both ways, and values (defaults) that stand in them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn

import numpy as np

from headrace.plugins.contracts import DataError
from headrace.plugins.java_json import json_number, json_string
from headrace.plugins.schema import Field, Schema, SchemaType

INTEGER_BITS: Final = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
CONTAINERS: Final = (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)
LOGICAL: Final = frozenset(f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Decimal", "Time", "Timestamp"))


def missing_support(schema: Schema | None) -> str | None:
    """Why values of this schema cannot be converted by this version; None where they can."""
    if schema is None or (schema.type not in CONTAINERS and schema.name not in LOGICAL):
        return None
    kind = schema.name if schema.name in LOGICAL else f"{schema.type.name} values"
    return (
        f"JsonConverter converts strings and primitive values in this version of Headrace; {kind} come with a later "
        "one. Until then StringConverter or ByteArrayConverter carries such records as they are."
    )


def read_json(text: str) -> Any:
    """The JSON document.

    Errors: ValueError or RecursionError where it is none.
    """
    return json.loads(text, strict=False, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse_schema(node: object) -> Schema | None:
    """The schema that this JSON document describes; None for null.

    Errors: DataError with Connect's text.
    """
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
    return replace(schema, default=read_value(schema, node["default"])) if "default" in node else schema


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
        return {"key_schema": parse_schema(node["keys"]), "value_schema": parse_schema(node["values"])}
    if schema_type is SchemaType.STRUCT:
        return {"fields": _fields(node.get("fields"))}
    return {}


def _fields(node: object) -> tuple[Field, ...]:
    if not isinstance(node, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields = []
    for member in node:
        name = member.get("field") if isinstance(member, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        schema = parse_schema(member)
        assert schema is not None
        fields.append(Field(name, schema))
    return tuple(fields)


def read_value(schema: Schema | None, node: Any) -> Any:
    """The value a JSON document has under this schema, read as leniently as Connect does: a text for an int is 0.

    Errors: DataError with Connect's text.
    """
    if schema is None:
        return node
    if node is None:
        if schema.default is None and not schema.optional:
            raise DataError(f"Invalid null value for required {schema.type.name} field")
        return schema.default
    if schema.type in INTEGER_BITS:
        return _low_bits(_number(node), INTEGER_BITS[schema.type])
    match schema.type:
        case SchemaType.FLOAT32:
            return float(np.float32(_number(node)))
        case SchemaType.FLOAT64:
            return float(_number(node))
        case SchemaType.BOOLEAN:
            return node is True
        case SchemaType.STRING:
            return node if isinstance(node, str) else None
        case SchemaType.BYTES:
            return _bytes(node)
    return _read_container(schema, node)


def _read_container(schema: Schema, node: Any) -> Any:
    match schema.type, node:
        case SchemaType.ARRAY, list():
            return [read_value(schema.value_schema, item) for item in node]
        case SchemaType.ARRAY, _:
            return []
        case SchemaType.STRUCT, dict():
            return {field.name: read_value(field.schema, node.get(field.name)) for field in schema.fields}
        case SchemaType.MAP, dict():
            return {key: read_value(schema.value_schema, item) for key, item in node.items()}
        case SchemaType.MAP, list():
            return {read_value(schema.key_schema, key): read_value(schema.value_schema, item) for key, item in node}
    raise DataError(f"Invalid default value for {schema.type.name}")


def _number(node: Any) -> int | float:
    return node if isinstance(node, int | float) and not isinstance(node, bool) else 0


def _low_bits(number: int | float, bits: int) -> int:
    try:
        low = int(number) & ((1 << bits) - 1)
    except OverflowError:
        return 0
    return low - (1 << bits) if low >> (bits - 1) else low


def _bytes(node: Any) -> bytes | None:
    if not isinstance(node, str):
        return None
    try:
        return base64.b64decode(node, validate=True)
    except binascii.Error:
        raise DataError("Invalid bytes field") from None


def schema_text(schema: Schema | None) -> str:
    """The schema in JSON, byte for byte as JsonConverter writes it."""
    return "null" if schema is None else "{" + ",".join(_members(schema)) + "}"


def _members(schema: Schema) -> list[str]:
    members = [f'"type":"{schema.type}"']
    if schema.type is SchemaType.ARRAY:
        members.append(f'"items":{schema_text(schema.value_schema)}')
    elif schema.type is SchemaType.MAP:
        members.append(f'"keys":{schema_text(schema.key_schema)},"values":{schema_text(schema.value_schema)}')
    elif schema.type is SchemaType.STRUCT:
        fields = ("{" + ",".join([*_members(f.schema), f'"field":{json_string(f.name)}']) + "}" for f in schema.fields)
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
        members.append(f'"default":{value_text(schema, schema.default)}')
    return members


def value_text(schema: Schema, value: Any) -> str:
    """A primitive value in JSON, byte for byte as JsonConverter writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, str):
        return json_string(value)
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return json_number(np.float32(value) if schema.type is SchemaType.FLOAT32 else np.float64(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
