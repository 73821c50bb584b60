"""Python values into Arrow arrays: each value by its kind, in a column of that kind.

A dict, list, number or boolean is schemaless and travels as its JSON text; a text is a string, bytes are bytes. Values
of a declared schema have its Arrow type, and a value that does not fit is no reason for the batch to fail: it is named.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.plugins.arrow_types import arrow_type_of
from headrace.plugins.errors import DataError
from headrace.plugins.record_api.schemas import schema_of
from headrace.plugins.schema import DATE, TIME, TIMESTAMP, Schema, SchemaType, logical, spark_type

JSON, TEXT, BYTES, DECLARED = range(4)
"""The kinds of values, by the number of their schema."""
STRING_SCHEMA: Final = Schema(SchemaType.STRING)
BYTES_SCHEMA: Final = Schema(SchemaType.BYTES)

Pack = Callable[[Any], Any]
MISFITS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What Arrow raises for a value that is not of its type."""


class Packed(NamedTuple):
    """A value ready for its column."""

    kind: int | None
    """None: null."""
    value: Any
    size: int
    """About how many bytes it has."""


NOTHING: Final = Packed(None, None, 0)


class Side:
    """The keys or the values of a plugin's records."""

    def __init__(self, declared: Any) -> None:
        """Errors: TypeError for what is no schema."""
        self.declared = None if declared is None else schema_of(declared)
        self.schemas: tuple[Schema | None, ...] = (None, STRING_SCHEMA, BYTES_SCHEMA)
        if self.declared is not None:
            self.schemas += (self.declared,)
        self.types = [arrow_type(schema) for schema in self.schemas]
        self._pack = None if self.declared is None else _packer(self.declared)

    def pack(self, value: Any) -> Packed:
        """Make a value ready. Errors: DataError for one that cannot be carried."""
        if value is None:
            return NOTHING
        if self.declared is not None:
            packed = value if self._pack is None else self._pack(value)
            return Packed(DECLARED, packed, _size(packed))
        if isinstance(value, str):
            return Packed(TEXT, value, len(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return Packed(BYTES, bytes(value), len(value))
        text = json_text(value)
        return Packed(JSON, text, len(text))

    def columns(self, packed: Sequence[Packed]) -> list[pa.Array]:
        """Return the number of each value's schema, and a column for each schema. Errors: those of Arrow."""
        kinds = [one.kind for one in packed]
        used = set(kinds)
        columns = [
            pa.array([one.value if one.kind == kind else None for one in packed], of)
            if kind in used
            else pa.nulls(len(packed), of)
            for kind, of in enumerate(self.types)
        ]
        return [pa.array(kinds, pa.int32()), *columns]

    def misfit(self, packed: Packed) -> str | None:
        """Return why Arrow does not take this value; None if it does."""
        if packed.kind is None:
            return None
        try:
            pa.array([packed.value], self.types[packed.kind])
        except MISFITS as error:
            return f"the value does not fit its schema: {error}"
        return None


def arrow_type(schema: Schema | None) -> pa.DataType:
    """Return the Arrow type that carries values of this schema."""
    return arrow_type_of(spark_type(schema))


def json_text(value: Any) -> str:
    """Return the JSON of a value. Errors: DataError for what JSON has no form of."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the value cannot be written as JSON: {error}. State its schema (value_schema), or make it JSON first."
        ) from error


def _plain(value: Any) -> Any:
    """Return what stands for an object that JSON does not know."""
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no type of JSON's")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def _size(packed: Any) -> int:
    if isinstance(packed, str | bytes):
        return len(packed)
    if isinstance(packed, tuple | list):
        return sum(map(_size, packed))
    return 8


def _packer(schema: Schema) -> Pack | None:
    """Return what makes Arrow's form of a value of this schema; None: the value is it.

    Arrow itself refuses most of what does not fit, but cuts off what is behind an integer's point and a date's day.
    """
    if (kind := logical(schema)) is not None:
        return _LOGICAL.get(kind)
    match schema.type:
        case SchemaType.STRUCT:
            return _struct_packer(schema)
        case SchemaType.ARRAY:
            return _list_packer(schema)
        case SchemaType.MAP:
            return _map_packer(schema)
    return _CHECKED.get(schema.type)


def _struct_packer(schema: Schema) -> Pack:
    names = tuple(field.name for field in schema.fields)
    known = frozenset(names)
    packers = [(index, of) for index, field in enumerate(schema.fields) if (of := _packer(field.schema))]
    required = [(index, field.name) for index, field in enumerate(schema.fields) if not field.schema.optional]

    def pack(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, Mapping):
            if not value.keys() <= known:
                raise DataError(
                    f"the value has fields that its schema lacks: {', '.join(sorted(value.keys() - known))}"
                )
            row = list(map(value.get, names))
        else:
            try:
                row = [getattr(value, name) for name in names]
            except AttributeError as error:
                raise DataError(f"the value is no dict or {schema.name or 'object'}: {error}") from error
        for index, name in required:
            if row[index] is None:
                raise DataError(f"the value has nothing for its field {name}, which is not optional")
        for index, of in packers:
            row[index] = of(row[index])
        return tuple(row)

    return pack


def _list_packer(schema: Schema) -> Pack | None:
    assert schema.value_schema is not None
    item = _packer(schema.value_schema)
    if item is None:
        return None
    return lambda values: None if values is None else [item(value) for value in values]


def _map_packer(schema: Schema) -> Pack:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    key, item = _packer(schema.key_schema) or _as_it_is, _packer(schema.value_schema) or _as_it_is
    return lambda value: None if value is None else [(key(k), item(v)) for k, v in value.items()]


def _as_it_is(value: Any) -> Any:
    return value


def _only(wanted: str, *types: type) -> Pack:
    def check(value: Any) -> Any:
        if value is None or (isinstance(value, types) and not (isinstance(value, datetime) and datetime not in types)):
            return value
        raise DataError(f"{value!r:.60} is no {wanted}")

    return check


_integer: Final = _only("integer", int)
_CHECKED: Final[Mapping[SchemaType, Pack]] = {
    SchemaType.INT8: _integer,
    SchemaType.INT16: _integer,
    SchemaType.INT32: _integer,
    SchemaType.INT64: _integer,
    SchemaType.STRING: _only("text", str),
    SchemaType.BYTES: _only("bytes", bytes, bytearray),
}
_moment: Final = _only("datetime", datetime)
_time: Final = _only("time", time)


def _milliseconds(value: Any) -> int | None:
    """Return Connect's form of a time of the day."""
    moment: time | None = _time(value)
    if moment is None:
        return None
    return ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1000 + moment.microsecond // 1000


_LOGICAL: Final[Mapping[str, Pack]] = {TIME: _milliseconds, DATE: _only("date", date), TIMESTAMP: _moment}
