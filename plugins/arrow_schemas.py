"""Connect schemas of Arrow's types."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType

CONNECT_DATE: Final = Schema(SchemaType.INT32, name=DATE, version=1)
CONNECT_TIME: Final = Schema(SchemaType.INT32, name=TIME, version=1)
CONNECT_TIMESTAMP: Final = Schema(SchemaType.INT64, name=TIMESTAMP, version=1)
_ARROW: Final[Sequence[tuple[Callable[[pa.DataType], bool], Schema]]] = (
    (pa.types.is_boolean, Schema(SchemaType.BOOLEAN)),
    (pa.types.is_int8, Schema(SchemaType.INT8)),
    (pa.types.is_int16, Schema(SchemaType.INT16)),
    (pa.types.is_int32, Schema(SchemaType.INT32)),
    (pa.types.is_int64, Schema(SchemaType.INT64)),
    (pa.types.is_float32, Schema(SchemaType.FLOAT32)),
    (pa.types.is_float64, Schema(SchemaType.FLOAT64)),
    (pa.types.is_string, Schema(SchemaType.STRING)),
    (pa.types.is_large_string, Schema(SchemaType.STRING)),
    (pa.types.is_binary, Schema(SchemaType.BYTES)),
    (pa.types.is_large_binary, Schema(SchemaType.BYTES)),
    (pa.types.is_date, CONNECT_DATE),
    (pa.types.is_time, CONNECT_TIME),
    (pa.types.is_timestamp, CONNECT_TIMESTAMP),
)


def schema_of_arrow(kind: pa.DataType, where: str) -> Schema:
    """Return the Connect schema of values of this type; `where` names them in errors. Errors: TypeError."""
    for is_kind, schema in _ARROW:
        if is_kind(kind):
            return schema
    if pa.types.is_decimal(kind):
        return Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": str(kind.scale)})
    if pa.types.is_struct(kind):
        return Schema(SchemaType.STRUCT, fields=tuple(_arrow_field(one, where) for one in kind))
    if pa.types.is_map(kind):
        return Schema(
            SchemaType.MAP,
            key_schema=schema_of_arrow(kind.key_type, where),
            value_schema=_arrow_field(kind.item_field, where).schema,
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return Schema(SchemaType.ARRAY, value_schema=_arrow_field(kind.value_field, where).schema)
    raise TypeError(f"{where} is of Arrow's type {kind}, which Connect does not have")


def _arrow_field(field: pa.Field, where: str) -> Field:
    schema = schema_of_arrow(field.type, f"{where}.{field.name}")
    return Field(field.name, dataclasses.replace(schema, optional=field.nullable))
