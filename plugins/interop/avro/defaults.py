"""Defaults in Avro schemas: converts Connect values to Avro's JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.tree import AvroOptions, Tree, is_union
from headrace.plugins.interop.java.numbers import low_bits, of_unscaled, single, unscaled_bytes
from headrace.plugins.schema import (
    DECIMAL,
    INTEGER_BITS,
    MOST_DIGITS,
    TIMESTAMP,
    TIMESTAMP_END,
    Field,
    Schema,
    SchemaType,
    logical,
    scale,
    sendable,
)


def default_json(schema: Schema | None, value: Any, options: AvroOptions) -> Any:
    """Return a value of `Schema.default` as Avro's JSON."""
    if value is None or schema is None:
        return value
    match schema.type:
        case SchemaType.FLOAT32:
            return np.float32(value)
        case SchemaType.BYTES:
            data = unscaled_bytes(value, scale(schema)) if schema.name == DECIMAL else bytes(value)
            return data.decode("latin-1")
        case SchemaType.ARRAY:
            return [default_json(schema.value_schema, item, options) for item in value]
        case SchemaType.MAP:
            pairs = [
                [default_json(schema.key_schema, k, options), default_json(schema.value_schema, v, options)]
                for k, v in value.items()
            ]
            return dict(pairs) if options.is_avro_map(schema) else pairs
        case SchemaType.STRUCT:
            members = {field.name: _member(field, value, options) for field in schema.fields}
            if is_union(schema):
                return next(iter(members.values()), None)
            return {options.name(name): member for name, member in members.items()}
    return value


def _member(field: Field, value: Mapping[str, Any], options: AvroOptions) -> Any:
    found = value.get(field.name)
    return default_json(field.schema, field.schema.default if found is None else found, options)


def is_valid_default(tree: Tree, value: Any) -> bool:
    """True if Avro accepts this JSON as a value of the schema."""
    if isinstance(tree, list):
        return any(is_valid_default(branch, value) for branch in tree)
    kind = tree if isinstance(tree, str) else tree["type"]
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if kind == "int" else 63
            return number and isinstance(value, int) and -(1 << bits) <= value < 1 << bits
        case "float" | "double":
            return number and bool(np.isfinite(value))
        case "string" | "bytes" | "enum" | "fixed":
            return isinstance(value, str)
    if isinstance(tree, str):
        return False
    match kind:
        case "array":
            return isinstance(value, list) and all(is_valid_default(tree["items"], item) for item in value)
        case "map":
            return isinstance(value, dict) and all(is_valid_default(tree["values"], item) for item in value.values())
        case "record":
            return isinstance(value, dict) and all(
                is_valid_default(field["type"], value.get(field["name"], field.get("default")))
                for field in tree["fields"]
            )
    return False


def read_default(schema: Schema, value: Any) -> Any:
    """Return Avro's JSON as a value of `Schema.default`; None if it is not a value of the schema."""
    try:
        return _read(schema, value)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        return None  # Confluent's converter warns and continues


def _read(schema: Schema | None, value: Any) -> Any:
    if value is None or schema is None:
        return value
    match schema.type:
        case SchemaType.STRING:
            return sendable(_of(str, value))
        case SchemaType.BOOLEAN:
            return _of(bool, value)
        case SchemaType.FLOAT32:
            return single(value)
        case SchemaType.FLOAT64:
            return float(value)
        case SchemaType.BYTES:
            data = _of(str, value).encode("latin-1")
            return _decimal(data, scale(schema)) if schema.name == DECIMAL else data
        case SchemaType.ARRAY:
            return [_read(schema.value_schema, item) for item in _of(list, value)]
        case SchemaType.MAP:
            pairs = value.items() if isinstance(value, dict) else _of(list, value)
            return {_read(schema.key_schema, k): _read(schema.value_schema, v) for k, v in pairs}
        case SchemaType.STRUCT if is_union(schema):
            return {schema.fields[0].name: _read(schema.fields[0].schema, value)}
        case SchemaType.STRUCT:
            return {f.name: _read(f.schema, value.get(f.name, f.schema.default)) for f in schema.fields}
    number = low_bits(_of(int, value), INTEGER_BITS[schema.type])
    if logical(schema) == TIMESTAMP and abs(number) > TIMESTAMP_END:
        raise DataError(f"Spark cannot hold the default {number} of a timestamp")
    return number


def _decimal(data: bytes, digits: int) -> Decimal:
    number = of_unscaled(data, digits)
    if number is None:
        raise DataError(
            f"Spark cannot hold a default of more than {MOST_DIGITS} digits, {digits} after the decimal point"
        )
    return number


def _of(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
