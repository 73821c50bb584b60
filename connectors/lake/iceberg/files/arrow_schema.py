"""A table's columns as Arrow, with Iceberg's ids for Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.schemas import Field, ListOf, MapOf, Struct, Type

_ID: Final = b"PARQUET:field_id"
_DEFAULT: Final = b"default"
_PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.uuid(),
}
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED: Final = re.compile(r"fixed\[\s*(\d+)\s*\]")


def arrow_schema(struct: Struct) -> pa.Schema:
    """Return the columns of a table. Errors: LakeError for a type that is not written."""
    return pa.schema(_fields(struct, ""))


def _fields(struct: Struct, above: str) -> list[pa.Field]:
    # Parquet has no column for `unknown`, whose values are all null
    return [_field(one, f"{above}{one.name}") for one in struct.fields if one.type != "unknown"]


def _field(field: Field, at: str) -> pa.Field:
    made = _numbered(field.name, arrow_type(field.type, at), field.required, field.id)
    if field.write_default is None:
        return made
    if not isinstance(field.type, str):
        raise LakeError(f"The column {at} has a default, but is nested, which this connector does not write")
    return made.with_metadata({**made.metadata, _DEFAULT: json.dumps(field.write_default).encode()})


def default_text(field: pa.Field) -> str | None:
    """Return the JSON of a column's default; None: it has none."""
    found = (field.metadata or {}).get(_DEFAULT)
    return None if found is None else found.decode()


def _numbered(name: str, kind: pa.DataType, required: bool, number: int) -> pa.Field:
    return pa.field(name, kind, nullable=not required, metadata={_ID: str(number).encode()})


def arrow_type(kind: Type, at: str = "") -> pa.DataType:
    """Return the Arrow type of values of this type; `at` names their column in errors. Errors: LakeError."""
    match kind:
        case Struct():
            return pa.struct(_fields(kind, f"{at}."))
        case ListOf():
            inner = arrow_type(kind.element, f"{at}.element")
            return pa.list_(_numbered("element", inner, kind.element_required, kind.element_id))
        case MapOf():
            key = _numbered("key", arrow_type(kind.key, f"{at}.key"), True, kind.key_id)
            value = arrow_type(kind.value, f"{at}.value")
            return pa.map_(key, _numbered("value", value, kind.value_required, kind.value_id))
    if (found := _PRIMITIVES.get(kind)) is not None:
        return found
    if (decimal := _DECIMAL.fullmatch(kind)) is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if (fixed := _FIXED.fullmatch(kind)) is not None:
        return pa.binary(int(fixed[1]))
    raise LakeError(f"The column {at} has the type {kind}, which this connector does not write; drop the column")


def paths(struct: Struct, above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    """Yield all fields, each with those around it, but for those in lists and maps."""
    for field in struct.fields:
        yield (*above, field)
        if isinstance(field.type, Struct):
            yield from paths(field.type, (*above, field))


def selected(struct: Struct, ids: Collection[int]) -> Struct:
    """Return the struct with only the fields of these ids, and those around them."""
    kept = []
    for field in struct.fields:
        if field.id in ids:
            kept.append(field)
        elif isinstance(field.type, Struct) and (inner := selected(field.type, ids)).fields:
            kept.append(Field(field.id, field.name, inner, field.required))
    return Struct(tuple(kept))


def column_at(rows: pa.RecordBatch | pa.Table, path: tuple[Field, ...]) -> pa.Array | pa.ChunkedArray:
    """Return a column, or a field of a struct; null if anything around it is null."""
    return field_in(rows.column(path[0].name), tuple(one.name for one in path[1:]))


def field_in(array: pa.Array | pa.ChunkedArray, names: tuple[str, ...]) -> pa.Array | pa.ChunkedArray:
    """Return a field of a struct; null if anything around it is null."""
    return pc.struct_field(array, list(names)) if names else array
