"""Values brought to the types of a table's columns, by Arrow: a value that its column cannot hold is bad.

No value becomes another one: numbers that are too large, fractions that are cut, and texts for numbers are bad. A
timestamp without zone is taken for UTC where the column has one, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.delta.types import meaning_of, optional
from headrace.plugins.schema import Schema, SchemaType

Mask = npt.NDArray[np.bool_]

_A_DAY: Final = {pa.time32("ms"): 86_400_000, pa.time64("us"): 86_400_000_000, pa.time64("ns"): 86_400_000_000_000}


class Fitted(NamedTuple):
    """Values of a column's type; those of bad rows are null."""

    values: pa.Array
    bad: Mask


def fit(array: pa.Array, schema: Schema, type_: pa.DataType) -> Fitted:
    """Bring values of this Connect schema to the type."""
    if (meaning := meaning_of(schema)) is not None:
        made = Fitted(array, _none(array))
        for step in meaning.casts:
            made = _after(made, lambda values, to=step: _cast(values, to))  # type: ignore[misc]
        return _after(made, lambda values: _cast_kin(values, type_))
    if schema.type is SchemaType.STRUCT and pa.types.is_struct(type_):
        return _fit_struct(array, schema, type_)
    if schema.type is SchemaType.ARRAY and pa.types.is_list(type_):
        return _fit_list(array, schema, type_)
    if schema.type is SchemaType.MAP and pa.types.is_map(type_):
        return _fit_map(array, schema, type_)
    return _cast_kin(array, type_)


def fit_fields(array: pa.StructArray, schema: Schema, fields: list[pa.Field]) -> Iterator[tuple[pa.Field, Fitted]]:
    """Yield each of these fields with its values; those that the schema lacks are null."""
    known = {one.name.lower(): one for one in schema.fields}
    for field in fields:
        member = known.get(field.name.lower())
        if member is None:
            yield field, Fitted(_nulls(array, field.type), _none(array))
            continue
        yield field, fit(pc.struct_field(array, [member.name]), member.schema, field.type)


def _fit_struct(array: pa.StructArray, schema: Schema, type_: pa.StructType) -> Fitted:
    bad, made = _none(array), []
    is_there = _flags(array.is_valid())
    for field, fitted in fit_fields(array, schema, list(type_)):
        bad |= fitted.bad
        if not field.nullable:
            bad |= is_there & _flags(fitted.values.is_null())
        made.append(fitted.values)
    fields = [pa.field(one.name, values.type) for one, values in zip(type_, made, strict=True)]
    return Fitted(pa.StructArray.from_arrays(made, fields=fields, mask=array.is_null()), bad)


def _fit_list(array: pa.ListArray, schema: Schema, type_: pa.ListType) -> Fitted:
    assert schema.value_schema is not None
    begin, end = _bounds(array)
    inner = fit(array.values[begin:end], schema.value_schema, type_.value_type)
    bad = inner.bad if type_.value_field.nullable else inner.bad | _flags(inner.values.is_null())
    offsets = pa.array(array.offsets.to_numpy() - begin, pa.int32())
    made = pa.ListArray.from_arrays(offsets, inner.values, type=optional(type_), mask=_mask(array))
    return Fitted(made, _holding(offsets, bad))


def _fit_map(array: pa.MapArray, schema: Schema, type_: pa.MapType) -> Fitted:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    begin, end = _bounds(array)
    keys = fit(array.keys[begin:end], schema.key_schema, type_.key_type)
    items = fit(array.items[begin:end], schema.value_schema, type_.item_type)
    bad = keys.bad | items.bad
    if not type_.item_field.nullable:
        bad |= _flags(items.values.is_null())
    if keys.bad.any():  # Arrow takes no null key: these rows become null
        rows = _holding(array.offsets, keys.bad, begin)
        rest = _fit_map(array.take(pa.array(np.arange(len(array)), mask=rows)), schema, type_)
        return Fitted(rest.values, rest.bad | rows)
    offsets = pa.array(array.offsets.to_numpy() - begin, pa.int32())
    made = pa.MapArray.from_arrays(offsets, keys.values, items.values, type=optional(type_), mask=_mask(array))
    return Fitted(made, _holding(offsets, bad))


def _cast_kin(array: pa.Array, type_: pa.DataType) -> Fitted:
    return _cast(array, type_) if _is_kin(array.type, type_) else _all_bad(array, type_)


def _cast(array: pa.Array, type_: pa.DataType) -> Fitted:
    """Cast the values; finds the bad ones by halves."""
    if pa.types.is_time(type_) and pa.types.is_integer(array.type):
        return _times(array, type_)
    try:
        made = array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(array) == 1:
            return _all_bad(array, type_)
        half = len(array) // 2
        parts = [_cast(array[:half], type_), _cast(array[half:], type_)]
        return Fitted(pa.concat_arrays([one.values for one in parts]), np.concatenate([one.bad for one in parts]))
    return Fitted(made, _none(array))


def _times(array: pa.Array, type_: pa.DataType) -> Fitted:
    """Counts as times of a day; Arrow's cast looks at no bounds."""
    is_there, is_time = _flags(array.is_valid()), pc.and_(pc.greater_equal(array, 0), pc.less(array, _A_DAY[type_]))
    kept = _flags(is_time.fill_null(False))
    return Fitted(pc.if_else(pa.array(kept), array, None).cast(type_), is_there & ~kept)


def _is_kin(there: pa.DataType, column: pa.DataType) -> bool:
    """True if a cast between these types, if Arrow makes it, keeps the value."""
    if there == column:
        return True
    types = pa.types
    if types.is_integer(there):
        return any(one(column) for one in (types.is_integer, types.is_floating, types.is_decimal))
    if types.is_floating(there):
        return bool(types.is_floating(column) and column.bit_width >= there.bit_width)
    kinds: tuple[Callable[[pa.DataType], bool], ...] = (types.is_decimal, types.is_timestamp)
    return any(kind(there) and kind(column) for kind in kinds)


def _after(made: Fitted, step: Callable[[pa.Array], Fitted]) -> Fitted:
    done = step(made.values)
    return Fitted(done.values, made.bad | done.bad)


def _all_bad(array: pa.Array, type_: pa.DataType) -> Fitted:
    return Fitted(_nulls(array, type_), _flags(array.is_valid()))


def _none(array: pa.Array) -> Mask:
    return np.zeros(len(array), bool)


def _flags(array: pa.BooleanArray) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), bool)


def _nulls(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return pa.nulls(len(array), optional(type_))


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


def _bounds(array: pa.ListArray | pa.MapArray) -> tuple[int, int]:
    return array.offsets[0].as_py(), array.offsets[-1].as_py()


def _holding(offsets: pa.Array, bad: Mask, begin: int = 0) -> Mask:
    """True for the lists that hold a bad value."""
    counts = np.concatenate([[0], np.cumsum(bad)])
    places = offsets.to_numpy() - begin
    return np.asarray(counts[places[1:]] > counts[places[:-1]])
