"""Connect values as Java's `String.valueOf` prints them, by Spark expressions: what text sinks write.

| value | text |
|---|---|
| null | `null` |
| string | as it is |
| boolean, integers | `true`, `-3` |
| float, double | Java's `toString`: `1.0`, `1.0E10`, `NaN` |
| bytes | base64; Java's `[B@1a2b3c` is an address and differs from run to run |
| struct | `Struct{a=1,b=x}`, nulls left out |
| map | `{a=1, b=x}` |
| array | `[1, 2]` |
| schemaless | by its JSON type: text and numbers as above; objects and arrays stay JSON |

Decided: Spark's casts do the numbers, because they run the JVM's own `toString`; loses: nothing. Logical types
(Decimal, Date, …) print as the type that carries them until these have Spark types of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.schema import Schema, SchemaType

_INTEGER = r"^-?[0-9]+$"
_NUMBER = r"^-?[0-9]"


def java_text(column: Column, schema: Schema | None) -> Column:
    """The text of a value with this schema (None: schemaless, carried as JSON text); never null."""
    text = _schemaless(column) if schema is None else _text(column, schema)
    return F.coalesce(text, F.lit("null"))


def _text(column: Column, schema: Schema) -> Column:
    if schema.type is SchemaType.STRING:
        return column
    if schema.type is SchemaType.BYTES:
        # Spark breaks base64 into lines of 76.
        return F.replace(F.base64(column), F.lit("\r\n"), F.lit(""))
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
    # concat_ws leaves nulls out, and the text of a null member is null here.
    members = [
        F.concat(F.lit(f"{field.name}="), _text(column.getField(field.name), field.schema)) for field in schema.fields
    ]
    text = F.concat(F.lit("Struct{"), F.concat_ws(",", *members), F.lit("}"))
    return F.when(column.isNotNull(), text)


def _schemaless(column: Column) -> Column:
    json = F.trim(column)
    return (
        F.when(json.startswith('"'), F.get_json_object(json, "$"))
        .when(json.rlike(_INTEGER), json)
        .when(json.rlike(_NUMBER), json.try_cast("double").cast("string"))
        .otherwise(json)
    )
