"""Numbers and bytes from JSON's text in Spark's types, as Jackson and Java's `BigDecimal` read them.

Column expressions that never raise for data: a text without a value gives null.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.int64_bits import low_long, two_to_64
from headrace.plugins.schema import MOST_DIGITS, Schema, SchemaType, spark_type

NUMBER: Final = r"-?[0-9]++(?:\.[0-9]++)?(?:[eE][-+]?[0-9]{1,9}+)?"
"""A JSON number; Connect's Jackson allows leading zeros."""
TIME_END: Final = 86_400_000
"""The greatest Time that Connect allows."""
_SIGN_BYTES: Final = "^(?:(?:00)+(?=[0-7].)|(?:FF)+(?=[89A-F].))"
"""Leading bytes, in hex, of two's complement that only repeat the sign of the next byte."""


def floating(number: Column, schema: Schema) -> Column:
    """The number as float or double; Jackson's numbers have no negative zero."""
    kind = spark_type(schema)
    return number.try_cast(kind) + F.lit(0).cast(kind)


def integer(number: Column) -> Column:
    """A JSON number as Java's `longValue` gives it: no fraction, the low 64 bits; null beyond 38 digits."""
    plain_number = F.coalesce(
        F.when(~number.rlike("[eE]"), number),
        number.try_cast("decimal(38,10)").cast("string"),
        number.try_cast("decimal(38,0)").cast("string"),
    )
    whole = F.regexp_extract(plain_number, "^-?[0-9]+", 0)
    return F.when(number.rlike(r"^-?[0-9]{1,18}\z"), number.try_cast("long")).otherwise(low_long(whole))


def is_base64(text: Column) -> Column:
    """True if the text is base64 as converters write it."""
    return text.rlike(r"^[A-Za-z0-9+/]*+={0,2}\z") & (F.length(text) % 4 == 0)


def from_base64(text: Column) -> Column:
    """The bytes of a base64 text; null for any other."""
    return F.when(is_base64(text), F.try_to_binary(text, F.lit("base64")))


def decimal_of_bytes(data: Column, scale: int) -> Column:
    """The decimal of this scale with these bytes as unscaled value, in big-endian two's complement.

    Errors: null for no bytes, and for more digits than Spark holds.
    """
    sign = F.when(data >= F.lit(b"\x80"), F.lit("F")).otherwise(F.lit("0"))
    long = F.conv(F.lpad(F.hex(data), 16, sign), 16, -10)
    size = F.octet_length(data)
    return F.when(size.between(1, 8), _scaled(long, scale)).when(size > 8, _scaled(let(F.hex(data), _wide), scale))


def _wide(digits: Column) -> Column:
    """The number, as text, of these bytes in hex; up to 16 of them are significant."""
    sign = F.when(digits >= "8", F.lit("F")).otherwise(F.lit("0"))
    short = F.when(F.length(digits) <= 32, digits).otherwise(F.regexp_replace(digits, _SIGN_BYTES, ""))

    def number(digits: Column) -> Column:
        high = F.conv(F.substring(digits, 1, 16), 16, -10).try_cast("decimal(19,0)")
        low = F.conv(F.substring(digits, 17, 16), 16, 10).try_cast("decimal(20,0)")
        return F.when(F.length(digits) == 32, F.try_add(F.try_multiply(high, two_to_64()), low)).cast("string")

    return let(F.lpad(short, F.greatest(F.length(short), F.lit(32)), sign), number)


def _scaled(unscaled: Column, scale: int) -> Column:
    """The decimal of this scale with these digits (text); null if Spark cannot hold it."""
    kind = DecimalType(MOST_DIGITS, scale)
    return F.concat(unscaled, F.lit(f"E-{scale}")).try_cast(kind) if scale else unscaled.try_cast(kind)


def decimal_of_number(number: Column, scale: int) -> Column:
    """The decimal of a JSON number, extended to this scale; null if Spark cannot hold it without rounding."""
    kind = DecimalType(MOST_DIGITS, scale)
    fraction = F.regexp_extract(number, r"^-?[0-9]+\.([0-9]*?)0*\z", 1)
    finer = number.try_cast(DecimalType(MOST_DIGITS, min(scale + 12, MOST_DIGITS)))
    exact = F.when(number.rlike("[eE]"), finer == number.try_cast(kind)).otherwise(F.length(fraction) <= scale)
    return F.when(exact, number.try_cast(kind))


def is_floating(schema: Schema) -> bool:
    """True for FLOAT32 and FLOAT64."""
    return schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64)
