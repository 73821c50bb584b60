"""Records of the rows of a batch: Arrow arrays into Python values, column by column."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import time
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.record_api.record import Record
from headrace.plugins.schema import TIME, Schema, SchemaType, logical

_UNREADABLE: Final = (ArithmeticError, TypeError, ValueError, RecursionError)
"""Errors that Python raises for a value that it has no object for, such as a date in the year 10,000."""
_OWN: Final = ("topic", "partition", "offset", "timestamp", "headers")


def each_record(
    rows: pa.RecordBatch, keys: Sequence[Schema | None], values: Sequence[Schema | None]
) -> Sequence[Record | str]:
    """Return the record of each row with the columns of `Records`, of these schemas; or why Python cannot hold it."""
    try:
        return _records(rows, keys, values)
    except _UNREADABLE:
        return [_record(rows.slice(row, 1), keys, values) for row in range(rows.num_rows)]


def _record(row: pa.RecordBatch, keys: Sequence[Schema | None], values: Sequence[Schema | None]) -> Record | str:
    try:
        return _records(row, keys, values)[0]
    except _UNREADABLE as error:
        return f"Python cannot hold the record: {error}"


def _records(rows: pa.RecordBatch, keys: Sequence[Schema | None], values: Sequence[Schema | None]) -> list[Record]:
    nothing = [None] * rows.num_rows
    names = rows.schema.names
    own = (rows.column(name).to_pylist() if name in names else nothing for name in _OWN)
    return [
        Record(value, key, _pairs(headers), timestamp, topic, partition, offset)
        for topic, partition, offset, timestamp, headers, key, value in zip(
            *own, values_of(rows, "key", keys), values_of(rows, "value", values), strict=True
        )
    ]


def values_of(rows: pa.RecordBatch, side: str, schemas: Sequence[Schema | None]) -> list[Any]:
    """Return each row's key or value, as `side` says. Errors: those of Python for what it has no object for."""
    numbers = rows.column(f"{side}_schema")
    found = {number.as_py() for number in numbers.unique() if number.is_valid}
    columns = {n: unpacked(rows.column(f"{side}_{n}"), schemas[n]) for n in found}
    if len(columns) == 1 and not numbers.null_count:
        return columns.popitem()[1]
    return [None if n is None else columns[n][row] for row, n in enumerate(numbers.to_pylist())]


def _pairs(headers: Sequence[Mapping[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    return [(one["key"], one["value"]) for one in headers] if headers else []


def unpacked(array: pa.Array, schema: Schema | None) -> list[Any]:
    """Return the values: structs as dicts, logical types as Python's own; `schema` None: the JSON text of each."""
    if schema is None:
        return [None if text is None else json.loads(text) for text in _plain(array)]
    kind = logical(schema)
    if kind == TIME:
        return [None if ms is None else _time(ms) for ms in _plain(array)]
    if kind is not None:
        return array.to_pylist()  # type: ignore[no-any-return]
    match schema.type:
        case SchemaType.STRUCT:
            return _structs(array, schema)
        case SchemaType.ARRAY:
            return _lists(array, unpacked(_items(array), schema.value_schema))
        case SchemaType.MAP:
            pairs = zip(
                unpacked(array.keys, schema.key_schema), unpacked(array.items, schema.value_schema), strict=True
            )
            return [None if one is None else dict(one) for one in _lists(array, list(pairs))]
    return _plain(array)


def _structs(array: pa.StructArray, schema: Schema) -> list[dict[str, Any] | None]:
    names = [field.name for field in schema.fields]
    columns = [unpacked(array.field(number), field.schema) for number, field in enumerate(schema.fields)]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
    made = [dict(zip(names, row, strict=True)) for row in rows]
    if not array.null_count:
        return made  # type: ignore[return-value]
    return [one if valid else None for one, valid in zip(made, array.is_valid().to_pylist(), strict=True)]


def _items(array: pa.ListArray) -> pa.Array:
    return array.values


def _lists(array: Any, items: Sequence[Any]) -> list[list[Any] | None]:
    """The lists of an array, cut out of all its items."""
    ends = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [list(items[ends[n] : ends[n + 1]]) if valid[n] else None for n in range(len(array))]


def _plain(array: pa.Array) -> list[Any]:
    """Numbers, texts, bytes; three times as quick as `to_pylist` if nothing is null."""
    if array.null_count:
        return array.to_pylist()  # type: ignore[no-any-return]
    return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def _time(ms: int) -> time:
    seconds, rest = divmod(ms, 1000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 1000)
