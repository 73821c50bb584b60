"""Rows that Debezium's transform has unwrapped from changes: the fields that tell deletes from others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.schema import Schema, SchemaType

DELETED: Final = "__deleted"
OPERATION: Final = "__op"
_NESTED: Final = (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)


def is_unwrapped_delete(deleted: Column, operation: Column) -> Column:
    """True for a delete, by the texts of its two fields; false if they are null."""
    return F.coalesce(F.lower(deleted) == "true", F.lit(False)) | F.coalesce(operation == "d", F.lit(False))


def is_deleted(value: Column, schema: Schema) -> Column:
    """True for a struct that is a delete; a transform may have made a boolean of `__deleted`."""
    return is_unwrapped_delete(field_text(value, schema, (DELETED,)), field_text(value, schema, (OPERATION,)))


def field_at(schema: Schema, path: Sequence[str]) -> Schema | None:
    """The schema of the field at this path; None if there is none."""
    found: Schema | None = schema
    for name in path:
        member = None if found is None else found.field(name)
        found = None if member is None else member.schema
    return found


def field_text(value: Column, schema: Schema, path: Sequence[str]) -> Column:
    """The text of the field at this path; null if it is missing or has members."""
    if (found := field_at(schema, path)) is None or found.type in _NESTED:
        return F.lit(None).cast("string")
    for name in path:
        value = value.getField(name)
    return value.cast("string")
