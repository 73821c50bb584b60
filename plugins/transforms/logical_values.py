"""Converts dates, times and timestamps to the numbers that encode them in Connect, and back."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.schema import DATE, TIMESTAMP, Schema, logical
from headrace.plugins.transforms.timestamps import of_ms


def encoded(value: Column, schema: Schema) -> Column:
    """Return the days of a Date, the milliseconds of a Time or Timestamp; other values unchanged."""
    kind = logical(schema)
    if kind == DATE:
        return F.unix_date(value)
    return F.unix_millis(value) if kind == TIMESTAMP else value


def logically(value: Column, schema: Schema) -> Column:
    """Return an encoded value in this schema's Spark type; null for milliseconds that no timestamp can hold."""
    kind = logical(schema)
    if kind == DATE:
        return F.date_from_unix_date(value)
    return of_ms(value).timestamp if kind == TIMESTAMP else value
