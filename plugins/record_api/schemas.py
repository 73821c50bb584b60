"""Connect schemas out of what Python declares: a dataclass, TypedDict, pydantic model or Arrow schema, stated once."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import (
    Annotated,
    Any,
    Final,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import pyarrow as pa

from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType, uncarried

_SCALARS: Final[Mapping[Any, Schema]] = {
    bool: Schema(SchemaType.BOOLEAN),
    int: Schema(SchemaType.INT64),
    float: Schema(SchemaType.FLOAT64),
    str: Schema(SchemaType.STRING),
    bytes: Schema(SchemaType.BYTES),
    date: Schema(SchemaType.INT32, name=DATE, version=1),
    time: Schema(SchemaType.INT32, name=TIME, version=1),
    datetime: Schema(SchemaType.INT64, name=TIMESTAMP, version=1),
}
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
    (pa.types.is_date, _SCALARS[date]),
    (pa.types.is_time, _SCALARS[time]),
    (pa.types.is_timestamp, _SCALARS[datetime]),
)


def schema_of(declared: Any) -> Schema:
    """Return the Connect schema that a type declares; a Schema is itself.

    | Python | Connect |
    |---|---|
    | bool, int, float, str, bytes | BOOLEAN, INT64, FLOAT64, STRING, BYTES |
    | `Annotated[int, SchemaType.INT32]` | INT32; likewise INT8, INT16, FLOAT32 |
    | date, time, datetime | Date, Time, Timestamp |
    | `Annotated[Decimal, 2]` | Decimal of scale 2 |
    | `X \\| None`, `list[X]`, `dict[K, V]` | optional, ARRAY, MAP |
    | dataclass, TypedDict, pydantic model | STRUCT of the class's name |

    Errors: TypeError, which names the member, for any other.
    """
    where = getattr(declared, "__name__", "the schema")
    try:
        schema = _of(declared, where)
    except RecursionError:
        raise TypeError(f"{where} contains itself; Connect has no type that does") from None
    if (why := uncarried(schema)) is not None:
        raise TypeError(f"{where} cannot be carried: {why}")
    return schema


def _of(declared: Any, where: str) -> Schema:
    if isinstance(declared, Schema):
        return declared
    if isinstance(declared, pa.Schema):
        return Schema(SchemaType.STRUCT, fields=tuple(_arrow_field(one, where) for one in declared))
    if isinstance(declared, pa.DataType):
        return _of_arrow(declared, where)
    if isinstance(declared, Hashable) and declared in _SCALARS:
        return _SCALARS[declared]
    origin, arguments = get_origin(declared), get_args(declared)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:], where)
    if origin in (Union, types.UnionType):
        return _optional(arguments, where)
    if origin is NotRequired:
        return dataclasses.replace(_of(arguments[0], where), optional=True)
    if origin is Required:
        return _of(arguments[0], where)
    if origin in (list, Sequence):
        return Schema(SchemaType.ARRAY, value_schema=_of(arguments[0], f"{where}[]"))
    if origin in (dict, Mapping):
        key, value = (_of(one, f"{where}[]") for one in arguments)
        return Schema(SchemaType.MAP, key_schema=key, value_schema=value)
    if isinstance(declared, type):
        if issubclass(declared, StrEnum):
            return _SCALARS[str]
        if dataclasses.is_dataclass(declared) or is_typeddict(declared) or hasattr(declared, "model_fields"):
            return _struct(declared)
    advice = "annotate its scale: Annotated[Decimal, 2]" if declared is Decimal else "see headrace.plugins.schema_of"
    raise TypeError(f"{where} is declared as {declared!r}, of which Connect has no type; {advice}")


def _struct(declared: type) -> Schema:
    hints = get_type_hints(declared, include_extras=True)
    if dataclasses.is_dataclass(declared):
        names = [one.name for one in dataclasses.fields(declared)]
    else:
        names = list(getattr(declared, "model_fields", hints))
    fields = tuple(Field(name, _of(hints[name], f"{declared.__name__}.{name}")) for name in names)
    return Schema(SchemaType.STRUCT, name=declared.__name__, fields=fields)


def _annotated(kind: Any, marks: tuple[Any, ...], where: str) -> Schema:
    for mark in marks:
        if kind is Decimal and isinstance(mark, int):
            return Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": str(mark)})
        if isinstance(mark, Schema):
            return mark
        if isinstance(mark, SchemaType):
            return Schema(mark)
    return _of(kind, where)


def _optional(kinds: tuple[Any, ...], where: str) -> Schema:
    others = [one for one in kinds if one is not type(None)]
    if len(others) != 1:
        raise TypeError(f"{where} is of several types; Connect has one for each field, and null")
    return dataclasses.replace(_of(others[0], where), optional=True)


def _of_arrow(kind: pa.DataType, where: str) -> Schema:
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
            key_schema=_of_arrow(kind.key_type, where),
            value_schema=_arrow_field(kind.item_field, where).schema,
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return Schema(SchemaType.ARRAY, value_schema=_arrow_field(kind.value_field, where).schema)
    raise TypeError(f"{where} is of Arrow's type {kind}, of which Connect has none")


def _arrow_field(field: pa.Field, where: str) -> Field:
    schema = _of_arrow(field.type, f"{where}.{field.name}")
    return Field(field.name, dataclasses.replace(schema, optional=field.nullable))
