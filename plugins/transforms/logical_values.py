"""Dates, times and timestamps as the numbers that they are encoded as in Connect, and back."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.schema import DATE, TIMESTAMP, Schema, logical
from headrace.plugins.transforms.timestamps import of_ms


def encoded(value: Column, schema: Schema) -> Column:
    """Days of a Date, milliseconds of a Time or Timestamp; any other value as it is."""
    kind = logical(schema)
    if kind == DATE:
        return F.unix_date(value)
    return F.unix_millis(value) if kind == TIMESTAMP else value


def logically(value: Column, schema: Schema) -> Column:
    """An encoded value as this schema's Spark type carries it; null for milliseconds that no timestamp can hold."""
    kind = logical(schema)
    if kind == DATE:
        return F.date_from_unix_date(value)
    return of_ms(value).timestamp if kind == TIMESTAMP else value
