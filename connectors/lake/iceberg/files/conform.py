"""Values of records in the columns of a table, as whole arrays.

Columns are found by name; those that a value lacks have the table's default, or are null. A value that a column cannot
hold makes its row fail: it is found by halving, and never becomes another value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.iceberg.files.arrow_schema import default_text
from headrace.connectors.lake.iceberg.files.conversions import Conversion, conversion, is_text
from headrace.plugins.interop.formats.arrow_types import with_values, without_nulls
from headrace.plugins.schema import Schema

_SHOWN: Final = 60


@dataclass
class Conformed:
    """Rows as a table has them, without those that it cannot hold."""

    rows: pa.RecordBatch
    kept: np.ndarray | None
    """The indexes of these rows among all; None: all."""
    refused: Mapping[int, str]
    """The reasons of the others, by their indexes."""


def conform(values: pa.Array, columns: pa.Schema, schema: Schema | None = None, ignore_case: bool = False) -> Conformed:
    """Return structs, none of them null, as rows of these columns."""
    refused: dict[int, str] = {}
    at = _At("", np.arange(len(values)), refused, ignore_case)
    made = [_member(values, schema, column, at) for column in columns]
    if not refused:
        return Conformed(pa.RecordBatch.from_arrays(_strict(made, columns), schema=columns), None, refused)
    kept = np.setdiff1d(np.arange(len(values)), np.fromiter(refused, np.int64))
    some = [array.take(pa.array(kept)) for array in made]
    return Conformed(pa.RecordBatch.from_arrays(_strict(some, columns), schema=columns), kept, refused)


def _strict(arrays: list[pa.Array], columns: pa.Schema) -> list[pa.Array]:
    """Let required fields inside null structs have no nulls, which Parquet's writer would refuse."""
    return [_without_inner_nulls(array, column.type) for array, column in zip(arrays, columns, strict=True)]


def _without_inner_nulls(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if not _has_required(kind):
        return array
    if pa.types.is_struct(kind):
        fields = list(kind)
        children = [_without_inner_nulls(array.field(number), one.type) for number, one in enumerate(fields)]
        children = [
            child if one.nullable else without_nulls(child) for child, one in zip(children, fields, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)
    if pa.types.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        return with_values(array, kind, _without_inner_nulls(array.values, entries))
    return with_values(array, kind, _without_inner_nulls(array.values, kind.value_type))


def _has_required(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(not one.nullable or _has_required(one.type) for one in kind)
    if pa.types.is_map(kind):
        return bool(_has_required(kind.key_type) or _has_required(kind.item_type))
    return bool(pa.types.is_list(kind) and _has_required(kind.value_type))


@dataclass(frozen=True)
class _At:
    """A place within values."""

    path: str
    rows: np.ndarray
    """For each value its row's index among all."""
    refused: dict[int, str] = field(repr=False)
    ignore_case: bool

    def inside(self, name: str) -> _At:
        return replace(self, path=f"{self.path}.{name}" if self.path else name)

    def refuse(self, values: np.ndarray, why: str) -> None:
        """Refuse the rows of the values with these indexes."""
        for row in self.rows[values].tolist():
            self.refused.setdefault(row, f"The column {self.path} {why}")


def _member(structs: pa.StructArray, schema: Schema | None, to: pa.Field, at: _At) -> pa.Array:
    """The values of one field of structs, null where a struct is null."""
    at, number = at.inside(to.name), _index(structs.type, to.name, at.ignore_case)
    if number is None:
        made, found = _absent(to, len(structs)), None
    else:
        found = None if schema is None else schema.field(structs.type.field(number).name)
        inner = structs.field(number) if not structs.null_count else pc.struct_field(structs, [number])
        made = _values(inner, None if found is None else found.schema, to.type, at)
    if not to.nullable and made.null_count:
        missing = pc.and_(made.is_null(), structs.is_valid())
        at.refuse(_places(missing), "is required, but the record has no value for it")
    return made


def _absent(to: pa.Field, count: int) -> pa.Array:
    """The default of a column in each row; nulls without one."""
    text = default_text(to)
    if text is None:
        return pa.nulls(count, to.type)
    value = json.loads(text)
    if pa.types.is_binary(to.type) or pa.types.is_fixed_size_binary(to.type):
        value = bytes.fromhex(value)
    one = pa.array([value], to.type if pa.types.is_floating(to.type) else None)
    convert = conversion(one.type, to.type)
    assert convert is not None, "as Iceberg's JSON of its type"
    return convert(one).take(pa.array(np.zeros(count, np.int64)))


def _index(structs: pa.StructType, name: str, ignore_case: bool) -> int | None:
    found = structs.get_field_index(name)
    if found >= 0 or not ignore_case:
        return found if found >= 0 else None
    return next((n for n, one in enumerate(structs) if one.name.lower() == name.lower()), None)


def _values(array: pa.Array, schema: Schema | None, to: pa.DataType, at: _At) -> pa.Array:
    if array.type.equals(to):
        return array
    if pa.types.is_struct(to) and pa.types.is_struct(array.type):
        children = [_member(array, schema, one, at) for one in to]
        return pa.StructArray.from_arrays(children, fields=list(to), mask=array.is_null() if array.null_count else None)
    if pa.types.is_map(to) and pa.types.is_map(array.type):
        return _map(_Lists.of(_listed(array)), schema, to, at)
    if pa.types.is_list(to) and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        lists = _Lists.of(array)
        return lists.of_values(to, _items(lists.values, schema and schema.value_schema, to.value_field, lists.at(at)))
    convert = None if pa.types.is_nested(to) else conversion(array.type, to, None if schema is None else schema.name)
    if convert is None:
        at.refuse(_places(array.is_valid()), _no_way(array.type, to))
        return pa.nulls(len(array), to)
    return _converted(array, to, convert, at)


def _map(maps: _Lists, schema: Schema | None, to: pa.MapType, at: _At) -> pa.Array:
    inside = maps.at(at)
    keys = _items(maps.values.field(0), schema and schema.key_schema, to.key_field, inside)
    values = _items(maps.values.field(1), schema and schema.value_schema, to.item_field, inside)
    return maps.of_values(to, pa.StructArray.from_arrays([keys, values], fields=[to.key_field, to.item_field]))


def _items(array: pa.Array, schema: Schema | None, to: pa.Field, at: _At) -> pa.Array:
    """The elements of lists, or the keys or values of maps."""
    at = at.inside(to.name)
    made = _values(array, schema, to.type, at)
    if to.nullable or not made.null_count:
        return made
    at.refuse(_places(made.is_null()), "is required, but null")
    return without_nulls(made)


@dataclass(frozen=True)
class _Lists:
    """Lists taken apart."""

    values: pa.Array
    """All elements, one list after the other."""
    lengths: np.ndarray
    valid: pa.Array

    @classmethod
    def of(cls, array: pa.Array) -> _Lists:
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
        return cls(array.flatten(), lengths, pc.is_valid(array))

    def at(self, at: _At) -> _At:
        """The place of the elements."""
        return replace(at, rows=np.repeat(at.rows, self.lengths))

    def of_values(self, to: pa.DataType, values: pa.Array) -> pa.Array:
        """Lists, or maps, of these elements."""
        offsets = np.zeros(len(self.lengths) + 1, np.int32)
        np.cumsum(self.lengths, out=offsets[1:])
        buffers = [self.valid.buffers()[1], pa.py_buffer(offsets)]
        return pa.Array.from_buffers(to, len(self.lengths), buffers, -1, 0, [values])


def _listed(maps: pa.MapArray) -> pa.Array:
    """Maps as lists of their entries."""
    kind = pa.list_(maps.values.type)
    return pa.Array.from_buffers(kind, len(maps), maps.buffers()[:2], maps.null_count, maps.offset, [maps.values])


def _converted(array: pa.Array, to: pa.DataType, convert: Conversion, at: _At) -> pa.Array:
    try:
        return convert(array)
    except pa.ArrowInvalid as error:
        if len(array) == 1:
            at.refuse(np.array([0]), f"({to}) cannot hold {_shown(array[0])}: {_first_line(error)}")
            return pa.nulls(1, to)
    half = len(array) // 2
    parts = []
    for begin, end in ((0, half), (half, len(array))):
        part = replace(at, rows=at.rows[begin:end])
        parts.append(_converted(array.slice(begin, end - begin), to, convert, part))
    return pa.concat_arrays(parts)


def _places(mask: pa.Array) -> np.ndarray:
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False))


def _shown(value: Any) -> str:
    try:
        text = repr(value.as_py())
    except (OverflowError, ValueError):  # Python's dates end at the year 9999, and have no nanoseconds
        text = str(value.cast(pa.string()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _no_way(of: pa.DataType, to: pa.DataType) -> str:
    if pa.types.is_nested(of) and is_text(to):
        return "is a string, but the record has a nested value; make it text by a transform, or let it be a struct"
    if pa.types.is_map(to):
        return "is a map, but the record has another type; only a map with a schema fills it"
    return f"({to}) holds no values of the record's type {of}; change the table, or the record by a transform"
