"""Values to JSON text, byte for byte as Apache's JsonConverter (Jackson) writes them; Column expressions.

Each value's text is joined from the texts of its parts, because Spark's `to_json` spells numbers differently. The text
of a null that is not allowed is null, and so is the text of everything around it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.catalyst.java_calls import bytes_of_decimal
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.jackson import json_string
from headrace.plugins.interop.java.json_members import double_text
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.interop.json.values import value_text
from headrace.plugins.java_text import base64_text, decimal_text
from headrace.plugins.schema import DATE, DECIMAL, INTEGER_BITS, TIMESTAMP, Schema, SchemaType, logical, scale

NULL_REFUSED: Final = "Conversion error: null value for field that is required and has no default value"


@dataclass(frozen=True)
class JsonWriter:
    """Writes values by the converter's settings."""

    replace_nulls: bool
    numeric: bool
    """True if decimals are written as numbers."""

    def payload(self, value: Column, schema: Schema | None, before: str, after: str) -> Column:
        """Return `before`, the value in JSON, and `after`; null if it has a null that is not allowed."""
        if schema is None:
            return F.concat(F.lit(before), value, F.lit(after))
        if schema.type is SchemaType.STRING and logical(schema) is None:
            written = quoted(value, before, after)
        else:
            written = F.concat(F.lit(before), self._text(value, schema), F.lit(after))
        null = self.null_text(schema)
        return written if null is None else F.when(value.isNull(), F.lit(before + null + after)).otherwise(written)

    def null_text(self, schema: Schema) -> str | None:
        """Return the JSON text of a null of this schema; None if a null is refused."""
        if schema.default is not None and self.replace_nulls:
            return value_text(schema, schema.default, self.numeric, self.replace_nulls)
        return "null" if schema.optional else None

    def member(self, value: Column, schema: Schema | None) -> Column:
        """Return the text of a value inside another."""
        assert schema is not None
        null, text = self.null_text(schema), self._text(value, schema)
        if null is None:
            return text
        # The text is also null if a null further inside is refused.
        return F.when(value.isNull(), F.lit(null)).otherwise(text)

    def _text(self, value: Column, schema: Schema) -> Column:
        """Return the text of a value that is not null."""
        kind = logical(schema)
        if kind == DECIMAL:
            return self._decimal(value, schema)
        if kind == DATE:
            return F.unix_date(value).cast("string")
        if kind == TIMESTAMP:
            return F.unix_millis(value).cast("string")
        match schema.type:
            case SchemaType.STRING:
                return quoted(value)
            case SchemaType.BYTES:
                return F.concat(F.lit('"'), base64_text(value), F.lit('"'))
            case SchemaType.FLOAT32 | SchemaType.FLOAT64:
                return double_text(value)
            case SchemaType.ARRAY:
                return self._array(value, schema)
            case SchemaType.MAP:
                return self.of_map(value, schema)
            case SchemaType.STRUCT:
                return self.of_struct(value, schema)
        return value.cast("string")

    def _decimal(self, value: Column, schema: Schema) -> Column:
        if self.numeric:
            return decimal_text(value, scale(schema))
        return F.concat(F.lit('"'), F.base64(bytes_of_decimal(value)), F.lit('"'))

    def of_struct(self, value: Column, schema: Schema) -> Column:
        """Return the text of a struct that may be null."""
        pieces: list[Column] = []
        for number, field in enumerate(schema.fields):
            pieces.append(F.lit(f"{',' if number else '{'}{json_string(field.name)}:"))
            pieces.append(self.member(value.getField(field.name), field.schema))
        text = F.concat(*pieces, F.lit("}")) if pieces else F.lit("{}")
        return F.when(value.isNotNull(), text)

    def _array(self, value: Column, schema: Schema) -> Column:
        item = schema.value_schema
        assert item is not None
        if (item.type in INTEGER_BITS and logical(item) is None) or item.type is SchemaType.BOOLEAN:
            null = self.null_text(item)
            text = F.concat(F.lit("["), F.array_join(value.cast("array<string>"), ",", null or "null"), F.lit("]"))
            return text if null is not None else F.when(~F.exists(value, lambda one: one.isNull()), text)
        return joined(F.transform(value, lambda one: self.member(one, item)), "[", "]")

    def of_map(self, value: Column, schema: Schema) -> Column:
        """Return the text of a map."""
        key, of = schema.key_schema, schema.value_schema
        assert key is not None
        if key.type is SchemaType.STRING:
            return joined(
                self._entries(value, lambda e: (quoted(e["key"]), ":", self.member(e["value"], of))), "{", "}"
            )
        pair = self._entries(value, lambda e: ("[", self.member(e["key"], key), ",", self.member(e["value"], of), "]"))
        return joined(pair, "[", "]")

    def _entries(self, value: Column, parts: Callable[[Column], tuple[Column | str, ...]]) -> Column:
        return F.transform(
            F.map_entries(value),
            lambda entry: F.concat(*(F.lit(part) if isinstance(part, str) else part for part in parts(entry))),
        )


def joined(texts: Column, before: str, after: str) -> Column:
    """Join the texts by commas; null if one of them is null."""

    def join(texts: Column) -> Column:
        text = F.concat(F.lit(before), F.array_join(texts, ","), F.lit(after))
        return F.when(~F.exists(texts, lambda one: one.isNull()), text)

    return let(texts, join)
