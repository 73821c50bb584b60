"""Debezium's change events: the meaning of their operations, and the tables that they name.

| `op` | |
|---|---|
| c, u, r | a write of `after` |
| d | a delete by the record's key |
| t | a truncate of the table |
| m | a message: skipped |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.plugins.interop.debezium import is_envelope
from headrace.plugins.records import Records

PLACEHOLDER: Final = re.compile(r"\$\{(topic|source\.[A-Za-z_]+)\}")
"""A placeholder in `table.name.format`."""


def table_name(options: SinkOptions, records: Records) -> Column:
    """The name of each record's table by the settings; null for a tombstone, if only a `source` would tell it."""
    named = F.concat(*_pieces(options, records)) if options.table_format != "${topic}" else _topic(options)
    for topic, table in options.tables.items():
        named = F.when(F.col("topic") == topic, F.lit(table)).otherwise(named)
    return named


def _pieces(options: SinkOptions, records: Records) -> Iterator[Column]:
    for number, piece in enumerate(PLACEHOLDER.split(options.table_format)):
        if number % 2 == 0:
            yield F.lit(piece)
        elif piece == "topic":
            yield _topic(options)
        else:
            without = F.when(F.col("value_schema").isNotNull(), F.lit(""))
            yield F.coalesce(*_of_source(piece.removeprefix("source."), records), without)


def _topic(options: SinkOptions) -> Column:
    topic = F.col("topic")
    if options.normalize_table:
        return F.regexp_replace(topic, "[^a-zA-Z0-9_]", "_")
    return F.replace(topic, F.lit("."), F.lit("_")) if options.dots_to_underscores else topic


def _of_source(name: str, records: Records) -> Iterator[Column]:
    """The member of `source`, for each schema that has it."""
    for number, schema in enumerate(records.values):
        source = None if schema is None or not is_envelope(schema) else schema.field("source")
        if source is not None and source.schema.field(name) is not None:
            found = records.value(number).getField("source").getField(name).cast("string")
            yield F.when(F.col("value_schema") == number, found)
