"""JSON documents of rows for databases that unnest JSON: the texts of their items, and the paths to them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.jdbc.contract.sink_rows import Value
from headrace.plugins.schema import SchemaType, logical

_NESTED: Final = (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)


def item_text(column: Column, value: Value) -> Column:
    """The text of a value in a form that every database reads: booleans as 1 and 0, bytes in hex."""
    schema = value.schema
    if schema.type is SchemaType.BOOLEAN:
        return column.cast("int").cast("string")
    if schema.type is SchemaType.BYTES and logical(schema) is None:
        return F.hex(column)
    return F.to_json(column) if schema.type in _NESTED else column.cast("string")


def item_path(number: int, member: str | None = None) -> str:
    """The path to a document's item, or to a member of it."""
    if member is None:
        return f"$[{number}]"
    escaped = member.replace("\\", "\\\\").replace('"', '\\"')
    return f'$[{number}]."{escaped}"'
