"""Iceberg's types as Connect's, and columns of Parquet files, found by their ids, as Spark takes them.

| Iceberg | Connect |
|---|---|
| boolean, int, long, float, double, string | BOOLEAN, INT32, INT64, FLOAT32, FLOAT64, STRING |
| decimal | Decimal |
| date, time | Date, Time |
| timestamp, timestamptz, timestamp_ns, timestamptz_ns | Timestamp |
| uuid | STRING with the name `uuid`, its text |
| binary, fixed | BYTES |
| list, map, struct | ARRAY, MAP, STRUCT, with the table's name and the path as name |

Time and Timestamp are whole milliseconds, as in Connect: what is finer is cut off.

Decided: columns are found by their ids alone, because a table's names may have changed. Files without ids are brought
to the table's columns by Iceberg's own reader if the table maps names to ids (`scans.py`); loses: those of a table that
does not, which are refused. Spark takes their columns by their places.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.schemas import Field, ListOf, MapOf, Struct, Type
from headrace.plugins.errors import DataError
from headrace.plugins.interop.formats.arrow_types import with_values
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, uncarried
from headrace.plugins.schema import Field as ConnectField

_ID: Final = b"PARQUET:field_id"
_UUID: Final = "uuid"
_DECIMAL: Final = re.compile(r"decimal\(\d+,(\d+)\)")
_TIMESTAMP: Final = Schema(SchemaType.INT64, name=TIMESTAMP, version=1)
_TYPES: Final[Mapping[str, Schema]] = {
    "boolean": Schema(SchemaType.BOOLEAN),
    "int": Schema(SchemaType.INT32),
    "long": Schema(SchemaType.INT64),
    "float": Schema(SchemaType.FLOAT32),
    "double": Schema(SchemaType.FLOAT64),
    "string": Schema(SchemaType.STRING),
    "binary": Schema(SchemaType.BYTES),
    "date": Schema(SchemaType.INT32, name=DATE, version=1),
    "time": Schema(SchemaType.INT32, name=TIME, version=1),
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _TIMESTAMP),
    _UUID: Schema(SchemaType.STRING, name=_UUID),
}


def connect_schema(table: str, of: Struct) -> Schema:
    """Return the schema of a table's rows. Errors: LakeError for columns that Connect does not have."""
    schema = _schema(of, False, table)
    if (why := uncarried(schema)) is not None:
        raise LakeError(f"Table {table} cannot be read: {why}")
    return schema


def _schema(of: Type, optional: bool, at: str) -> Schema:
    match of:
        case Struct(fields):
            inner = tuple(
                ConnectField(one.name, _schema(one.type, not one.required, f"{at}.{one.name}")) for one in fields
            )
            return Schema(SchemaType.STRUCT, optional, name=at, fields=inner)
        case ListOf():
            value = _schema(of.element, not of.element_required, f"{at}.element")
            return Schema(SchemaType.ARRAY, optional, value_schema=value)
        case MapOf():
            key = _schema(of.key, False, f"{at}.key")
            value = _schema(of.value, not of.value_required, f"{at}.value")
            return Schema(SchemaType.MAP, optional, key_schema=key, value_schema=value)
    if (match := _DECIMAL.fullmatch(of)) is not None:
        return Schema(SchemaType.BYTES, optional, name=DECIMAL, version=1, parameters={"scale": match[1]})
    found = _TYPES["binary"] if of.startswith("fixed[") else _TYPES.get(of)
    if found is None:
        raise LakeError(f"Column {at} is of the type {of}, which Connect does not have: read a table without it.")
    return Schema(found.type, optional, name=found.name, version=found.version)


def key_paths(table: str, schema: Struct, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the paths of key columns. Errors: LakeError if the table has no such column."""
    paths = []
    for name in names:
        if (path := _path(schema, name)) is None:
            raise LakeError(f"Table {table} has no column {name} for the key. Correct key.columns.")
        paths.append(path)
    return tuple(paths)


def _path(schema: Struct, name: str) -> tuple[str, ...] | None:
    """Return the names on the way to a column; a name may have dots itself."""
    for field in schema.fields:
        if field.name == name:
            return (name,)
        if isinstance(field.type, Struct) and name.startswith(f"{field.name}."):
            rest = _path(field.type, name.removeprefix(f"{field.name}."))
            if rest is not None:
                return (field.name, *rest)
    return None


def rows_of(batch: pa.RecordBatch, schema: Struct, to: pa.StructType, defaults: Collection[int]) -> pa.StructArray:
    """Return the rows of a file in the table's schema, as `to`.

    `defaults`: ids of columns whose value in older files is not null.

    Errors: DataError if the file has no ids, or lacks such a column.
    """
    children = _children(_by_id(batch.schema, batch.columns), schema, to, defaults, batch.num_rows)
    return pa.StructArray.from_arrays(children, fields=list(to))


def has_ids(fields: Iterable[pa.Field]) -> bool:
    """Return true if any column of a file has an id, as Iceberg's readers ask."""
    return any(
        _ID in (field.metadata or {}) or has_ids(map(field.type.field, range(field.type.num_fields)))
        for field in fields
    )


def _by_id(fields: Iterable[pa.Field], columns: Iterable[pa.Array]) -> dict[int, pa.Array]:
    """Return columns by their ids. Errors: DataError for a column without one."""
    found = dict[int, pa.Array]()
    for field, column in zip(fields, columns, strict=True):
        text = (field.metadata or {}).get(_ID)
        if text is None:
            raise DataError(f"its column {field.name} has no field id, and schema.name-mapping.default names none")
        found[int(text)] = column
    return found


def _children(
    found: Mapping[int, pa.Array], schema: Struct, to: pa.StructType, defaults: Collection[int], count: int
) -> list[pa.Array]:
    return [
        _conform(found[field.id], field.type, of.type, defaults)
        if field.id in found
        else _missing(field, of.type, defaults, count)
        for field, of in zip(schema.fields, to, strict=True)
    ]


def _missing(field: Field, to: pa.DataType, defaults: Collection[int], count: int) -> pa.Array:
    if field.id in defaults:
        raise DataError(
            f"it was written before column {field.name} was added, whose default for older rows is not read"
        )
    return pa.nulls(count, to)


def _conform(array: pa.Array, of: Type, to: pa.DataType, defaults: Collection[int]) -> pa.Array:
    match of:
        case Struct():
            columns = [array.field(at) for at in range(array.type.num_fields)]
            children = _children(_by_id(array.type, columns), of, to, defaults, len(array))
            return pa.StructArray.from_arrays(children, fields=list(to), mask=array.is_null())
        case ListOf():
            lists = _lists(array)
            return with_values(lists, to, _conform(lists.values, of.element, to.value_type, defaults))
        case MapOf():
            entries = array.values
            key = _conform(entries.field(0), of.key, to.key_type, defaults)
            value = _conform(entries.field(1), of.value, to.item_type, defaults)
            return with_values(
                array, to, pa.StructArray.from_arrays([key, value], fields=[to.key_field, to.item_field])
            )
    return _primitive(array, of, to)


def _lists(array: pa.Array) -> pa.ListArray:
    """Return the lists with offsets of 32 bits; PyIceberg's Parquet files have pyarrow make others."""
    return array if pa.types.is_list(array.type) else pc.cast(array, pa.list_(array.type.value_field))


def _primitive(array: pa.Array, of: str, to: pa.DataType) -> pa.Array:
    if of == _UUID:
        return _uuid_texts(array)
    if of == "time":
        return pc.cast(pc.divide(pc.cast(pc.cast(array, pa.time64("us")), pa.int64()), 1000), to)
    if of.endswith("_ns"):
        array = pc.floor_temporal(array, unit="microsecond")
    return pc.cast(array, to)


def _uuid_texts(array: pa.Array) -> pa.Array:
    """Return the texts of UUIDs, without an object for each."""
    array = pa.concat_arrays([array])
    count = len(array)
    if not count:
        return pa.array([], pa.string())
    given = np.frombuffer(array.buffers()[1], np.uint8)[: 16 * count].reshape(count, 16)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    written = np.full((count, 36), ord("-"), np.uint8)
    places = [at + (at >= 8) + (at >= 12) + (at >= 16) + (at >= 20) for at in range(32)]
    written[:, places[0::2]], written[:, places[1::2]] = digits[given >> 4], digits[given & 15]
    offsets = np.arange(count + 1, dtype=np.int32) * 36
    buffers = [array.buffers()[0], pa.py_buffer(offsets.tobytes()), pa.py_buffer(written.tobytes())]
    return pa.Array.from_buffers(pa.string(), count, buffers, array.null_count)
