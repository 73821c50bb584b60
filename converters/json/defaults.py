"""Defaults in schemas: Connect values in Python (`Schema.default`) from JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

from headrace.converters.long_decimals import DECIMAL_TOO_LONG
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.java.numbers import low_bits, of_scale, of_unscaled, single
from headrace.plugins.schema import (
    DECIMAL,
    INTEGER_BITS,
    MOST_DIGITS,
    TIME,
    TIMESTAMP,
    TIMESTAMP_END,
    Schema,
    SchemaType,
    logical,
    scale,
    sendable,
)

CONTAINERS: Final = (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)
_DAY_MS: Final = 86_400_000
TIMESTAMP_TOO_FAR: Final = "Invalid Timestamp: beyond the years that Spark's microseconds hold"


def read_value(schema: Schema | None, node: Any) -> Any:
    """The value of a JSON document under this schema, read as leniently as by Connect: a text for an int is 0.

    Numbers with a fraction are Decimals. Errors: DataError with Connect's text.
    """
    if schema is None:
        return node
    if node is None:
        if schema.default is None and not schema.optional:
            raise DataError(f"Invalid null value for required {schema.type.name} field")
        return schema.default
    kind = logical(schema)
    if kind is not None:
        return _read_decimal(schema, node) if kind == DECIMAL else _read_moment(schema, kind, node)
    if schema.type in INTEGER_BITS:
        return low_bits(_number(node), INTEGER_BITS[schema.type])
    match schema.type:
        case SchemaType.FLOAT32:
            return single(_floating(node))
        case SchemaType.FLOAT64:
            return _floating(node)
        case SchemaType.BOOLEAN:
            return node is True
        case SchemaType.STRING:
            return sendable(node) if isinstance(node, str) else None
        case SchemaType.BYTES:
            return _bytes(node, "Invalid bytes field")
    return _read_container(schema, node)


def _read_container(schema: Schema, node: Any) -> Any:
    if schema.type is SchemaType.STRUCT:
        if not isinstance(node, dict):
            raise DataError(f"Structs should be encoded as JSON objects, but found {_node_type(node)}")
        return {field.name: read_value(field.schema, node.get(field.name)) for field in schema.fields}
    if schema.type is SchemaType.ARRAY:
        items = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return [read_value(schema.value_schema, item) for item in items]
    assert schema.key_schema is not None
    if schema.key_schema.type is SchemaType.STRING:
        if not isinstance(node, dict):
            raise DataError(f"Maps with string fields should be encoded as JSON objects, but found {_node_type(node)}")
        return {sendable(key): read_value(schema.value_schema, item) for key, item in node.items()}
    if not isinstance(node, list):
        expected = "Maps with non-string fields should be encoded as JSON array of tuples"
        raise DataError(f"{expected}, but found {_node_type(node)}")
    return _read_pairs(schema, node)


def _read_pairs(schema: Schema, pairs: Iterable[Any]) -> dict[Any, Any]:
    read = {}
    for pair in pairs:
        if not isinstance(pair, list):
            raise DataError(f"Found invalid map entry instead of array tuple: {_node_type(pair)}")
        if len(pair) != 2:
            raise DataError(f"Found invalid map entry, expected length 2 but found :{len(pair)}")
        key = read_value(schema.key_schema, pair[0])
        if key is None or isinstance(key, list | dict):
            raise DataError("A default's map has a key that is null, an array or a struct, which Headrace cannot hold")
        read[key] = read_value(schema.value_schema, pair[1])
    return read


def _read_decimal(schema: Schema, node: Any) -> Decimal:
    digits = scale(schema)
    if isinstance(node, int | Decimal) and not isinstance(node, bool):
        number = of_scale(Decimal(node), digits)
    elif isinstance(node, str):
        number = of_unscaled(_bytes(node, "Invalid bytes for Decimal field") or b"", digits)
    else:
        expected = "Invalid type for Decimal, underlying representation should be numeric or bytes"
        raise DataError(f"{expected} but was {_node_type(node)}")
    if number is None:
        raise DataError(DECIMAL_TOO_LONG.format(MOST_DIGITS, digits))
    return number


def _read_moment(schema: Schema, kind: str, node: Any) -> int:
    name, bits = kind.rpartition(".")[2], INTEGER_BITS[schema.type]
    integral = isinstance(node, int) and not isinstance(node, bool)
    if not integral or (bits == 32 and not -(2**31) <= node < 2**31):
        expected = "integer" if bits == 32 else "integral"
        raise DataError(
            f"Invalid type for {name}, underlying representation should be {expected} but was {_node_type(node)}"
        )
    if kind == TIME and not 0 <= node <= _DAY_MS:
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    value = low_bits(node, bits)
    if kind == TIMESTAMP and abs(value) > TIMESTAMP_END:
        raise DataError(TIMESTAMP_TOO_FAR)
    return value


def _node_type(node: Any) -> str:
    """Jackson's name for the kind of value."""
    for types, name in (((dict,), "OBJECT"), ((list,), "ARRAY"), ((str,), "STRING"), ((bool,), "BOOLEAN")):
        if isinstance(node, types):
            return name
    return "NULL" if node is None else "NUMBER"


def _number(node: Any) -> int | Decimal:
    return node if isinstance(node, int | Decimal) and not isinstance(node, bool) else 0


def _floating(node: Any) -> float:
    try:
        return float(_number(node)) + 0.0  # Jackson's numbers have no negative zero
    except OverflowError:
        return float("inf") if node > 0 else float("-inf")


def _bytes(node: Any, fault: str) -> bytes | None:
    if not isinstance(node, str):
        return None
    try:
        return base64.b64decode(node, validate=True)
    except ValueError:
        raise DataError(fault) from None


def refuse_invalid(schema: Schema, value: Any) -> None:
    """Refuses a default that Connect refuses. Errors: DataError with Connect's text."""
    if not _is_valid(schema, value):
        raise DataError("Invalid default value")


def _is_valid(schema: Schema | None, value: Any) -> bool:
    """True if nulls are only where the schema allows them."""
    if schema is None or value is None:
        return schema is None or schema.optional
    if schema.type is SchemaType.ARRAY:
        return all(_is_valid(schema.value_schema, item) for item in value)
    if schema.type is SchemaType.MAP:
        return all(_is_valid(schema.key_schema, k) and _is_valid(schema.value_schema, v) for k, v in value.items())
    return all(_is_valid(field.schema, value[field.name]) for field in schema.fields)
