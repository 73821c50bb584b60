"""Connect's types in Parquet's, and back, in Arrow's form; `parquet` has the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from headrace.plugins.errors import DataError
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    MOST_DIGITS,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
    logical,
    scale,
)

ARROW_TYPES: Final[Mapping[SchemaType, pa.DataType]] = {
    SchemaType.INT8: pa.int8(),
    SchemaType.INT16: pa.int16(),
    SchemaType.INT32: pa.int32(),
    SchemaType.INT64: pa.int64(),
    SchemaType.FLOAT32: pa.float32(),
    SchemaType.FLOAT64: pa.float64(),
    SchemaType.BOOLEAN: pa.bool_(),
    SchemaType.STRING: pa.string(),
    SchemaType.BYTES: pa.binary(),
}
_LOGICAL: Final[Mapping[str, pa.DataType]] = {
    DATE: pa.date32(),
    TIME: pa.int32(),
    TIMESTAMP: pa.timestamp("ms", "UTC"),
}
_OTHERS: Final[Mapping[pa.DataType, SchemaType]] = {
    pa.uint8(): SchemaType.INT16,
    pa.uint16(): SchemaType.INT32,
    pa.uint32(): SchemaType.INT64,
    pa.large_string(): SchemaType.STRING,
    pa.large_binary(): SchemaType.BYTES,
}
_WRITTEN_AS: Final = {**{one: kind for kind, one in ARROW_TYPES.items()}, **_OTHERS}


def parquet_type(schema: Schema | None) -> pa.DataType:
    """The type of a column for values of this schema."""
    assert schema is not None  # an item without schema has no Avro schema, and so a refusal
    kind = logical(schema)
    if kind is not None:
        return pa.decimal128(MOST_DIGITS, scale(schema)) if kind == DECIMAL else _LOGICAL[kind]
    match schema.type:
        case SchemaType.ARRAY:
            return pa.list_(_field("element", schema.value_schema))
        case SchemaType.MAP:
            return pa.map_(_field("key", schema.key_schema).with_nullable(False), _field("value", schema.value_schema))
        case SchemaType.STRUCT:
            return pa.struct(parquet_fields(schema))
    return ARROW_TYPES[schema.type]


def parquet_fields(schema: Schema) -> list[pa.Field]:
    """The columns for the fields of a struct."""
    return [_field(field.name, field.schema) for field in schema.fields]


def _field(name: str, schema: Schema | None) -> pa.Field:
    assert schema is not None
    return pa.field(name, parquet_type(schema), nullable=schema.optional)


def schema_of_columns(columns: pa.Schema) -> Schema:
    """The Connect schema of a file that carries none. Errors: DataError for a type that Connect lacks."""
    return Schema(SchemaType.STRUCT, fields=tuple(_connect_field(column, column.name) for column in columns))


def _connect_field(field: pa.Field, at: str) -> Field:
    return Field(field.name, _connect(field.type, field.nullable, at))


def _connect(kind: pa.DataType, optional: bool, at: str) -> Schema:
    if kind in _WRITTEN_AS:
        return Schema(_WRITTEN_AS[kind], optional)
    if pa.types.is_decimal(kind):
        return Schema(SchemaType.BYTES, optional, name=DECIMAL, version=1, parameters={"scale": str(kind.scale)})
    for test, type_, name in _LOGICAL_TESTS:
        if test(kind):
            return Schema(type_, optional, name=name, version=1)
    if pa.types.is_fixed_size_binary(kind):
        return Schema(SchemaType.BYTES, optional)
    if pa.types.is_struct(kind):
        return Schema(SchemaType.STRUCT, optional, fields=tuple(_connect_field(f, f"{at}.{f.name}") for f in kind))
    if pa.types.is_map(kind):
        key = _connect(kind.key_type, False, f"{at}.key")
        value = _connect(kind.item_type, kind.item_field.nullable, f"{at}.value")
        return Schema(SchemaType.MAP, optional, key_schema=key, value_schema=value)
    if pa.types.is_list(kind):
        item = _connect(kind.value_type, kind.value_field.nullable, f"{at}[]")
        return Schema(SchemaType.ARRAY, optional, value_schema=item)
    raise DataError(f"The column {at} has the type {kind}, which Connect has no schema for")


_LOGICAL_TESTS: Final = (
    (pa.types.is_date, SchemaType.INT32, DATE),
    (pa.types.is_time32, SchemaType.INT32, TIME),
    (pa.types.is_timestamp, SchemaType.INT64, TIMESTAMP),
)
