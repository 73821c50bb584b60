"""Values to JSON text, byte for byte as Apache's JsonConverter (Jackson) writes them; Column expressions."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.json_schema import value_text
from headrace.plugins.schema import Schema, SchemaType

NULL_REFUSED: Final = "Conversion error: null value for field that is required and has no default value"

_NOT_PLAIN: Final = r'["\\\x00-\x1f\x80-\x{10FFFF}]'
"""Outside ASCII, or to be escaped; in few ranges, because Java calls a predicate for each range at every character."""
_MUST_BE_ESCAPED: Final = r'["\\\x00-\x1f\x{10000}-\x{10FFFF}]'
_CONTROL: Final = r"[\x00-\x1f]"
_BEYOND_BMP: Final = r"[\x{10000}-\x{10FFFF}]"


def quoted(text: Column, before: str = "", after: str = "") -> Column:
    """`before`, the text in JSON's quotes, and `after`.

    Decided: only a text with control characters goes through `to_json`, because writing JSON costs twice what one look
    for the characters to escape and a concatenation cost; loses: more branches.
    """
    as_json = F.to_json(F.struct(text.alias("v"))).cast("binary")
    inside = F.substring(as_json, F.lit(len('{"v":"') + 1), F.length(as_json) - F.lit(len('{"v":""}')))
    replaced = F.replace(F.replace(text, F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
    escaped = F.when(text.rlike(_CONTROL), inside.cast("string")).otherwise(replaced)
    head, tail = F.lit(f'{before}"'), F.lit(f'"{after}')
    plain = ~text.rlike(_NOT_PLAIN) | ~text.rlike(_MUST_BE_ESCAPED)
    return (
        F.when(plain, F.concat(head, text, tail))
        .when(text.rlike(_BEYOND_BMP), F.concat(head, _in_surrogates(escaped), tail))
        .when(text.isNotNull(), F.concat(head, escaped, tail))
    )


def _in_surrogates(escaped: Column) -> Column:
    """What is beyond the basic plane as two escapes, as Jackson writes it in UTF-8; the rest as it is.

    All UTF-16 units become escapes, those of surrogates escaped twice; a JSON parser undoes one escape of each. Texts
    that are too long for the parser stay in plain UTF-8, which means the same.
    """
    units = F.regexp_replace(F.hex(F.encode(escaped, "UTF-16BE")), "(.{4})", r"\\u$1")
    twice = F.regexp_replace(units, r"\\u(D[89A-F]..)", r"\\\\u$1")
    return F.coalesce(F.get_json_object(F.concat(F.lit('"'), twice, F.lit('"')), "$"), escaped)


def payload(value: Column, schema: Schema | None, before: str, after: str, replace_nulls: bool) -> Column:
    """`before`, the value in JSON and `after`; null where the value is null and may not be."""
    if schema is None:
        return F.concat(F.lit(before), value, F.lit(after))
    null = null_text(schema, replace_nulls)
    written = _written(value, schema, before, after)
    return written if null is None else F.coalesce(written, F.lit(before + null + after))


def null_text(schema: Schema, replace_nulls: bool) -> str | None:
    """What stands for a null of this schema in JSON; None where a null is refused."""
    if schema.default is not None and replace_nulls:
        return value_text(schema, schema.default)
    return "null" if schema.optional else None


def _written(value: Column, schema: Schema, before: str, after: str) -> Column:
    head, tail = F.lit(before), F.lit(after)
    match schema.type:
        case SchemaType.STRING:
            return quoted(value, before, after)
        case SchemaType.BYTES:
            one_line = F.replace(F.base64(value), F.lit("\r\n"), F.lit(""))  # Spark breaks lines after 76 characters
            return F.concat(F.lit(f'{before}"'), one_line, F.lit(f'"{after}'))
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            number = value.cast("string")
            none_in_json = F.isnan(value) | (F.abs(value) == F.lit(float("inf")))
            return F.concat(
                head, F.when(none_in_json, F.concat(F.lit('"'), number, F.lit('"'))).otherwise(number), tail
            )
    return F.concat(head, value.cast("string"), tail)
