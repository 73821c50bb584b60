"""Schemaless values are compact JSON text; here it is taken apart, member by member, and put together again.

Column expressions that never raise for data. A member's JSON is text as Jackson writes it: a number with a fraction is
a double (`Double.toString`), an integer has 64 bits (the low ones, as in Java), a text is escaped as Jackson does.

Decided: inside arrays and objects an integer beyond 64 bits stays as it was written, because no parser of Spark's cuts
it; loses: Java's low bits of such numbers there. A number too large for a double becomes the text `"Infinity"`, which
is what Apache writes in the end; loses: that on its way it would be a number.
Decided: members keep the order of the document, because an order is better than none; loses: Java's HashMap has
another one, by hash codes.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.plugins.catalyst.let import let
from headrace.plugins.java.distinct_keys import distinct_keys
from headrace.plugins.java.int64_bits import low_long
from headrace.plugins.java.jackson import json_string
from headrace.plugins.java.json_text import quoted

_NUMBER: Final = r"^-?[0-9]"
_INTEGER: Final = r"^-?[0-9]+\z"
_LONG: Final = r"^(?:0|-?[1-9][0-9]{0,17})\z"
_NO_TEXT: Final = r'^(?:[\[{"\-0-9]|true\z|false\z)'
"""How JSON begins that is no text; of texts themselves few begin so."""
_OPTIONS: Final = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def is_object(text: Column) -> Column:
    """Whether this JSON is an object; null for null."""
    return text.startswith("{")


def members(text: Column) -> Column:
    """The members of a JSON object in their order; of a name that comes twice the last one counts. Null for no object.

    Shape: array<struct<name: string, json: string>>; a null's JSON is `null`.
    """
    return let(text, lambda object_: F.when(is_object(object_), distinct_keys(_members(object_), "name")))


def object_text(members: Column) -> Column:
    """The compact JSON object of these members, whose names are all different."""
    written = F.transform(members, lambda one: F.concat(quoted(one["name"]), F.lit(":"), one["json"]))
    return F.concat(F.lit("{"), F.array_join(written, ","), F.lit("}"))


def member(text: Column, name: str) -> Column:
    """The JSON of the object's member of this name; null where it has none, or a null, or is no object."""

    def found(object_: Column) -> Column:
        kind = _is_text(F.from_json(object_, _only(name, spark.VariantType()), _OPTIONS).getField(name))
        content = F.from_json(object_, _only(name, spark.StringType()), _OPTIONS).getField(name)
        return F.when(is_object(object_), let(content, lambda one: _json_or_null(one, kind)))

    return let(text, found)


def object_of(pairs: list[tuple[str, Column]]) -> Column:
    """The compact JSON object with these names, all different, and their JSON; a null is written as `null`."""
    parts: list[Column] = []
    for number, (name, json) in enumerate(pairs):
        parts += [F.lit(f"{',' if number else '{'}{json_string(name)}:"), F.coalesce(json, F.lit("null"))]
    return F.concat(*parts, F.lit("}" if pairs else "{}"))


def string_of(json: Column) -> Column:
    """The content of a JSON text; null for other JSON."""
    inside = F.substring(json, F.lit(2), F.length(json) - 2)
    # get_json_object fails for a lone surrogate; from_json makes a `?` of it, as Java does when it writes.
    wrapped = F.from_json(F.concat(F.lit('{"p":'), json, F.lit("}")), "p string", _OPTIONS).getField("p")
    parsed = F.coalesce(F.get_json_object(json, "$"), wrapped)
    return F.when(json.startswith('"'), F.when(~json.contains("\\"), inside).otherwise(parsed))


def long_of(json: Column) -> Column:
    """The value of a JSON integer, of which 64 bits count; null for other JSON and for more than 38 digits."""
    return F.when(json.rlike(_LONG), json.try_cast("long")).when(json.rlike(_INTEGER), _low_bits(json))


def double_of(json: Column) -> Column:
    """The value of a JSON number with a fraction or an exponent; null for other JSON."""
    # Connect reads JSON's numbers as decimals, which know no negative zero.
    return F.when(json.rlike(_NUMBER) & ~json.rlike(_INTEGER), json.try_cast("double") + F.lit(0.0))


def boolean_of(json: Column) -> Column:
    """The value of `true` and `false`; null for other JSON."""
    return F.when(json == "true", F.lit(True)).when(json == "false", F.lit(False))


def double_text(number: Column) -> Column:
    """The JSON of a double: Java's text of it, in quotes where JSON has no such number."""
    text = number.cast("string")
    none_in_json = F.isnan(number) | (F.abs(number) == F.lit(float("inf")))
    return F.when(none_in_json, F.concat(F.lit('"'), text, F.lit('"'))).otherwise(text)


def _only(name: str, of: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(name, of)])


def _is_text(variant: Column) -> Column:
    return F.schema_of_variant(variant) == "STRING"


def _members(text: Column) -> Column:
    # from_json gives a text's content and any other JSON's spelling alike: only the variant's type distinguishes them.
    variants = F.map_values(F.from_json(text, "map<string,variant>", _OPTIONS))

    def typed(entries: Column) -> Column:
        kinds = F.transform(variants, _is_text)
        # A variant refuses lone surrogates: then a content that looks like other JSON is taken for it.
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
    """The JSON of a value as `from_json` gives it under a string type."""
    number = F.when(content.rlike(_LONG), content).otherwise(
        F.coalesce(_low_bits(content).cast("string"), double_text(double_of(content)), content)
    )
    other = F.when(content.rlike(_NUMBER), number).otherwise(content)
    return F.when(content.isNull(), F.lit("null")).when(is_text, quoted(content)).otherwise(other)


def _low_bits(integer: Column) -> Column:
    """The long that Java's `longValue` gives; null beyond 38 digits and for what is no integer."""
    return low_long(F.when(integer.rlike(_INTEGER), integer))
