"""Schemaless values: records `Anything` in Avro, JSON texts in Spark.

Writing needs no recursion: a JSON text becomes Avro token by token. Avro allows a block for each item of an array, so a
`[`, a comma and a `]` each have a fixed encoding.

Decided: values are read to a depth of `carrier.DEEPEST` arrays and maps; deeper ones are errors of their records,
because Spark has no recursive types, and the expression doubles in length with each level; loses: deeper values. Map
keys become texts, as in JSON. Bytes become base64. Integers are written as long, Connect's type for JSON's integers.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from headrace.plugins.interop.java.json_members import boolean_of, double_of, double_text, long_of, string_of
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.java_text import base64_text
from headrace.plugins.schema import MOST_DIGITS

_TEXT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN: Final = rf"({_TEXT}:|{_TEXT}|-?[0-9][-+.eE0-9]*|true|false|null|\[\]|[\[\]{{}}]|,(?!{_TEXT}:))"
"""A comma before a key is not a token: the key implies it."""
_LONG_DIGITS: Final = f"[0-9]{{{MOST_DIGITS}}}[0-9]"
_ITEM: Final = "02"
"""Length of a block of one item."""
_UNSET: Final = "00"
_TO_ARRAY: Final = _UNSET * 7 + "02"
_MARKS: Final = {
    "[": _TO_ARRAY + _ITEM,
    "[]": _TO_ARRAY + "00" + _UNSET,
    "]": "00" + _UNSET,
    "{": _UNSET * 8 + "02",
    "}": "00",
    ",": _ITEM,
}
_SCALARS: Final = {
    "boolean": ("boolean", "boolean"),
    "bytes": ("bytes", "binary"),
    "double": ("double", "double"),
    "float": ("float", "float"),
    "int": ("int", "int"),
    "long": ("long", "bigint"),
    "string": ("string", "string"),
}
"""First fields of an `Anything`, each with its Avro type and its Spark type."""


def json_of(anything: Column, depth: int) -> Column:
    """Return the JSON of an `Anything` with up to `depth` nested arrays and maps; null for null."""
    of = anything.getField
    found = F.coalesce(
        of("boolean").cast("string"),
        F.concat(F.lit('"'), base64_text(of("bytes")), F.lit('"')),
        double_text(of("double")),
        double_text(of("float")),
        of("int").cast("string"),
        of("long").cast("string"),
        F.when(of("string").isNotNull(), quoted(F.make_valid_utf8(of("string")))),
    )
    if depth == 0:
        return found

    def inner(one: Column) -> Column:
        return F.coalesce(json_of(one, depth - 1), F.lit("null"))

    def pair(entry: Column) -> Column:
        key = entry.getField("key").getField
        kinds = ("boolean", "double", "float", "int", "long")
        name = F.coalesce(
            F.make_valid_utf8(key("string")), *(key(kind).cast("string") for kind in kinds), F.lit("null")
        )
        return F.concat(quoted(name), F.lit(":"), inner(entry.getField("value")))

    array = F.concat(F.lit("["), F.array_join(F.transform(of("array"), inner), ","), F.lit("]"))
    map_ = F.concat(F.lit("{"), F.array_join(F.transform(of("map"), pair), ","), F.lit("}"))
    return F.coalesce(found, array, map_)


def anything_of(text: Column) -> Column:
    """Return the Avro bytes of an `Anything` from a JSON text."""
    tokens = F.regexp_extract_all(text, F.lit(_TOKEN), F.lit(1))
    return F.unhex(F.array_join(F.transform(tokens, _hex), ""))


def _hex(token: Column) -> Column:
    is_key = token.startswith('"') & token.endswith(":")
    key = F.when(is_key, F.substring(token, F.lit(1), F.length(token) - 1)).otherwise(token)
    written = F.concat(F.when(is_key, F.lit(_ITEM)).otherwise(F.lit("")), _scalar(key), F.lit(_UNSET * 2))
    for mark, data in _MARKS.items():
        written = F.when(token == mark, F.lit(data)).otherwise(written)
    return written


def _scalar(token: Column) -> Column:
    found = {
        "boolean": boolean_of(token),
        "double": double_of(token),
        "long": long_of(token),
        "string": string_of(token),
    }
    fields = [found.get(name, F.lit(None)).cast(type_).alias(name) for name, (_, type_) in _SCALARS.items()]
    carrier = {
        "type": "record",
        "name": "scalar",
        "fields": [{"name": name, "type": ["null", avro]} for name, (avro, _) in _SCALARS.items()],
    }
    return F.hex(to_avro(F.struct(*fields), json.dumps(carrier)))


def is_unfit(text: Column) -> Column:
    """True if Spark cannot read this as JSON, or if an integer has too many digits to compute its low bits."""
    tokens = F.regexp_extract_all(text, F.lit(_TOKEN), F.lit(1))
    too_long = text.rlike(_LONG_DIGITS) & F.exists(tokens, lambda token: token.rlike(rf"^-?{_LONG_DIGITS}+\z"))
    return F.try_parse_json(text).isNull() | too_long
