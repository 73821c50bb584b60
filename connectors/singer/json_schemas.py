"""Connect schemas as JSON Schemas for a target, and values as JSON.

| Connect | JSON Schema |
|---|---|
| integers, floats, BOOLEAN, STRING | `integer`, `number`, `boolean`, `string` |
| BYTES | `string` of `contentEncoding` base64 |
| Decimal | `string` of the format `singer.decimal`: its digits, since a target may read a number as a double |
| Date, Time, Timestamp | `string` of the format `date`, `time`, `date-time` |
| ARRAY, STRUCT | `array`, `object` |
| MAP with STRING keys | `object` of `additionalProperties`; other keys are refused |
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from headrace.plugins.errors import DataError
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, logical

_PLAIN: Final[Mapping[SchemaType, Mapping[str, Any]]] = {
    SchemaType.INT8: {"type": "integer"},
    SchemaType.INT16: {"type": "integer"},
    SchemaType.INT32: {"type": "integer"},
    SchemaType.INT64: {"type": "integer"},
    SchemaType.FLOAT32: {"type": "number"},
    SchemaType.FLOAT64: {"type": "number"},
    SchemaType.BOOLEAN: {"type": "boolean"},
    SchemaType.STRING: {"type": "string"},
    SchemaType.BYTES: {"type": "string", "contentEncoding": "base64"},
}
_LOGICAL: Final[Mapping[str, Mapping[str, Any]]] = {
    DECIMAL: {"type": "string", "format": "singer.decimal"},
    DATE: {"type": "string", "format": "date"},
    TIME: {"type": "string", "format": "time"},
    TIMESTAMP: {"type": "string", "format": "date-time"},
}


def json_schema(schema: Schema) -> dict[str, Any]:
    """Return the JSON Schema of values of this schema. Errors: DataError for maps with keys that are no texts."""
    made = _of(schema)
    if schema.optional:
        made["type"] = ["null", made["type"]]
    return made


def _of(schema: Schema) -> dict[str, Any]:
    if (kind := logical(schema)) is not None:
        return dict(_LOGICAL[kind])
    match schema.type:
        case SchemaType.STRUCT:
            return object_schema({field.name: field.schema for field in schema.fields})
        case SchemaType.ARRAY:
            assert schema.value_schema is not None
            return {"type": "array", "items": json_schema(schema.value_schema)}
        case SchemaType.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            if schema.key_schema.type is not SchemaType.STRING:
                raise DataError("its schema has a map whose keys are no strings, which JSON does not have")
            return {"type": "object", "additionalProperties": json_schema(schema.value_schema)}
    return dict(_PLAIN[schema.type])


def object_schema(fields: Mapping[str, Schema]) -> dict[str, Any]:
    """Return the JSON Schema of an object with these properties."""
    properties = {name: json_schema(schema) for name, schema in fields.items()}
    required = [name for name, schema in fields.items() if not schema.optional]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def json_line(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line. Errors: DataError for a value that JSON does not have."""
    try:
        return _ENCODER.encode(message).encode() + b"\n"
    except ValueError as error:
        raise DataError(f"its value cannot be written as JSON: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is none of Connect's types")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
