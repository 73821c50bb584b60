"""Arrow columns of packed values, a column at a time.

Arrow refuses most of what does not fit a type, but not all: it cuts off what is behind an integer's point and a date's
time, takes a datetime without a zone for one of UTC, a text for a list of letters, and makes infinity of a large float.
So the values' types are looked at, all of a column at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from numbers import Integral, Real
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.record_api.packing import Misfit, Packed, check_text, packed, packed_by_kind, packer
from headrace.plugins.record_api.schemas import schema_of
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, logical

_ARROWS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Errors that Arrow raises for a value that is not of its type."""


KINDS: Final = (None, Schema(SchemaType.STRING), Schema(SchemaType.BYTES))
"""The schemas of values without a declared one, by their kind."""


class Side:
    """The keys or the values of records: a column for each of these schemas."""

    def __init__(self, schemas: Sequence[Schema | None]) -> None:
        self.schemas = tuple(schemas)
        self.types = [arrow_type_of_schema(one) for one in schemas]
        self._packers = [packer(one) for one in schemas]

    @classmethod
    def of(cls, declared: Any) -> tuple[Side, Callable[[Any], Packed]]:
        """Return the side of a plugin that declares this schema, or None, and what makes values ready.

        Errors: TypeError for what is no schema.
        """
        if declared is None:
            return cls(KINDS), packed_by_kind
        side = cls((schema_of(declared),))
        return side, partial(side.pack, schema=0)

    def pack(self, value: Any, schema: int) -> Packed:
        """Make a value of the schema of this number ready. Errors: Misfit."""
        return packed(value, self._packers[schema], schema)

    def columns(self, values: Sequence[Packed]) -> tuple[list[pa.Array], Mapping[int, str]]:
        """Return the number of each value's schema and a column for each schema; and why values at fault are missing.

        The values at fault are null, by their index.
        """
        faults: dict[int, str] = {}
        numbers = [one.schema for one in values]
        used = set(numbers)
        columns = []
        for number, of in enumerate(self.types):
            if number not in used:
                columns.append(pa.nulls(len(values), of))
                continue
            own = [one.value if one.schema == number else None for one in values]
            columns.append(self._column(number, own, faults))
        for row in faults:
            numbers[row] = None
        return [pa.array(numbers, pa.int32()), *columns], faults

    def _column(self, number: int, values: list[Any], faults: dict[int, str]) -> pa.Array:
        schema, of = self.schemas[number], self.types[number]
        try:
            return column(values, schema, of)
        except Misfit:
            pass
        for row, value in enumerate(values):
            try:
                column([value], schema, of)
            except Misfit as misfit:
                faults[row] = str(misfit)
                values[row] = None
        return column(values, schema, of)


def column(values: Sequence[Any], schema: Schema | None, of: pa.DataType) -> pa.Array:
    """Return a column of packed values, null for None. Errors: Misfit, if one does not fit."""
    if schema is not None and logical(schema) is None:
        if schema.type is SchemaType.STRUCT:
            return _structs(values, schema, of)
        if schema.type is SchemaType.ARRAY:
            return _lists(values, schema, of)
        if schema.type is SchemaType.MAP:
            return _maps(values, schema, of)
    name = SchemaType.STRING if schema is None else logical(schema) or schema.type
    return _plain(values, name, of)


def _plain(values: Sequence[Any], name: str, of: pa.DataType) -> pa.Array:
    exact, fits, wanted = _TYPES[name]
    if not exact.issuperset(map(type, values)):
        for value in values:
            if value is not None and not fits(value):
                raise Misfit(f"{value!r:.60} is no {wanted}")
    if (check := _CHECKS.get(name)) is not None:
        for value in values:
            if value is not None:
                check(value)
    if name == TIME:
        values = [None if value is None else _milliseconds(value) for value in values]
    try:
        return pa.array(values, of)
    except UnicodeEncodeError:
        for value in filter(None, values):
            check_text(value)
        raise
    except _ARROWS as error:
        raise Misfit(str(error)) from error


def _structs(values: Sequence[Any], schema: Schema, of: pa.StructType) -> pa.Array:
    is_null = [value is None for value in values]
    if not schema.fields:
        return pa.array([None if null else {} for null in is_null], of)
    if any(is_null):
        nothing = (None,) * len(schema.fields)
        values = [nothing if value is None else value for value in values]
    members = zip(*values, strict=True) if values else ((),) * len(schema.fields)
    columns = []
    for field, member, kind in zip(schema.fields, members, of, strict=True):
        try:
            columns.append(column(member, field.schema, kind.type))
        except Misfit as misfit:
            raise misfit.within(field.name) from None
    return pa.StructArray.from_arrays(columns, fields=list(of), mask=pa.array(is_null, pa.bool_()))


def _lists(values: Sequence[Any], schema: Schema, of: pa.ListType) -> pa.Array:
    assert schema.value_schema is not None
    items = [item for value in values if value is not None for item in value]
    _require(items, schema.value_schema)
    return pa.ListArray.from_arrays(_ends(values), column(items, schema.value_schema, of.value_type), type=of)


def _maps(values: Sequence[Any], schema: Schema, of: pa.MapType) -> pa.Array:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    pairs = [pair for value in values if value is not None for pair in value]
    keys, items = [key for key, _ in pairs], [item for _, item in pairs]
    if None in keys:
        raise Misfit("None is a key of the map, which Spark cannot hold")
    _require(items, schema.value_schema)
    made = column(keys, schema.key_schema, of.key_type), column(items, schema.value_schema, of.item_type)
    return pa.MapArray.from_arrays(_ends(values), *made, type=of)


def _require(items: Sequence[Any], schema: Schema) -> None:
    if not schema.optional and None in items:
        raise Misfit("it contains None, and its members are not optional")


def _ends(values: Sequence[Any]) -> pa.Array:
    """Return where each list begins, null for one that is null, and the end of the last one."""
    ends: list[int | None] = []
    end = 0
    for value in values:
        ends.append(None if value is None else end)
        end += 0 if value is None else len(value)
    return pa.array([*ends, end], pa.int32())


# -- types -------------------------------------------------------------------------------------------------------------


def _integral(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _day(value: Any) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


def _of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


_Fits = tuple[frozenset[Any], Callable[[Any], bool], str]
_INTEGER: Final[_Fits] = (frozenset((int, type(None))), _integral, "integer")
_FLOAT: Final[_Fits] = (frozenset((float, int, type(None))), _number, "number")
_TYPES: Final[Mapping[str, _Fits]] = {
    SchemaType.INT8: _INTEGER,
    SchemaType.INT16: _INTEGER,
    SchemaType.INT32: _INTEGER,
    SchemaType.INT64: _INTEGER,
    SchemaType.FLOAT32: _FLOAT,
    SchemaType.FLOAT64: _FLOAT,
    SchemaType.BOOLEAN: (frozenset((bool, type(None))), lambda value: type(value).__name__ == "bool", "boolean"),
    SchemaType.STRING: (frozenset((str, type(None))), _of(str), "text"),
    SchemaType.BYTES: (frozenset((bytes, type(None))), _of(bytes), "bytes"),
    DECIMAL: (frozenset((Decimal, int, type(None))), _of(Decimal), "Decimal"),
    DATE: (frozenset((date, type(None))), _day, "date"),
    TIME: (frozenset((time, type(None))), _of(time), "time of a day"),
    TIMESTAMP: (frozenset((datetime, type(None))), _of(datetime), "datetime"),
}
"""By type: Python's types that fit, what decides for all others, and what it is called."""


def _check_zone(value: Any) -> None:
    if value.tzinfo is None:
        raise Misfit(f"{value} has no time zone; make it datetime.now(UTC), or give it one by replace(tzinfo=…)")


def _check_no_zone(value: Any) -> None:
    if value.tzinfo is not None:
        raise Misfit(f"{value} has a time zone, which Connect's Time has not")


_LARGEST: Final = 3.4028234663852886e38


def _check_single(value: Any) -> None:
    if math.isfinite(value) and abs(value) > _LARGEST:
        raise Misfit(f"{value!r:.60} is too large for a float of 32 bits")


_CHECKS: Final[Mapping[str, Callable[[Any], None]]] = {
    TIMESTAMP: _check_zone,
    TIME: _check_no_zone,
    SchemaType.FLOAT32: _check_single,
}


def _milliseconds(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
