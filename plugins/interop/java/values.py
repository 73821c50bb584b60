"""Connect values as text of Java's `Values.convertToString`, by Spark expressions.

| value | alone | inside an array, map or struct |
|---|---|---|
| null | null | `null` |
| string | as it is | `"a"`, with a backslash before `\\` and `"` |
| boolean, numbers | Java's `toString`: `true`, `-3`, `1.0E10`; decimals `1.50`, `1E-7` | the same |
| bytes | base64 | `"aGk="` |
| array, map, struct | `[1,"a"]`, `{"k":1}`, `{"field":1}` with defaults in place of nulls | the same |
| Date, Time, Timestamp | `2024-01-31`, `12:00:00.000Z`, `2024-01-31T12:00:00.000Z`, by the value alone | the same |
| schemaless | as its JSON value's kind above | the same |

As in Java, a date or timestamp before 2 January 1970 is printed as a time of day, and a timestamp at midnight as a
date.

Decided: UTC, because Connect prints a literal `Z` with the time of the process's own zone; loses: nothing if that is
UTC. Schemaless objects keep the order in which they were read, because Java's hash order means nothing.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.java_text import base64_text, decimal_text
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, literal, logical, scale

_DAY_MS: Final = 86_400_000


def values_text(column: Column, schema: Schema | None) -> Column:
    """Return the text of a value with this schema (None: schemaless, carried as JSON text); null for null."""
    return _json_text(column) if schema is None else _text(column, schema)


def _text(column: Column, schema: Schema) -> Column:
    kind = logical(schema)
    if kind is not None:
        return _logical_text(column, schema, kind)
    match schema.type:
        case SchemaType.STRING:
            return column
        case SchemaType.BYTES:
            return base64_text(column)
        case SchemaType.ARRAY:
            items = F.transform(column, lambda item: _embedded(item, schema.value_schema))
            return F.concat(F.lit("["), F.array_join(items, ","), F.lit("]"))
        case SchemaType.MAP:
            return F.concat(F.lit("{"), F.array_join(_entries(column, schema), ","), F.lit("}"))
        case SchemaType.STRUCT:
            return _struct(column, schema)
    return column.cast("string")


def _embedded(column: Column, schema: Schema | None) -> Column:
    """Return the text of a value inside another; never null."""
    if schema is None:
        return F.coalesce(_unescaped(column), F.lit("null"))
    text = _text(column, schema)
    if schema.type is SchemaType.STRING:
        text = _quoted(text)
    elif schema.type is SchemaType.BYTES and logical(schema) is None:
        text = F.concat(F.lit('"'), text, F.lit('"'))
    return F.coalesce(text, F.lit("null"))


def _entries(column: Column, schema: Schema) -> Column:
    def entry(pair: Column) -> Column:
        key = _embedded(pair.getField("key"), schema.key_schema)
        return F.concat(key, F.lit(":"), _embedded(pair.getField("value"), schema.value_schema))

    return F.transform(F.map_entries(column), entry)


def _struct(column: Column, schema: Schema) -> Column:
    members = []
    for number, field in enumerate(schema.fields):
        value = column.getField(field.name)
        if field.schema.default is not None:
            value = F.coalesce(value, literal(field.schema.default, field.schema))
        name = field.name.replace("\\", "\\\\").replace('"', '\\"')
        members += [F.lit(f'{"," if number else ""}"{name}":'), _embedded(value, field.schema)]
    return F.when(column.isNotNull(), F.concat(F.lit("{"), *members, F.lit("}")))


def _quoted(text: Column) -> Column:
    escaped = F.replace(F.replace(text, F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
    return F.concat(F.lit('"'), escaped, F.lit('"'))


def _logical_text(column: Column, schema: Schema, kind: str) -> Column:
    if kind == DECIMAL:
        return decimal_text(column, scale(schema))
    midnight = F.lit("00:00:00.000Z")
    if kind == DATE:
        return F.when(column < F.lit("1970-01-02").cast("date"), midnight).when(column.isNotNull(), _day(column))
    assert kind in (TIME, TIMESTAMP)
    moment = F.timestamp_millis(column) if kind == TIME else column
    ms = column if kind == TIME else F.unix_millis(column)
    return (
        F.when(ms < _DAY_MS, F.date_format(moment, "HH:mm:ss.SSS'Z'"))
        .when(ms % _DAY_MS == 0, _day(moment.cast("date")))
        .when(ms.isNotNull(), F.ltrim(F.date_format(moment, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"), F.lit("+")))
    )


def _day(date: Column) -> Column:
    """Print a date without the sign that Spark puts before years beyond 9999."""
    return F.ltrim(date.cast("string"), F.lit("+"))


def _json_text(json: Column) -> Column:
    """Return the text of a top-level JSON value."""
    unquoted = F.substring(json, F.lit(2), F.length(json) - 2)
    string = F.when(json.contains("\\"), F.coalesce(F.get_json_object(json, "$"), unquoted)).otherwise(unquoted)
    number = F.coalesce(json.try_cast("double").cast("string"), json)
    return (
        F.when(json.startswith('"'), string)
        .when(json.rlike(r"^-?[0-9]+[.eE]"), number)
        .when(json != "null", _unescaped(json))
    )


def _unescaped(json: Column) -> Column:
    """Return JSON text whose strings have no escapes but `\\\\` and `\\"`, as `Values` writes them.

    The whole text becomes the content of a JSON string in which those two stay escaped, and is parsed again.
    """
    pairs = F.replace(json, F.lit("\\\\"), F.lit("\\u005c\\u005c"))
    quotes = F.replace(pairs, F.lit('"'), F.lit('\\"'))
    content = F.replace(quotes, F.lit('\\\\"'), F.lit('\\u005c\\"'))
    read = F.get_json_object(F.concat(F.lit('"'), content, F.lit('"')), "$")
    return F.when(json.rlike(r'\\[^"\\]'), F.coalesce(read, json)).otherwise(json)
