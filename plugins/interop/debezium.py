"""Debezium's change events."""

from __future__ import annotations

from headrace.plugins.schema import Schema, SchemaType


def is_envelope(schema: Schema) -> bool:
    """Return True for the schemas of change events."""
    after, operation = schema.field("after"), schema.field("op")
    return (
        schema.type is SchemaType.STRUCT
        and after is not None
        and after.schema.type is SchemaType.STRUCT
        and operation is not None
        and operation.schema.type is SchemaType.STRING
        and (schema.name or "").endswith("Envelope")
    )
