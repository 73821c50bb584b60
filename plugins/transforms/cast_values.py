"""Converts values between primitive types as Apache's Cast does; Column expressions that never raise.

| from | to | |
|---|---|---|
| integer | narrower integer | its low bits |
| float, double | int32, int64 | towards zero; the nearest value if out of range; 0 for NaN |
| float, double | int8, int16 | via int32 |
| decimal | integer | the low bits of its integer part |
| number | boolean | true if its integer part is not 0 |
| text | integer | digits with a sign, nothing else |
| text | float, double | Java's syntax: ` 1e3 `, `1.5f`, `NaN`, `Infinity`, `0x1p3` |
| text | boolean | true for `true` in any case |
| date, time, timestamp | any but text | its encoded number, as above |
| any | string | `values_text` |

Decided: a text's digits are ASCII, because Spark accepts no others; loses: digits of other scripts, which Java's
`parseInt` accepts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.json_members import boolean_of, double_of, double_text, long_of, string_of
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.interop.java.values import values_text
from headrace.plugins.schema import DECIMAL, NUMBERS, Schema, SchemaType, logical, spark_type
from headrace.plugins.transforms.logical_values import encoded

TARGETS: Final = (*NUMBERS, SchemaType.BOOLEAN, SchemaType.STRING)
_BITS: Final = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
_FLOATS: Final = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_INTEGER: Final = r"^[+-]?[0-9]+\z"
_JAVA_SPECIAL: Final = r"[0-9]|^[\x00-\x20]*+[+-]?(?:NaN|Infinity)[\x00-\x20]*\z"
"""Texts that are infinite or NaN in Java, too: a number out of range, or these two words in this case."""


class Casted(NamedTuple):
    """Result of a cast."""

    value: Column
    """Null for null, and if there is a message."""
    message: Column | None
    """Reason why a value cannot be cast, null if it can; None: all can."""


def not_castable(kind: SchemaType, *, to: bool = False) -> str:
    """Return Connect's message for a type that cannot be cast, or cast to."""
    types = ", ".join(one.name for one in TARGETS) + ("" if to else ", BYTES")
    return (
        f"Cast transformation does not support casting {'to' if to else 'from'} {kind.name}; "
        f"supported types are [{types}]"
    )


def cast_value(value: Column, schema: Schema, target: SchemaType) -> Casted:
    """Cast values of this schema."""
    made = _made(value, schema, target)
    if isinstance(made, str):
        return Casted(F.lit(None).cast(spark_type(Schema(target))), F.when(value.isNotNull(), F.lit(made)))
    can_fail = schema.type is SchemaType.STRING and target not in (SchemaType.STRING, SchemaType.BOOLEAN)
    return Casted(made, F.when(value.isNotNull() & made.isNull(), _out_of_range(value)) if can_fail else None)


def cast_json(json: Column, target: SchemaType) -> Column:
    """Cast schemaless values, given as JSON text.

    Shape: struct<json: string, message: string>: JSON text (`null` for `null`), and why it cannot be cast.
    """
    return let(json, lambda whole: let(_read(whole), lambda read: _cast_read(whole, read, target)))


def _read(json: Column) -> Column:
    """Parse the JSON as a text, an integer, a fraction or a boolean; the others are null."""
    kinds = {"text": string_of, "whole": long_of, "fraction": double_of, "truth": boolean_of}
    return F.struct(*(read(json).alias(name) for name, read in kinds.items()))


def _cast_read(json: Column, read: Column, target: SchemaType) -> Column:
    kinds = {"whole": SchemaType.INT64, "fraction": SchemaType.FLOAT64, "truth": SchemaType.BOOLEAN}
    from_text = cast_value(read["text"], Schema(SchemaType.STRING), target).value
    from_other = F.coalesce(*(cast_value(read[name], Schema(kind), target).value for name, kind in kinds.items()))
    cast = F.when(json.startswith('"'), from_text).otherwise(from_other)
    return let(cast, lambda value: _json_or_message(json, read["text"], value, target))


def _json_or_message(json: Column, text: Column, value: Column, target: SchemaType) -> Column:
    message = (
        F.when(json.startswith("["), F.lit(not_castable(SchemaType.ARRAY)))
        .when(json.startswith("{"), F.lit(not_castable(SchemaType.MAP)))
        .when((json != "null") & value.isNull(), _out_of_range(F.coalesce(text, json)))
    )
    made = F.when(json == "null", json).otherwise(_json(value, target))
    return F.struct(made.alias("json"), message.alias("message"))


def _out_of_range(text: Column) -> Column:
    return F.concat(F.lit("Value ("), text, F.lit(") was out of range for requested data type"))


def _json(value: Column, kind: SchemaType) -> Column:
    if kind is SchemaType.STRING:
        return quoted(value)
    return double_text(value) if kind in _FLOATS else value.cast("string")


def _made(value: Column, schema: Schema, target: SchemaType) -> Column | str:
    """Return the cast values, or the reason why none can be cast."""
    kind = logical(schema)
    if schema.type not in (*TARGETS, SchemaType.BYTES):
        return not_castable(schema.type)
    if target is SchemaType.STRING:
        return values_text(value, schema)
    if kind == DECIMAL:
        return _from_decimal(value, target)
    if schema.type is SchemaType.BYTES:
        return "Unexpected type in Cast transformation: class [B"
    if schema.type is SchemaType.STRING:
        return _from_text(value, target)
    number = encoded(value, schema)
    if target is SchemaType.BOOLEAN:
        return _truth(number, schema.type)
    if target in _FLOATS or schema.type is SchemaType.BOOLEAN:
        return number.cast(spark_type(Schema(target)))
    if schema.type in _FLOATS:
        return _low_bits(_whole(number, max(_BITS[target], 32)), max(_BITS[target], 32), target)
    return _low_bits(number, _BITS[schema.type], target)


def _low_bits(number: Column, bits: int, target: SchemaType) -> Column:
    """Cut an integer of `bits` bits to the target's."""
    if bits > _BITS[target]:
        shift = max(bits, 32) - _BITS[target]
        number = F.shiftright(F.shiftleft(number.cast("int") if bits < 32 else number, shift), shift)
    return number.cast(spark_type(Schema(target)))


def _whole(number: Column, bits: int) -> Column:
    kind, half = spark_type(Schema(SchemaType.INT32 if bits == 32 else SchemaType.INT64)), 2.0 ** (bits - 1)
    wide = number.cast("double")
    return (
        F.when((wide >= -half) & (wide < half), wide.cast(kind))
        .when(F.isnan(wide), F.lit(0).cast(kind))
        .when(wide > 0, F.lit(2 ** (bits - 1) - 1).cast(kind))
        .when(wide < 0, F.lit(-(2 ** (bits - 1))).cast(kind))
    )


def _truth(number: Column, kind: SchemaType) -> Column:
    if kind is SchemaType.BOOLEAN:
        return number
    return ~F.isnan(number) & (F.abs(number) >= 1) if kind in _FLOATS else number != 0


def _from_decimal(number: Column, target: SchemaType) -> Column:
    if target in _FLOATS:
        return number.cast(spark_type(Schema(target)))
    integer_part = F.substring_index(number.cast("string"), ".", 1)
    whole = F.coalesce(number.try_cast("long"), long_of(integer_part))
    return whole != 0 if target is SchemaType.BOOLEAN else _low_bits(whole, 64, target)


def _from_text(text: Column, target: SchemaType) -> Column:
    kind = spark_type(Schema(target))
    if target is SchemaType.BOOLEAN:
        return F.lower(text) == "true"
    if target in _BITS:
        return F.when(text.rlike(_INTEGER), text.try_cast(kind))
    number = text.try_cast(kind)
    # Spark also accepts `inf` and `nan`, in any case.
    special = F.isnan(number) | (F.abs(number) == float("inf"))
    return F.when(~special | text.rlike(_JAVA_SPECIAL), number)
