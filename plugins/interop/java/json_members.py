"""Splits schemaless values (compact JSON text) into members, and joins them again.

Column expressions that never raise for data. A member's JSON is as Jackson writes it: a number with a fraction is a
double (`Double.toString`), an integer has 64 bits (the low ones, as in Java), a text is escaped.

Decided: inside arrays and objects an integer beyond 64 bits stays as written, because no Spark parser cuts it; loses:
Java's low bits of such numbers there. A number too large for a double becomes the text `"Infinity"`, as Apache finally
writes it; loses: that it would be a number until then. Decided: members keep the order of the document, because any
order is better than none; loses: the order of Java's HashMap, by hash codes.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.distinct_keys import distinct_keys
from headrace.plugins.interop.java.int64_bits import low_long
from headrace.plugins.interop.java.jackson import json_string
from headrace.plugins.interop.java.json_text import quoted

_NUMBER: Final = r"^-?[0-9]"
_INTEGER: Final = r"^-?[0-9]+\z"
_LONG: Final = r"^(?:0|-?[1-9][0-9]{0,17})\z"
_NO_TEXT: Final = r'^(?:[\[{"\-0-9]|true\z|false\z)'
"""Beginnings of JSON that is not text; few texts begin so."""
_END: Final = "headrace:end"
_OPTIONS: Final = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def is_object(text: Column) -> Column:
    """True if this JSON is an object; null for null."""
    return text.startswith("{")


def members(text: Column) -> Column:
    """Return the members of a JSON object in order; the last of equal names counts. Null if not an object.

    Shape: array<struct<name: string, json: string>>; a null's JSON is `null`.
    """
    return let(text, lambda object_: F.when(is_object(object_), distinct_keys(_members(object_), "name")))


def object_text(members: Column) -> Column:
    """Return the compact JSON object of these members, whose names are distinct."""
    written = F.transform(members, lambda one: F.concat(quoted(one["name"]), F.lit(":"), one["json"]))
    return F.concat(F.lit("{"), F.array_join(written, ","), F.lit("}"))


def member(text: Column, name: str) -> Column:
    """Return the JSON of an object's member; null if it is missing or null, or if `text` is not an object."""

    def found(object_: Column) -> Column:
        kind = _is_text(F.from_json(object_, _only(name, spark.VariantType()), _OPTIONS).getField(name))
        content = F.from_json(object_, _only(name, spark.StringType()), _OPTIONS).getField(name)
        return F.when(is_object(object_), let(content, lambda one: _json_or_null(one, kind)))

    return let(text, found)


def schemaless(line: Column) -> Column:
    """Return a JSON text in the form of schemaless values; null for `null`, and for a text that is not one whole JSON.

    Spark's parser stops after the first whole value, so what follows it would be lost in silence.
    """
    listed = F.concat(F.lit('{"line":['), line, F.lit(f',"{_END}"]}}'))
    kept = F.from_json(listed, "line array<string>", _OPTIONS).getField("line")
    is_whole = (F.size(kept) == 2) & (F.element_at(kept, 2) == _END)
    return F.when(is_whole, member(F.concat(F.lit('{"line":'), line, F.lit("}")), "line"))


def object_of(pairs: list[tuple[str, Column]]) -> Column:
    """Return the compact JSON object of these distinct names and their JSON; a null is written as `null`."""
    parts: list[Column] = []
    for number, (name, json) in enumerate(pairs):
        parts += [F.lit(f"{',' if number else '{'}{json_string(name)}:"), F.coalesce(json, F.lit("null"))]
    return F.concat(*parts, F.lit("}" if pairs else "{}"))


def string_of(json: Column) -> Column:
    """Return the content of a JSON text; null for other JSON."""
    inside = F.substring(json, F.lit(2), F.length(json) - 2)
    # get_json_object fails for a lone surrogate; from_json makes a `?` of it, as Java does in UTF-8.
    wrapped = F.from_json(F.concat(F.lit('{"p":'), json, F.lit("}")), "p string", _OPTIONS).getField("p")
    parsed = F.coalesce(F.get_json_object(json, "$"), wrapped)
    return F.when(json.startswith('"'), F.when(~json.contains("\\"), inside).otherwise(parsed))


def long_of(json: Column) -> Column:
    """Return the low 64 bits of a JSON integer; null for other JSON and beyond 38 digits."""
    return F.when(json.rlike(_LONG), json.try_cast("long")).when(json.rlike(_INTEGER), _low_bits(json))


def double_of(json: Column) -> Column:
    """Return a JSON number with a fraction or an exponent; null for other JSON."""
    # Connect reads JSON's numbers as decimals, which have no negative zero.
    return F.when(json.rlike(_NUMBER) & ~json.rlike(_INTEGER), json.try_cast("double") + F.lit(0.0))


def boolean_of(json: Column) -> Column:
    """Return the value of `true` and `false`; null for other JSON."""
    return F.when(json == "true", F.lit(True)).when(json == "false", F.lit(False))


def double_text(number: Column) -> Column:
    """Return Java's text of a double, quoted if JSON has no such number."""
    text = number.cast("string")
    none_in_json = F.isnan(number) | (F.abs(number) == F.lit(float("inf")))
    return F.when(none_in_json, F.concat(F.lit('"'), text, F.lit('"'))).otherwise(text)


def _only(name: str, of: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(name, of)])


def _is_text(variant: Column) -> Column:
    return F.schema_of_variant(variant) == "STRING"


def _members(text: Column) -> Column:
    # from_json makes the same string of a text and of other JSON; only the variant's type distinguishes them.
    variants = F.map_values(F.from_json(text, "map<string,variant>", _OPTIONS))

    def typed(entries: Column) -> Column:
        kinds = F.transform(variants, _is_text)
        # A variant refuses lone surrogates; content that looks like other JSON is then taken for that.
        guessed = F.transform(entries, lambda entry: ~entry["value"].rlike(_NO_TEXT))
        return F.zip_with(
            entries, F.coalesce(kinds, guessed), lambda one, is_text: _member(one["key"], _json(one["value"], is_text))
        )

    return let(F.map_entries(F.from_json(text, "map<string,string>", _OPTIONS)), typed)


def _member(name: Column, json: Column) -> Column:
    return F.struct(name.alias("name"), json.alias("json"))


def _json_or_null(content: Column, is_text: Column) -> Column:
    looks_so = ~content.rlike(_NO_TEXT)
    return F.when(content.isNotNull(), let(looks_so | F.coalesce(is_text, F.lit(False)), lambda it: _json(content, it)))


def _json(content: Column, is_text: Column) -> Column:
    """Return the JSON of a value that `from_json` read as a string."""
    number = F.when(content.rlike(_LONG), content).otherwise(
        F.coalesce(_low_bits(content).cast("string"), double_text(double_of(content)), content)
    )
    other = F.when(content.rlike(_NUMBER), number).otherwise(content)
    return F.when(content.isNull(), F.lit("null")).when(is_text, quoted(content)).otherwise(other)


def _low_bits(integer: Column) -> Column:
    """Return Java's `longValue`; null beyond 38 digits and for non-integers."""
    return low_long(F.when(integer.rlike(_INTEGER), integer))
