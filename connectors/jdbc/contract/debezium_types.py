"""Names and forms of Debezium's own types in Connect's schemas."""

from __future__ import annotations

from typing import Final

from headrace.plugins.schema import Schema, SchemaType

BITS: Final = "io.debezium.data.Bits"
"""BYTES: the bits of a number, least byte first; the parameter `length` counts them."""
JSON: Final = "io.debezium.data.Json"
UUID: Final = "io.debezium.data.Uuid"
XML: Final = "io.debezium.data.Xml"
POINT: Final = "io.debezium.data.geometry.Point"
"""STRUCT with x and y."""
ANY_SCALE: Final = "io.debezium.data.VariableScaleDecimal"
"""STRUCT of `scale` and `value`, the unscaled number."""
ZONED_TIME: Final = "io.debezium.time.ZonedTime"
ZONED_TIMESTAMP: Final = "io.debezium.time.ZonedTimestamp"
"""STRING: ISO 8601 with an offset, `infinity` or `-infinity`."""
SOURCE_NAME: Final = "__debezium.source.column.name"
"""The schema parameter with the column's original name: Avro's fields have no `$`."""

_UNBOUNDED: Final = 2**31 - 1


def is_bits(schema: Schema) -> bool:
    """True for Debezium's Bits."""
    return schema.name == BITS and schema.type is SchemaType.BYTES


def is_point(schema: Schema) -> bool:
    """True for Debezium's points."""
    return schema.name == POINT and schema.type is SchemaType.STRUCT


def is_zoned_timestamp(schema: Schema) -> bool:
    """True for Debezium's texts of instants."""
    return schema.name == ZONED_TIMESTAMP and schema.type is SchemaType.STRING


def bit_count(schema: Schema) -> int | None:
    """The count of bits in the column that Bits come from; None if unbounded."""
    return number_in(schema, "length", _UNBOUNDED - 1)


def number_in(schema: Schema, parameter: str, most: int) -> int | None:
    """A parameter of the schema as a number from 1 to `most`; None if it is no such number."""
    text = schema.parameters.get(parameter, "")
    number = int(text) if text.isascii() and text.isdigit() else 0
    return number if 0 < number <= most else None
