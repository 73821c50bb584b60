"""JSON text of Python values, as in `Schema.default`."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import numpy as np

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.java.jackson import json_number, json_string
from headrace.plugins.interop.java.numbers import unscaled_bytes
from headrace.plugins.schema import INTEGER_BITS, Schema, SchemaType, scale


def value_text(schema: Schema | None, value: Any, numeric: bool = False, replace_nulls: bool = True) -> str:
    """Return a value in JSON, byte for byte as JsonConverter writes it; `numeric`: decimals as numbers.

    Errors: DataError for a null that is not allowed.
    """
    if value is None and schema is not None and schema.default is not None and replace_nulls:
        value = schema.default
    if value is None:
        if schema is not None and not schema.optional:
            raise DataError("Conversion error: null value for field that is required and has no default value")
        return "null"
    assert schema is not None
    if isinstance(value, Decimal):
        return str(value) if numeric else _base64(unscaled_bytes(value, scale(schema)))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, str):
        return json_string(value)
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return json_number(np.float32(value) if schema.type is SchemaType.FLOAT32 else np.float64(value))
    if schema.type in INTEGER_BITS:
        return str(value)
    return _container_text(schema, value, numeric, replace_nulls)


def _base64(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode()}"'


def _container_text(schema: Schema, value: Any, numeric: bool, replace_nulls: bool) -> str:
    def text(of: Schema | None, one: Any) -> str:
        return value_text(of, one, numeric, replace_nulls)

    if schema.type is SchemaType.ARRAY:
        return "[" + ",".join(text(schema.value_schema, item) for item in value) + "]"
    if schema.type is SchemaType.STRUCT:
        return "{" + ",".join(f"{json_string(f.name)}:{text(f.schema, value.get(f.name))}" for f in schema.fields) + "}"
    assert schema.key_schema is not None
    if schema.key_schema.type is SchemaType.STRING:
        return "{" + ",".join(f"{json_string(key)}:{text(schema.value_schema, v)}" for key, v in value.items()) + "}"
    pairs = (f"[{text(schema.key_schema, key)},{text(schema.value_schema, v)}]" for key, v in value.items())
    return "[" + ",".join(pairs) + "]"
