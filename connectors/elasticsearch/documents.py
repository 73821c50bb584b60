"""Documents of values, as JSON, by Column expressions.

With `schema.ignore=false` a document fits the mapping that is made for it: decimals are numbers, dates milliseconds, a
map is an object or a list of objects. Otherwise it is what Apache's JsonConverter writes without schemas.

Decided: with a mapping a Date is written in milliseconds, because a field of the type date reads a number as such;
Confluent's connector writes days, which are then some seconds of 1970. Loses: equal documents for dates.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.java.json_members import double_text
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.interop.json.writing import JsonWriter
from headrace.plugins.schema import DATE, STRING, TIMESTAMP, Schema, SchemaType, logical

_DAY_MS = 86_400_000
_TIME_FIELD = "@timestamp"
_EMPTY = r"^\{\s*\}$"


@dataclass(frozen=True)
class MappedWriter(JsonWriter):
    """Writes values for a mapping of `mapping.py`."""

    compacts_maps: bool = True

    def _text(self, value: Column, schema: Schema) -> Column:
        if logical(schema) == DATE:
            return (F.unix_date(value).cast("long") * F.lit(_DAY_MS)).cast("string")
        return super()._text(value, schema)

    def _decimal(self, value: Column, schema: Schema) -> Column:
        return double_text(value.cast("double"))

    def of_map(self, value: Column, schema: Schema) -> Column:
        """An object or a list of entries, as the mapping has it."""
        key, of = schema.key_schema, schema.value_schema
        assert key is not None
        if self.compacts_maps and key.type is SchemaType.STRING:
            return super().of_map(value, schema)
        parts = self._entries(
            value,
            lambda e: ('{"key":', self.member(e["key"], key), ',"value":', self.member(e["value"], of), "}"),
        )
        texts = F.concat(F.lit("["), F.array_join(parts, ","), F.lit("]"))
        return F.when(~F.exists(parts, lambda one: one.isNull()), texts)


AS_JSON = JsonWriter(replace_nulls=True, numeric=False)
"""Writes values as the JsonConverter does by default."""


def document(value: Column, schema: Schema | None, writer: JsonWriter) -> Column:
    """The value as one line of JSON; null if there is no value, or if it has a null that its schema does not allow."""
    if schema is not None:
        return F.when(value.isNotNull(), writer.payload(value, schema, "", ""))
    # A line end is the end of a document, and in JSON it stands between tokens only.
    broken = F.contains(value, F.lit("\n")) | F.contains(value, F.lit("\r"))
    return F.when(broken, F.translate(value, "\n\r", "  ")).otherwise(value)


def with_time(text: Column, value: Column, schema: Schema | None, fields: tuple[str, ...], time: Column) -> Column:
    """The document `text` with an `@timestamp`, if it has none: the first of these fields that it has, else `time`."""
    if schema is not None and (schema.type is not SchemaType.STRUCT or schema.field(_TIME_FIELD) is not None):
        return text
    found = [one for name in fields if (one := _member(value, schema, name)) is not None]
    begin = F.concat(F.lit(f'{{"{_TIME_FIELD}":'), F.coalesce(*found, time.cast("string")))
    body = F.trim(text)
    rest = F.when(body.rlike(_EMPTY), F.lit("}")).otherwise(F.concat(F.lit(","), F.substr(body, F.lit(2))))
    timed = F.concat(begin, rest)
    if schema is not None:
        return timed
    has_time = F.get_json_object(text, f"$['{_TIME_FIELD}']").isNotNull()
    return F.when(body.startswith("{") & ~has_time, timed).otherwise(text)


def _member(value: Column, schema: Schema | None, name: str) -> Column | None:
    """The JSON of a document's field, null if it is not there; None if the schema has none."""
    if schema is None:
        return quoted(F.get_json_object(value, f"$['{name}']"))
    field = schema.field(name)
    if field is None:
        return None
    member = value.getField(name)
    if logical(field.schema) == TIMESTAMP:
        return F.unix_millis(member).cast("string")
    if field.schema.type is SchemaType.STRING:
        return quoted(member)
    if logical(field.schema) == DATE:
        return (F.unix_date(member).cast("long") * F.lit(_DAY_MS)).cast("string")
    return member.cast("string") if field.schema.type is SchemaType.INT64 else None


def field_text(value: Column, schema: Schema | None, path: tuple[str, ...]) -> Column:
    """The text of a field, by its path; null if it is not there, or neither text nor a number."""
    if schema is None:
        return F.get_json_object(value, "$" + "".join(f"['{name}']" for name in path))
    for name in path:
        field = schema.field(name) if schema.type is SchemaType.STRUCT else None
        if field is None:
            return F.lit(None).cast("string")
        value, schema = value.getField(name), field.schema
    is_text = schema.type in (STRING.type, SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)
    return value.cast("string") if is_text and logical(schema) is None else F.lit(None).cast("string")
