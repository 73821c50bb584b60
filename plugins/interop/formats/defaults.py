"""Defaults in place of nulls, as Confluent's AvroData has them; expressions."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.schema import Schema, SchemaType, literal, spark_type

Expression = Callable[[Column], Column]


def filled(value: Column, schema: Schema) -> Column:
    """The value with defaults in place of its members' nulls; null for null."""
    within = _within(schema)
    return value if within is None else within(value).cast(spark_type(schema))


def _within(schema: Schema | None) -> Expression | None:
    """Fills the inside of a value; None if there is nothing to fill."""
    if schema is None:
        return None
    match schema.type:
        case SchemaType.ARRAY:
            item = _within(schema.value_schema)
            return None if item is None else lambda column: F.transform(column, item)
        case SchemaType.MAP:
            member = _within(schema.value_schema)
            return None if member is None else lambda column: F.transform_values(column, lambda _, one: member(one))
        case SchemaType.STRUCT:
            fills = [_fill(field.schema) for field in schema.fields]
            return None if not any(fills) else lambda column: _struct(column, schema, fills)
    return None


def _fill(schema: Schema) -> Expression | None:
    """Fills a member; None if there is nothing to fill."""
    within = _within(schema)
    if schema.default is None:
        return within
    return lambda column: F.coalesce(column if within is None else within(column), literal(schema.default, schema))


def _struct(column: Column, schema: Schema, fills: list[Expression | None]) -> Column:
    members = []
    for field, fill in zip(schema.fields, fills, strict=True):
        member = column.getField(field.name)
        members.append((member if fill is None else fill(member)).alias(field.name))
    return F.when(column.isNotNull(), F.struct(*members))
