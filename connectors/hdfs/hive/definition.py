"""A topic's table in Hive, and the changes of an existing one with the schema.

| Connect | Hive |
|---|---|
| INT8, INT16, INT32, INT64 | tinyint, smallint, int, bigint |
| FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES | float, double, boolean, string, binary |
| ARRAY, MAP, STRUCT | array, map, struct |
| Decimal, Date, Timestamp, Time | decimal(38, scale), date, timestamp, int |

Decided: logical types are Hive's own, as they are in the files (Confluent's tables have int, bigint and binary),
because readers of today refuse those for such files; loses: Hive before 4.0 reads no timestamp of such a file.

Decided: columns are only added, and change their type; a table of Avro files has the newest schema. Two tasks whose
files are of different schemas then never change a table back and forth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from headrace.plugins.interop.formats.avro import AvroFormat
from headrace.plugins.interop.formats.format import Format
from headrace.plugins.schema import DATE, DECIMAL, MOST_DIGITS, TIME, TIMESTAMP, Schema, SchemaType, logical, scale

AVRO_SCHEMA: Final = "avro.schema.literal"
VERSION: Final = "headrace.schema.version"

_TYPES: Final[Mapping[SchemaType, str]] = {
    SchemaType.INT8: "tinyint",
    SchemaType.INT16: "smallint",
    SchemaType.INT32: "int",
    SchemaType.INT64: "bigint",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "binary",
}
_LOGICAL: Final = {DATE: "date", TIMESTAMP: "timestamp", TIME: "int"}


class Storage(NamedTuple):
    """Hive's classes for reading and writing files."""

    serde: str
    input_format: str
    output_format: str


_IO: Final = "org.apache.hadoop.hive.ql.io"
_PARQUET: Final = Storage(
    f"{_IO}.parquet.serde.ParquetHiveSerDe",
    f"{_IO}.parquet.MapredParquetInputFormat",
    f"{_IO}.parquet.MapredParquetOutputFormat",
)
_AVRO: Final = Storage(
    "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
    f"{_IO}.avro.AvroContainerInputFormat",
    f"{_IO}.avro.AvroContainerOutputFormat",
)


class HiveColumn(NamedTuple):
    """A column of a table."""

    name: str
    type: str


@dataclass(frozen=True)
class Definition:
    """A table without its name and place."""

    storage: Storage
    columns: tuple[HiveColumn, ...]
    """Empty if the storage has its own schema."""
    parameters: Mapping[str, str] = field(default_factory=dict)


def definition(schema: Schema, form: Format, partition_fields: Sequence[str]) -> Definition:
    """Return the table for values of this schema; columns of partitions are not among its own."""
    taken = {name.lower() for name in partition_fields}
    kept = tuple(one for one in schema.fields if one.name.lower() not in taken)
    version = {} if schema.version is None else {VERSION: str(schema.version)}
    if isinstance(form, AvroFormat):
        return Definition(_AVRO, (), {AVRO_SCHEMA: form.schema_text(replace(schema, fields=kept)), **version})
    return Definition(_PARQUET, tuple(HiveColumn(one.name.lower(), hive_type(one.schema)) for one in kept), version)


def why_no_table(schema: Schema | None) -> str | None:
    """Return the reason why values of this schema are no rows; None if they are."""
    if schema is None or schema.type is not SchemaType.STRUCT:
        return "Its values are no structs, and only a struct's fields can be columns; see its converter and transforms"
    return None


def evolved(now: Definition, wanted: Definition) -> Definition | None:
    """Return a table's next definition for a newly written schema; None: it stays."""
    is_newer = _is_newer(now, wanted)
    types = dict(now.columns)
    added = [column for column in wanted.columns if column.name not in types]
    if is_newer:
        types |= {column.name: column.type for column in wanted.columns}
    columns = (*(HiveColumn(*column) for column in types.items() if column[0] not in dict(added)), *added)
    parameters = {**now.parameters, **wanted.parameters} if is_newer else dict(now.parameters)
    changed = Definition(now.storage, columns, parameters)
    return None if changed == Definition(now.storage, now.columns, dict(now.parameters)) else changed


def hive_type(schema: Schema | None) -> str:
    """Return Hive's type for values of this schema."""
    assert schema is not None  # an item without schema has no Parquet type, and so a refusal
    kind = logical(schema)
    if kind is not None:
        return f"decimal({MOST_DIGITS},{scale(schema)})" if kind == DECIMAL else _LOGICAL[kind]
    match schema.type:
        case SchemaType.ARRAY:
            return f"array<{hive_type(schema.value_schema)}>"
        case SchemaType.MAP:
            return f"map<{hive_type(schema.key_schema)},{hive_type(schema.value_schema)}>"
        case SchemaType.STRUCT:
            return f"struct<{','.join(f'{one.name.lower()}:{hive_type(one.schema)}' for one in schema.fields)}>"
    return _TYPES[schema.type]


def _is_newer(now: Definition, wanted: Definition) -> bool:
    """Compares the versions of both; a schema without one is not older."""
    known, given = now.parameters.get(VERSION, ""), wanted.parameters.get(VERSION, "")
    return not (known.isdecimal() and given.isdecimal()) or int(given) >= int(known)
