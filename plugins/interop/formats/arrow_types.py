"""Arrow arrays of Connect values between the types of Spark and those of files, without a copy if none is needed."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_EXACT: Final = Context(prec=1000)


def conform(array: pa.Array, field: pa.Field) -> pa.Array:
    """The values of an array in a field's type, which differs in times, names and nullability.

    A field that is never null gets an array without nulls: if something around a value is null, Spark has a null for
    the value itself, too, and Parquet's writer would refuse it.

    Errors: pa.ArrowException for values that the type cannot hold.
    """
    changed = _conform(array, field.type)
    return changed if field.nullable else without_nulls(changed)


def _conform(array: pa.Array, to: pa.DataType) -> pa.Array:
    if array.type == to:
        return array
    if pa.types.is_struct(to):
        children = [conform(array.field(number), to.field(number)) for number in range(len(to))]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(to), mask=mask)
    if pa.types.is_map(to):
        entries = pa.field("entries", pa.struct([to.key_field, to.item_field]), nullable=False)
        return with_values(array, to, conform(array.values, entries))
    if pa.types.is_list(to):
        return with_values(array, to, conform(array.values, to.value_field))
    if pa.types.is_time32(to) or pa.types.is_time32(array.type):
        return array.view(to)
    if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(to):
        whole = pc.floor_temporal(array, unit="millisecond") if to.unit == "ms" and array.type.unit != "s" else array
        return pc.cast(whole, to)
    if pa.types.is_decimal(to) and pa.types.is_binary(array.type):
        return _decimals(array, to)
    return pc.cast(array, to)


def _decimals(array: pa.Array, to: pa.Decimal128Type) -> pa.Array:
    """The decimals of unscaled values in big-endian two's complement."""
    numbers = [None if data is None else int.from_bytes(data, "big", signed=True) for data in array.to_pylist()]
    return pa.array([None if one is None else Decimal(one).scaleb(-to.scale, _EXACT) for one in numbers], to)


def with_values(array: pa.Array, to: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists of other values, to which the array's buffers refer whatever its offset."""
    return pa.Array.from_buffers(to, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def without_nulls(array: pa.Array) -> pa.Array:
    """The array with arbitrary values in place of nulls."""
    if not array.null_count:
        return array
    if isinstance(array, pa.StructArray):
        return pa.StructArray.from_arrays([array.field(n) for n in range(len(array.type))], fields=list(array.type))
    buffers: list[Any] = array.buffers()
    if isinstance(array, pa.ListArray):
        bare = [None, buffers[1]]
        return pa.Array.from_buffers(array.type, len(array), bare, 0, array.offset, [array.values])
    return pa.Array.from_buffers(array.type, len(array), [None, *buffers[1:]], 0, array.offset)


def compact(array: pa.Array) -> pa.Array:
    """The array, copied if it is a small part of the memory that it holds."""
    return pa.concat_arrays([array]) if array.get_total_buffer_size() > 2 * array.nbytes + 4096 else array
