"""Input columns of a SELECT over records: the fields of a value, and the record's own columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.plugins.records import HEADERS, Records
from headrace.plugins.schema import OPTIONAL_STRING, STRING, TIMESTAMP, Field, Schema, SchemaType
from headrace.plugins.transforms.derived_schema import derived_schema, strict_type
from headrace.plugins.transforms.sql_select import RELATION, Input, Select
from headrace.plugins.transforms.timestamps import of_ms

PARSED: Final = "_sql"
"""Prefix of columns with parsed schemaless keys and values, as VARIANT."""
_TIMESTAMP: Final = Schema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1)
_PARTITION: Final = Schema(SchemaType.INT32, optional=True)
_OFFSET: Final = Schema(SchemaType.INT64)


class Shape(NamedTuple):
    """Schemas of value and key for rows that see the same columns."""

    value: int | None
    """None: no value."""
    key: int | None
    """None: no key or the only schema, or any key; negative: no key."""
    key_schema: Schema | None
    key_column: str | None


def shapes(records: Records, select: Select) -> Iterator[Shape]:
    """Yield each shape of rows; schemas of keys are only distinguished if the SELECT names the key."""
    looked_at = any("key" in map(str.lower, name) or name[-1].lower() in ("record", "_record") for name in select.names)
    keys: list[tuple[int | None, Schema | None, str | None]] = [(None, None, None)]
    if len(records.keys) == 1:
        keys = [(None, records.keys[0], "key_0")]
    elif looked_at and records.keys:
        keys = [(number, schema, f"key_{number}") for number, schema in enumerate(records.keys)]
        keys.append((-1, None, None))
    for value in (*range(len(records.values)), None):
        for number, schema, column in keys:
            yield Shape(value, number, schema, column)


def rows_of(records: Records, shape: Shape) -> Column:
    """Return the condition for rows of this shape that the transform is to change."""
    index = F.col("value_schema")
    nothing = index.isNull()
    for number, schema in enumerate(records.values):
        if schema is not None:
            nothing = nothing | ((index == number) & records.value(number).isNull())
    rows = nothing if shape.value is None else F.coalesce((index == shape.value) & ~nothing, F.lit(False))
    if shape.key is not None:
        rows = rows & (F.col("key_schema").isNull() if shape.key < 0 else F.col("key_schema").eqNullSafe(shape.key))
    alive = F.col("error").isNull() & ~F.col("drop")
    return alive & rows if records.applies is None else alive & F.coalesce(records.applies, F.lit(False)) & rows


def inputs_of(records: Records, shape: Shape, number: int) -> list[Input]:
    schema, column = records.values[number], records.value(number)
    if schema is None:
        whole = Input("value", _parsed(f"value_{number}"), spark.VariantType(), shown=True)
    else:
        whole = Input("value", column, strict_type(schema), schema, schema.optional, shown=True)
    if schema is None or schema.type is not SchemaType.STRUCT:
        return [whole, *_record([*_metadata(records, shape), whole], {"value"})]
    fields = [
        Input(f.name, column.getField(f.name), strict_type(f.schema), f.schema, f.schema.optional, shown=True)
        for f in schema.fields
    ]
    return [*fields, *_record([*_metadata(records, shape), whole], {f.name.lower() for f in schema.fields})]


def inputs_of_nothing(records: Records, shape: Shape, select: Select) -> list[Input]:
    """Return null inputs for every name that must belong to the value, in types that fit the named members."""
    metadata = _metadata(records, shape)
    known = {one.name for one in metadata}
    paths = {_path(name) for name in select.names} | {("value",)}
    variants = {_path(name) for name in select.variants}
    of_value = sorted({path[0] for path in paths if path and path[0] not in known})
    kinds = {name: _kind_of_nothing((name,), paths, variants) for name in of_value}
    made = {name: Input(name, F.lit(None).cast(kind), kind, shown=True) for name, kind in kinds.items()}
    return [*made.values(), *_record([*metadata, made["value"]], set(made))]


def troubles(records: Records, shape: Shape) -> list[Column]:
    """Return the errors of inputs that Spark cannot hold; null if it can."""
    found = [of_ms(F.col("timestamp")).beyond()]
    if shape.value is not None and records.values[shape.value] is None:
        found.append(_unparsed(f"value_{shape.value}"))
    if shape.key_column is not None and shape.key_schema is None:
        found.append(_unparsed(shape.key_column))
    return found


def _parsed(document: str) -> Column:
    return _raising(F.col(f"{PARSED}_{document}"), _unparsed(document))


def _unparsed(document: str) -> Column:
    missing = F.col(document).isNotNull() & F.col(f"{PARSED}_{document}").isNull()
    return F.when(missing, F.lit(f"The {document.partition('_')[0]} is JSON that a VARIANT cannot hold"))


def _raising(column: Column, message: Column) -> Column:
    return F.when(message.isNull(), column).otherwise(F.raise_error(message))


def _path(name: Sequence[str]) -> tuple[str, ...]:
    """Return the path from the record that a name denotes."""
    parts = tuple(part.lower() for part in name)
    parts = parts[1:] if parts[0] == RELATION and len(parts) > 1 else parts
    return parts[1:] if parts[0] in ("record", "_record") else parts


def _kind_of_nothing(
    at: tuple[str, ...], paths: set[tuple[str, ...]], variants: set[tuple[str, ...]]
) -> spark.DataType:
    """Return the type of a null with all named members."""
    if at in variants:
        return spark.VariantType()
    depth = len(at)
    members = sorted({path[depth] for path in paths if path[:depth] == at and len(path) > depth})
    if not members:
        return spark.NullType()
    return spark.StructType([spark.StructField(m, _kind_of_nothing((*at, m), paths, variants)) for m in members])


def _metadata(records: Records, shape: Shape) -> list[Input]:
    moment = of_ms(F.col("timestamp"))
    found = [
        Input("topic", F.col("topic"), spark.StringType(), STRING, False),
        Input("partition", F.col("partition"), spark.IntegerType(), _PARTITION),
        Input("timestamp", _raising(moment.timestamp, moment.beyond()), spark.TimestampType(), _TIMESTAMP),
        Input("headers", F.col("headers"), HEADERS),
    ]
    if "offset" in records.frame.columns:
        found.append(Input("offset", F.col("offset"), spark.LongType(), _OFFSET, False))
    if shape.key_column is None:
        found.append(Input("key", F.lit(None).cast("string"), spark.StringType(), OPTIONAL_STRING))
    elif shape.key_schema is None:
        found.append(Input("key", _parsed(shape.key_column), spark.VariantType()))
    else:
        schema = replace(shape.key_schema, optional=True)
        found.append(Input("key", F.col(shape.key_column), strict_type(schema), schema))
    return found


def _record(members: Sequence[Input], taken: set[str]) -> list[Input]:
    """Return the record's own columns that no field hides, and a struct of all of them."""
    struct = F.struct(*(one.column.alias(one.name) for one in members))
    kind = spark.StructType([spark.StructField(one.name, one.kind, one.optional) for one in members])
    fields = (Field(one.name, one.schema or derived_schema(one.kind, one.optional)) for one in members)
    schema = Schema(SchemaType.STRUCT, fields=tuple(fields))
    name = "_record" if "record" in taken else "record"
    own = [one._replace(shown=False) for one in members if one.name not in taken]
    return [*own, Input(name, struct, kind, schema, optional=False)]
