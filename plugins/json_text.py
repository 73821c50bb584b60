"""Pieces of JSON text, written byte for byte as Jackson writes them in UTF-8; Column expressions."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.bound import bound

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


def quoted_small(text: Column) -> Column:
    """The text in JSON's quotes, as `quoted` does, where many are written in one program.

    Only the way of a text that needs no escapes is compiled; what does the others is evaluated.
    """
    as_json = F.to_json(F.array(text))
    of_any = bound(F.substring(as_json, F.lit(2), F.length(as_json) - F.lit(2)), _without_beyond_bmp)
    return F.when(~text.rlike(_NOT_PLAIN), F.concat(F.lit('"'), text, F.lit('"'))).when(text.isNotNull(), of_any)


def _without_beyond_bmp(json: Column) -> Column:
    return F.when(json.rlike(_BEYOND_BMP), _in_surrogates(json)).otherwise(json)


def _in_surrogates(escaped: Column) -> Column:
    """What is beyond the basic plane as two escapes, as Jackson writes it in UTF-8; the rest as it is.

    All UTF-16 units become escapes, those of surrogates escaped twice; a JSON parser undoes one escape of each. Texts
    that are too long for the parser stay in plain UTF-8, which means the same.
    """
    units = F.regexp_replace(F.hex(F.encode(escaped, "UTF-16BE")), "(.{4})", r"\\u$1")
    twice = F.regexp_replace(units, r"\\u(D[89A-F]..)", r"\\\\u$1")
    return F.coalesce(F.get_json_object(F.concat(F.lit('"'), twice, F.lit('"')), "$"), escaped)
