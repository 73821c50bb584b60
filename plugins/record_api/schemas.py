"""Connect schemas out of what Python declares: a dataclass, TypedDict, pydantic model or Arrow schema, stated once."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Hashable, Mapping, Sequence
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

from headrace.plugins.arrow_schemas import CONNECT_DATE, CONNECT_TIME, CONNECT_TIMESTAMP, schema_of_arrow
from headrace.plugins.schema import DECIMAL, Field, Schema, SchemaType, uncarried

_SCALARS: Final[Mapping[Any, Schema]] = {
    bool: Schema(SchemaType.BOOLEAN),
    int: Schema(SchemaType.INT64),
    float: Schema(SchemaType.FLOAT64),
    str: Schema(SchemaType.STRING),
    bytes: Schema(SchemaType.BYTES),
    date: CONNECT_DATE,
    time: CONNECT_TIME,
    datetime: CONNECT_TIMESTAMP,
}


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
        return schema_of_arrow(pa.struct(list(declared)), where)
    if isinstance(declared, pa.DataType):
        return schema_of_arrow(declared, where)
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
    raise TypeError(f"{where} is declared as {declared!r}, for which Connect has no type; {advice}")


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
