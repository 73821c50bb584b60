"""JSON text with marked scalars, so that Spark's JSON parser can give every value as a string.

That parser gives a string's content and any other JSON's text alike, and rewrites numbers as doubles. So before
parsing, each string gets the prefix `s`, and each number becomes a string with the prefix `n`:

    {"a":"5","b":5.00}    ->    {"sa":"s5","sb":"n5.00"}

Each value, read as a string, is then one of: null (JSON's null, or a missing member), `s…` a string's content, `n…` a
number in its own spelling, `true`, `false`, or the text of an object (`{…`) or array (`[…`), whose own scalars are
still marked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from headrace.converters.json.numbers import NUMBER
from headrace.plugins.interop.java.distinct_keys import distinct_keys

OPTIONS: Final = {
    "allowSingleQuotes": "false",
    "allowNumericLeadingZeros": "true",
    "allowUnquotedControlChars": "true",
    "allowNonNumericNumbers": "false",
}
"""Options of Spark's parser: as Connect's, except for control characters in strings."""
MISSING: Final = ""
"""The value of an empty document: neither null nor of any other kind."""

# Possessive, because Java's regular expressions recurse for each repetition of a backtracking group.
_STRING: Final = r'"((?:[^"\\]++|\\.)*+)"'
_NEXT_NUMBER: Final = rf'(?s)\G((?:[^"0-9\-]++|"(?:[^"\\]++|\\.)*+")*+)({NUMBER})(?=[\s,\]}}]|\z)'


def marked(text: Column) -> Column:
    """This JSON text with its scalars marked; a text that is not JSON stays invalid."""
    strings = F.regexp_replace(text, f"(?s){_STRING}", '"s$1"')
    return F.regexp_replace(strings, _NEXT_NUMBER, '$1"n$2"')


def content(raw: Column) -> Column:
    """The text after the mark: a string's content, a number's text."""
    return F.substring(raw, 2, 2**31 - 1)


def is_string(raw: Column) -> Column:
    """True if the value is a JSON string."""
    return F.startswith(raw, F.lit("s"))


def is_number(raw: Column) -> Column:
    """True if the value is a number."""
    return F.startswith(raw, F.lit("n"))


def is_object(raw: Column) -> Column:
    """True if the value is an object."""
    return F.startswith(raw, F.lit("{"))


def is_array(raw: Column) -> Column:
    """True if the value is an array."""
    return F.startswith(raw, F.lit("["))


def node_type(raw: Column) -> Column:
    """Jackson's name for the kind of value."""
    return (
        F.when(is_object(raw), "OBJECT")
        .when(is_array(raw), "ARRAY")
        .when(is_string(raw), "STRING")
        .when(is_number(raw), "NUMBER")
        .when(raw == MISSING, "MISSING")
        .otherwise("BOOLEAN")
    )


def items(raw: Column) -> Column:
    """An array's items; null for anything else."""
    return F.from_json(raw, "array<string>", OPTIONS)


def entries(raw: Column) -> Column:
    """An object's members as an array of key and value, the last of each name; null for anything else."""
    pairs = F.map_entries(F.from_json(raw, "map<string,string>", OPTIONS))
    named = F.transform(pairs, lambda pair: F.struct(content(pair["key"]).alias("key"), pair["value"].alias("value")))
    return distinct_keys(named)


def names(raw: Column) -> Column:
    """The names of an object's members; null for anything else."""
    return F.transform(F.map_keys(F.from_json(raw, "map<string,string>", OPTIONS)), content)


def members(raw: Column, names: Iterable[str]) -> Column:
    """An object's members with these names, as a struct for `member`."""
    return F.from_json(raw, StructType([StructField(f"s{name}", StringType()) for name in names]), OPTIONS)


def member(of: Column, name: str) -> Column:
    """One member of the result of `members`."""
    return of.getField(f"s{name}")
