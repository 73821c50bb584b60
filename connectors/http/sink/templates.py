"""Templates with `${topic}`, `${key}` and `${field}`, as Column expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.http.sink.options import KEY, TOPIC
from headrace.plugins.java_text import java_text
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema, SchemaType

_PIECE: Final = re.compile(r"\$\{([^}]*)\}")


class Piece(NamedTuple):
    """A piece of a template: a text, or the name of what stands there."""

    text: str
    is_name: bool


def pieces(template: str) -> Sequence[Piece]:
    """The template's pieces in order."""
    found = [Piece(text, number % 2 == 1) for number, text in enumerate(_PIECE.split(template))]
    return [one for one in found if one.text or one.is_name]


def names(template: str) -> Sequence[str]:
    """The names in the template's `${…}`."""
    return [one.text for one in pieces(template) if one.is_name]


def filled(template: str, value: Callable[[str], Column]) -> Column:
    """The template with these texts; null if one of them is null."""
    parts = [value(one.text) if one.is_name else F.lit(one.text) for one in pieces(template)]
    return F.concat(*parts) if parts else F.lit("")


def named_text(records: Records, name: str) -> Column:
    """The text that a name stands for: of the topic, the key, or a field of the value; null if there is none."""
    if name == TOPIC:
        return F.col("topic")
    if name == KEY:
        return records.of_keys(lambda key, schema: F.when(_is_there(key, schema), java_text(key, schema)))
    path = name.split(".")
    return records.of_values(lambda value, schema: _field_text(value, schema, path))


def url_text(text: Column) -> Column:
    """The text as a part of a URL: all but letters, digits and `-_.~` percent-encoded."""
    # url_encode is that of forms.
    encoded = F.url_encode(text)
    for form, own in (("+", "%20"), ("*", "%2A"), ("%7E", "~")):
        encoded = F.replace(encoded, F.lit(form), F.lit(own))
    return encoded


def _is_there(column: Column, schema: Schema | None) -> Column:
    return column.isNotNull() if schema is not None else column.isNotNull() & (column != "null")


def _field_text(value: Column, schema: Schema | None, path: Sequence[str]) -> Column:
    nothing = F.lit(None).cast("string")
    if schema is None:
        found = F.get_json_object(value, "$" + "".join(f"['{name}']" for name in path))
        return F.when(F.trim(value).startswith("{"), found)
    for name in path:
        if schema is None or schema.type is not SchemaType.STRUCT or (field := schema.field(name)) is None:
            return nothing
        value, schema = value.getField(name), field.schema
    return F.when(value.isNotNull(), java_text(value, schema))
