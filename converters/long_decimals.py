"""Error texts for Decimals with more digits than Spark holds, and the fields that may have such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.plugins.interop.avro.tree import PRECISION
from headrace.plugins.schema import DECIMAL, MOST_DIGITS, Schema, SchemaType, logical, scale

_SHOWN: Final = 5
_REMEDY: Final = (
    "longer ones have to be texts (from Debezium: decimal.handling.mode=string; from the JDBC source: "
    "numeric.long.mapping=string)"
)
DECIMAL_TOO_LONG: Final = (
    f"Invalid Decimal: Headrace holds {{}} digits, {{}} of them after the decimal point; {_REMEDY}"
)


def or_too_long(schema: Schema | None) -> str:
    """The end of a sentence: Decimals in values of this schema may be too long; empty if no Decimal can be."""
    found = list(_long_decimals(schema, ""))
    if not found:
        return ""
    fields = ", ".join([*found[:_SHOWN], *(["…"] if len(found) > _SHOWN else [])])
    return f", or a Decimal ({fields}) has more than the {MOST_DIGITS} digits that Headrace holds; {_REMEDY}"


def _long_decimals(schema: Schema | None, path: str) -> Iterator[str]:
    """The path of each Decimal whose schema allows more digits, with its digits after the decimal point."""
    if schema is None:
        return
    match schema.type:
        case SchemaType.STRUCT:
            for field in schema.fields:
                yield from _long_decimals(field.schema, f"{path}.{field.name}" if path else field.name)
        case SchemaType.ARRAY | SchemaType.MAP:
            yield from _long_decimals(schema.key_schema, path)
            yield from _long_decimals(schema.value_schema, path)
        case _ if logical(schema) == DECIMAL and int(schema.parameters.get(PRECISION, MOST_DIGITS + 1)) > MOST_DIGITS:
            yield f"{path or 'the value'}, {scale(schema)} digits after the decimal point"
