"""Columns of Delta tables for Connect's schemas, as Arrow types.

| Connect | column |
|---|---|
| int8, int16, int32, int64 | byte, short, integer, long |
| float32, float64, boolean, string, bytes | float, double, boolean, string, binary |
| Decimal | decimal(38, scale) |
| Date, Timestamp | date, timestamp |
| Time | string, such as `12:30:00.000`: Delta has no time |
| array, map, struct | array, map, struct; a struct without fields has no column |
| Debezium's Date; Timestamp, MicroTimestamp, NanoTimestamp; ZonedTimestamp; Time, MicroTime, NanoTime | date; timestamp_ntz; timestamp; string |

Decided: all columns of new tables may be null, because a field that becomes optional later then changes no table;
loses: NOT NULL, which a table made beforehand may have.
"""  # noqa: E501 - a row of a table

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from headrace.plugins.interop.formats.parquet_types import ARROW_TYPES
from headrace.plugins.schema import DATE, DECIMAL, MOST_DIGITS, TIME, TIMESTAMP, Schema, SchemaType, logical, scale

_WRONG: Final = re.compile(r"[ ,;{}()\n\t=]")
UTC: Final = pa.timestamp("us", "UTC")
NO_ZONE: Final = pa.timestamp("us")


class Meaning(NamedTuple):
    """The column of a logical type, and the casts that lead to its values."""

    of: SchemaType
    column: pa.DataType
    casts: tuple[pa.DataType, ...]


_INT32, _INT64 = SchemaType.INT32, SchemaType.INT64
_DEBEZIUM: Final = "io.debezium.time."
MEANINGS: Final[Mapping[str, Meaning]] = {
    TIME: Meaning(_INT32, pa.string(), (pa.time32("ms"), pa.string())),
    f"{_DEBEZIUM}Date": Meaning(_INT32, pa.date32(), (pa.date32(),)),
    f"{_DEBEZIUM}Timestamp": Meaning(_INT64, NO_ZONE, (pa.timestamp("ms"), NO_ZONE)),
    f"{_DEBEZIUM}MicroTimestamp": Meaning(_INT64, NO_ZONE, (NO_ZONE,)),
    f"{_DEBEZIUM}NanoTimestamp": Meaning(_INT64, NO_ZONE, (pa.timestamp("ns"), NO_ZONE)),
    f"{_DEBEZIUM}ZonedTimestamp": Meaning(SchemaType.STRING, UTC, (UTC,)),
    f"{_DEBEZIUM}Time": Meaning(_INT32, pa.string(), (pa.time32("ms"), pa.string())),
    f"{_DEBEZIUM}MicroTime": Meaning(_INT64, pa.string(), (pa.time64("us"), pa.string())),
    f"{_DEBEZIUM}NanoTime": Meaning(_INT64, pa.string(), (pa.time64("ns"), pa.string())),
}


def meaning_of(schema: Schema) -> Meaning | None:
    """Return the meaning of a schema whose values are not the column's as they come."""
    found = MEANINGS.get(schema.name or "")
    return found if found is not None and found.of is schema.type else None


def columns_of(schema: Schema) -> pa.Schema:
    """Return the columns for values of this struct schema."""
    return pa.schema(_fields(schema))


def type_of(schema: Schema) -> pa.DataType | None:
    """Return the column's type for values of this schema; None if it has none."""
    if (meaning := meaning_of(schema)) is not None:
        return meaning.column
    match logical(schema):
        case str(name) if name == DECIMAL:
            return pa.decimal128(MOST_DIGITS, scale(schema))
        case str(name):
            return {DATE: pa.date32(), TIMESTAMP: UTC}[name]
    match schema.type:
        case SchemaType.STRUCT:
            fields = _fields(schema)
            return pa.struct(fields) if fields else None
        case SchemaType.ARRAY:
            element = _inner(schema.value_schema)
            return None if element is None else pa.list_(pa.field("element", element))
        case SchemaType.MAP:
            key, value = _inner(schema.key_schema), _inner(schema.value_schema)
            return None if key is None or value is None else pa.map_(key, value)
    return ARROW_TYPES[schema.type]


def merged(there: pa.DataType, new: pa.DataType) -> pa.DataType:
    """Return the type of a column that also has the new one's fields; its own stay as they are."""
    if pa.types.is_struct(there) and pa.types.is_struct(new):
        return pa.struct(list(merged_fields(list(there), list(new))))
    if pa.types.is_list(there) and pa.types.is_list(new):
        element = there.value_field
        return pa.list_(element.with_type(merged(there.value_type, new.value_type)))
    if pa.types.is_map(there) and pa.types.is_map(new):
        return pa.map_(there.key_type, there.item_field.with_type(merged(there.item_type, new.item_type)))
    return there


def merged_fields(there: list[pa.Field], new: list[pa.Field]) -> list[pa.Field]:
    """Return the fields with the new ones that they lack; names are compared as Delta does, without case."""
    by_name, known = {field.name.lower(): field for field in new}, {field.name.lower() for field in there}
    pairs = [(field, by_name.get(field.name.lower(), field)) for field in there]
    kept = [field.with_type(merged(field.type, other.type)) for field, other in pairs]
    return [*kept, *(field for field in new if field.name.lower() not in known)]


def wrong_names(fields: list[pa.Field]) -> Iterator[str]:
    """Yield names that Delta's tables do not take: some characters, and names that differ by case only."""
    yield from (one.name for one in _nested(fields) if _WRONG.search(one.name))
    yield from names_twice(fields)


def names_twice(fields: list[pa.Field]) -> Iterator[str]:
    """Yield names that differ from an earlier one by case only."""
    met = set[str]()
    for field in fields:
        if field.name.lower() in met:
            yield field.name
        met.add(field.name.lower())
        yield from names_twice(_members(field.type))


def optional(type_: pa.DataType) -> pa.DataType:
    """Return the type without required fields, as of rows that may be bad."""
    if pa.types.is_struct(type_):
        return pa.struct([one.with_type(optional(one.type)).with_nullable(True) for one in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(optional(type_.value_type)).with_nullable(True))
    if pa.types.is_map(type_):
        return pa.map_(
            optional(type_.key_type), type_.item_field.with_type(optional(type_.item_type)).with_nullable(True)
        )
    return type_


def _fields(schema: Schema) -> list[pa.Field]:
    made = [(field.name, type_of(field.schema)) for field in schema.fields]
    return [pa.field(name, type_) for name, type_ in made if type_ is not None]


def _inner(schema: Schema | None) -> pa.DataType | None:
    assert schema is not None, "arrays and maps have schemas of their parts"
    return type_of(schema)


def _nested(fields: list[pa.Field]) -> Iterator[pa.Field]:
    for field in fields:
        yield field
        yield from _nested(_members(field.type))


def _members(type_: pa.DataType) -> list[pa.Field]:
    return [type_.field(at) for at in range(type_.num_fields)]
