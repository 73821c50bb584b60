"""Connect values as text of Java's `String.valueOf`, by Spark expressions, for sinks of text.

| value | text |
|---|---|
| null | `null` |
| string | as it is |
| boolean, integers | `true`, `-3` |
| float, double | Java's `toString`: `1.0`, `1.0E10`, `NaN` |
| bytes | base64; Java's `[B@1a2b3c` is an address that differs from run to run |
| struct | `Struct{a=1,b=x}`, nulls left out |
| map | `{a=1, b=x}` |
| array | `[1, 2]` |
| schemaless | by its JSON type: text and numbers as above; objects and arrays stay JSON |
| Decimal | as `BigDecimal.toString`: `12.50`, `1.23E-7` |
| Date, Time, Timestamp | as `java.util.Date.toString` in UTC: `Thu Jan 01 00:00:00 UTC 1970` |

Decided: schemaless objects and arrays stay JSON, because Java orders a HashMap's text by hash codes and nothing parses
it; loses: lines equal to Apache's FileStreamSink, which writes `{a=[true], b=1}`. Decided: Spark's casts print numbers,
because they run the JVM's own `toString`; loses: nothing. Dates before 1582 are Gregorian; Java prints Julian ones.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.records import Records
from headrace.plugins.schema import DATE, DECIMAL, TIME, Schema, SchemaType, logical, scale

_INTEGER = r"^-?[0-9]+$"
_NUMBER = r"^-?[0-9]"
_JAVA_DATE = "EEE MMM dd HH:mm:ss 'UTC' yyyy"
_CONTAINERS = {SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP}
_MOST_DAYS = 106_000_000
"""Maximum distance in days from 1970 that Spark's timestamps hold."""


def java_text(column: Column, schema: Schema | None) -> Column:
    """Return the text of a value with this schema (None: schemaless, carried as JSON text); never null."""
    text = _schemaless(column) if schema is None else _text(column, schema)
    return F.coalesce(text, F.lit("null"))


def value_text(records: Records) -> Column:
    """Return each record's value as text by its own schema; `null` for a value without schema."""
    return F.coalesce(records.of_values(java_text), F.lit("null"))


def decimal_text(column: Column, scale: int) -> Column:
    """Return the text of a decimal of this scale, as `BigDecimal.toString`."""
    plain = column.cast("string")
    if scale <= 6:
        return plain
    digits = F.regexp_replace(F.replace(plain, F.lit("."), F.lit("")), r"^-?0*(?=[0-9])", "")
    exponent = F.length(digits) - F.lit(1 + scale)
    point = F.when(F.length(digits) > 1, F.lit(".")).otherwise(F.lit(""))
    mantissa = F.concat(F.substring(digits, 1, 1), point, F.substring(digits, 2, scale))
    # Not `column < 0`: Spark would compare fewer digits after the point, and take -1E-38 for 0.
    sign = F.when(plain.startswith("-"), F.lit("-")).otherwise(F.lit(""))
    scientific = F.concat(sign, mantissa, F.lit("E"), exponent.cast("string"))
    return F.when(exponent < -6, scientific).otherwise(plain)


def base64_text(column: Column) -> Column:
    """Return standard base64 in one line; Spark breaks lines after 76 characters."""
    return F.replace(F.base64(column), F.lit("\r\n"), F.lit(""))


def _date_text(column: Column, kind: str) -> Column:
    if kind == DATE:
        held = F.abs(F.unix_date(column)) < _MOST_DAYS
        text = F.date_format(F.when(held, column).cast("timestamp"), _JAVA_DATE)
        return F.coalesce(F.replace(text, F.lit("+"), F.lit("")), column.cast("string"))
    moment = F.timestamp_millis(column) if kind == TIME else column
    return F.replace(F.date_format(moment, _JAVA_DATE), F.lit("+"), F.lit(""))


def _text(column: Column, schema: Schema) -> Column:
    kind = logical(schema)
    if kind is not None:
        return decimal_text(column, scale(schema)) if kind == DECIMAL else _date_text(column, kind)
    if schema.type is SchemaType.STRING:
        return column
    if schema.type is SchemaType.BYTES:
        return base64_text(column)
    if schema.type is SchemaType.ARRAY:
        return F.concat(F.lit("["), _joined(column, _inner(schema.value_schema)), F.lit("]"))
    if schema.type is SchemaType.MAP:
        return F.concat(F.lit("{"), _joined(F.map_entries(column), _entry(schema)), F.lit("}"))
    if schema.type is SchemaType.STRUCT:
        return _struct(column, schema)
    return column.cast("string")


def _joined(items: Column, text: Callable[[Column], Column]) -> Column:
    return F.array_join(F.transform(items, text), ", ")


def _inner(schema: Schema | None) -> Callable[[Column], Column]:
    return lambda item: java_text(item, schema)


def _entry(schema: Schema) -> Callable[[Column], Column]:
    key, value = _inner(schema.key_schema), _inner(schema.value_schema)
    return lambda entry: F.concat(key(entry["key"]), F.lit("="), value(entry["value"]))


def _struct(column: Column, schema: Schema) -> Column:
    """Return the text of a struct without its nulls; here a null member's text is null."""
    members = [(f"{field.name}=", _text(column.getField(field.name), field.schema)) for field in schema.fields]
    any_null = F.concat(F.lit("Struct{"), F.concat_ws(",", *(F.concat(F.lit(n), t) for n, t in members)), F.lit("}"))
    inner = {field.schema.type for field in schema.fields}
    if not schema.fields or schema.fields[0].schema.optional or inner & _CONTAINERS:
        return F.when(column.isNotNull(), any_null)
    # One flat concatenation, because each nested one copies once more. Both forms name each member, so this is not used
    # for structs in structs: their size would double with each level.
    pieces = []
    for number, (field, (name, text)) in enumerate(zip(schema.fields, members, strict=True)):
        named = F.lit(("," if number else "Struct{") + name)
        pieces += [F.coalesce(F.concat(named, text), F.lit(""))] if field.schema.optional else [named, text]
    return F.when(column.isNotNull(), F.coalesce(F.concat(*pieces, F.lit("}")), any_null))


def _schemaless(column: Column) -> Column:
    json = F.trim(column)
    return (
        F.when(json.startswith('"'), F.get_json_object(json, "$"))
        .when(json.rlike(_INTEGER), json)
        .when(json.rlike(_NUMBER), json.try_cast("double").cast("string"))
        .otherwise(json)
    )
