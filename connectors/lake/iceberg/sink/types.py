"""Iceberg's types of Connect's schemas.

Debezium's dates and times are real ones. Decided: because their names alone tell a count of microseconds from other
numbers; loses: columns of whole numbers, which Apache's sink makes; tables that have such columns get the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from headrace.connectors.lake.iceberg.schemas import Field, ListOf, MapOf, Struct, Type
from headrace.plugins.schema import DATE, DECIMAL, MOST_DIGITS, TIME, TIMESTAMP, Schema, SchemaType, logical, scale

_NAMED: Final = {
    "uuid": (SchemaType.STRING, "uuid"),
    "io.debezium.data.Uuid": (SchemaType.STRING, "uuid"),
    "io.debezium.time.Date": (SchemaType.INT32, "date"),
    "io.debezium.time.Time": (SchemaType.INT32, "time"),
    "io.debezium.time.MicroTime": (SchemaType.INT64, "time"),
    "io.debezium.time.NanoTime": (SchemaType.INT64, "time"),
    "io.debezium.time.Timestamp": (SchemaType.INT64, "timestamp"),
    "io.debezium.time.MicroTimestamp": (SchemaType.INT64, "timestamp"),
    "io.debezium.time.NanoTimestamp": (SchemaType.INT64, "timestamp"),
    "io.debezium.time.ZonedTimestamp": (SchemaType.STRING, "timestamptz"),
}
_LOGICAL: Final = {DATE: "date", TIME: "time", TIMESTAMP: "timestamptz"}
_PRIMITIVES: Final = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "binary",
}


def struct_of(schema: Schema, forces_optional: bool = False) -> Struct:
    """Return the columns for values of this struct schema, without ids. Structs without fields have no column."""
    found = []
    for field in schema.fields:
        kind = type_of(field.schema, forces_optional)
        if kind is not None:
            found.append(Field(0, field.name, kind, not (forces_optional or field.schema.optional)))
    return Struct(tuple(found))


def type_of(schema: Schema, forces_optional: bool = False) -> Type | None:
    """Return the column's type for values of this schema; None for a struct without fields."""
    of, named = _NAMED.get(schema.name or "", (None, ""))
    if of is schema.type:
        return named
    if (name := logical(schema)) is not None:
        return f"decimal({MOST_DIGITS},{scale(schema)})" if name == DECIMAL else _LOGICAL[name]
    match schema.type:
        case SchemaType.STRUCT:
            made = struct_of(schema, forces_optional)
            return made if made.fields else None
        case SchemaType.ARRAY:
            element = _inner(schema.value_schema, forces_optional)
            return None if element is None else ListOf(0, *element)
        case SchemaType.MAP:
            key, value = _inner(schema.key_schema, forces_optional), _inner(schema.value_schema, forces_optional)
            return None if key is None or value is None else MapOf(0, key[0], 0, *value)
    return _PRIMITIVES[schema.type]


def _inner(schema: Schema | None, forces_optional: bool) -> tuple[Type, bool] | None:
    assert schema is not None, "arrays and maps have schemas of their parts"
    made = type_of(schema, forces_optional)
    return None if made is None else (made, not (forces_optional or schema.optional))


_OF_JSON: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "long"),
    (pa.types.is_floating, "double"),
    (pa.types.is_string, "string"),
)


def struct_of_arrow(kind: pa.StructType) -> Struct:
    """Return the columns for schemaless values whose JSON has these types, all optional."""
    found = ((one.name, _of_json(one.type)) for one in kind)
    return Struct(tuple(Field(0, name, type_) for name, type_ in found if type_ is not None))


def _of_json(kind: pa.DataType) -> Type | None:
    if pa.types.is_struct(kind):
        made = struct_of_arrow(kind)
        return made if made.fields else None
    if pa.types.is_list(kind):
        element = _of_json(kind.value_type)
        return None if element is None else ListOf(0, element)
    return next((name for is_kind, name in _OF_JSON if is_kind(kind)), None)
