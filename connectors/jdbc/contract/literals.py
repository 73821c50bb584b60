"""Constants in statements, as after DEFAULT."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final

from headrace.connectors.jdbc.contract.debezium_types import number_in
from headrace.plugins.schema import DATE, TIME, Schema, SchemaType

_DECLARED_LENGTH: Final = "__debezium.source.column.length"
_DECLARED_TYPE: Final = "__debezium.source.column.type"
_INTEGERS: Final = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)


def number_literal(value: Any, schema: Schema) -> str:
    """The literal of a number, the same in every SQL. Errors: ValueError if the number is not finite."""
    if isinstance(value, Decimal) and value.is_finite():
        return format(value, "f")
    if schema.type in _INTEGERS and isinstance(value, int):
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    raise ValueError(f"{value!r} of type {schema.type} has no literal here")


def text_literal(text: str) -> str:
    """A text in single quotes, those in it doubled. Errors: ValueError if it has a NUL, which no database takes."""
    if "\0" in text:
        raise ValueError("a text with the character NUL has no literal")
    return "'" + text.replace("'", "''") + "'"


def temporal_text(value: int, kind: str | None, zone: tzinfo) -> str:
    """A Date, Time or Timestamp in SQL's form, a Timestamp by the clock of this zone.

    Errors: ValueError outside of the years 1 to 9999.
    """
    try:
        if kind == DATE:
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
        shown = instant if kind == TIME else instant.astimezone(zone)
    except OverflowError:
        raise ValueError(f"{value} is beyond the dates that have a literal") from None
    pattern = "%H:%M:%S" if kind == TIME else "%Y-%m-%d %H:%M:%S"
    return f"{shown.strftime(pattern)}.{shown.microsecond // 1000:03}"


def declared_length(schema: Schema) -> int | None:
    """The declared length of a text column at its source, by Debezium's schema parameter."""
    return number_in(schema, _DECLARED_LENGTH, 10_485_760)


def declared_type(schema: Schema) -> str:
    """The declared type of the column at its source, in upper case, as `declared_length`; empty if unknown."""
    return schema.parameters.get(_DECLARED_TYPE, "").upper()
