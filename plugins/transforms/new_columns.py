"""New columns from transforms of whole records: value, key, topic, partition, timestamp and headers at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed_fields
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.plugins.records import HEADERS, Case, Records
from headrace.plugins.schema import Field, Schema, SchemaType, spark_type
from headrace.plugins.transforms.derived_schema import derived_schema

OWN: Final = ("_topic", "_partition", "_timestamp", "_headers", "_key", "_value")
"""Columns that belong to the record itself, not to its new value; `_value` is the whole value."""


class MadeColumn(NamedTuple):
    """A result column."""

    name: str
    column: Column
    kind: spark.DataType
    schema: Schema | None
    """None: schemaless, from a VARIANT; only for keys and whole values."""


@dataclass(frozen=True)
class NewColumns:
    """New columns for the rows of one schema."""

    holds: Column
    """The rows that get them."""
    of: int | None
    """Schema index of their values; None: no schema, or values unchanged."""
    parts: Mapping[str, tuple[Column, Schema | None]]
    """By name in `OWN` without its underscore: a column of the frame, and its schema."""
    whole: bool = True
    """True if it is for all non-null rows of that schema."""
    overrides: bool = True
    """True if a null replaces the record's key, partition, …"""


def with_new_columns(
    records: Records, changes: Sequence[NewColumns], message: Column | None = None, drop: Column | None = None
) -> Records:
    """Return the records with these new columns; a null topic leaves a record's topic unchanged."""
    values, keys = [], []
    columns: dict[str, Column] = {}
    for name in ("topic", "partition", "timestamp", "headers"):
        having = [new for new in changes if name in new.parts]
        column = F.col(name)
        for new in having:
            made = new.parts[name][0]
            holds = new.holds if new.overrides and name != "topic" else new.holds & made.isNotNull()
            column = F.when(holds, made).otherwise(column)
        if having:
            columns[name] = column
    for new in changes:
        if "value" in new.parts:
            values.append(Case(*new.parts["value"], new.of, None if new.whole else new.holds))
        if "key" in new.parts:
            column, schema = new.parts["key"]
            keys.append(Case(column, schema, None, new.holds if new.overrides else new.holds & column.isNotNull()))
    return records.changed(columns, keys=keys, values=values, message=message, drop=drop)


def without_null_values(records: Records) -> Records:
    """Return the records with schemaless nulls turned into nulls without schema, as tombstones."""
    schemaless = [number for number, schema in enumerate(records.values) if schema is None]
    if not schemaless:
        return records
    index = F.col("value_schema")
    for number in schemaless:
        index = F.when((F.col("value_schema") == number) & records.value(number).isNull(), None).otherwise(index)
    return records.with_frame(records.frame.withColumn("value_schema", index))


def parts_of(parts: Sequence[MadeColumn], given: Schema | None, records: Records) -> dict[str, MadeColumn]:
    """Return these columns as columns of a record: `value`, `key`, `topic`, … by name, in their Spark types.

    Columns that are not the record's own become the members of a struct, which has the name of the struct that they
    were made from. The last of equal names counts, in the first one's place. A null value stays null under its new
    schema, which is therefore optional if the given one is.

    Errors: ValueError for a column of an unsuitable type.
    """
    made = {part.name.lower()[1:]: _own(part, records) for part in parts if part.name.lower() in OWN}
    members = list({part.name: part for part in parts if part.name.lower() not in OWN}.values())
    if members and "value" in made:
        raise ValueError(f"_value is the whole value, and {members[0].name} would be a part of it: choose one of them")
    if members:
        made["value"] = _struct(members, given)
    value = made.get("value")
    if value is not None and value.schema is not None and given is not None and given.optional:
        made["value"] = value._replace(schema=changed_fields(value.schema, optional=True))
    return made


def _struct(members: Sequence[MadeColumn], given: Schema | None) -> MadeColumn:
    fields = tuple(Field(part.name, _schema(part)) for part in members)
    schema = Schema(SchemaType.STRUCT, fields=fields)
    if given is not None and given.type is SchemaType.STRUCT:
        schema = changed_fields(given, fields=fields, default=None)
    column = F.struct(
        *(part.column.cast(spark_type(f.schema)).alias(f.name) for part, f in zip(members, fields, strict=True))
    )
    return MadeColumn("value", column, spark_type(schema), schema)


def _schema(part: MadeColumn) -> Schema:
    return part.schema if part.schema is not None else derived_schema(part.kind, True)


def _own(part: MadeColumn, records: Records) -> MadeColumn:
    name, column, kind, _ = part
    match name.lower():
        case "_value" | "_key" if part.schema is None:
            return MadeColumn(name, F.to_json(column), spark.StringType(), None)
        case "_value" | "_key":
            return MadeColumn(name, column.cast(spark_type(part.schema)), spark_type(part.schema), part.schema)
        case "_topic":
            return MadeColumn(name, column.cast("string"), spark.StringType(), None)
        case "_partition" if isinstance(kind, spark.NumericType | spark.NullType):
            return MadeColumn(name, column.cast("int"), spark.IntegerType(), None)
        case "_timestamp" if isinstance(kind, spark.IntegralType | spark.NullType):
            return MadeColumn(name, column.cast("long"), spark.LongType(), None)
        case "_timestamp" if isinstance(kind, spark.TimestampType | spark.TimestampNTZType | spark.DateType):
            return MadeColumn(name, F.unix_millis(column.cast("timestamp")), spark.LongType(), None)
        case "_headers":
            return MadeColumn(name, _headers(column, kind, records), HEADERS, None)
    raise ValueError(f"{name} cannot be {kind.simpleString()}")


def _headers(column: Column, kind: spark.DataType, records: Records) -> Column:
    if isinstance(kind, spark.MapType) and records.header_bytes is not None:
        schema, to_bytes = derived_schema(kind.valueType, True), records.header_bytes

        def header(entry: Column) -> Column:
            data, refused = to_bytes(entry["value"].cast(spark_type(schema)), schema)
            made = F.when(data.isNull() & refused.isNotNull(), F.raise_error(refused).cast("binary")).otherwise(data)
            return F.struct(entry["key"].cast("string").alias("key"), made.alias("value"))

        return F.transform(F.map_entries(column), header)
    if isinstance(kind, spark.NullType) or (
        isinstance(kind, spark.ArrayType) and kind.simpleString() == HEADERS.simpleString()
    ):
        return column.cast(HEADERS)
    raise ValueError(f"_headers is a map, or an {HEADERS.simpleString()} as headers is, and not {kind.simpleString()}")
