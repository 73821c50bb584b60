"""Low bits of integers, as of Java's casts and `longValue`; Column expressions that never raise for data."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.schema import INTEGER_BITS, Schema, spark_type


def low_bits(number: Column, schema: Schema) -> Column:
    """Cut a long to the bits of the schema's type."""
    spare = 64 - INTEGER_BITS[schema.type]
    shifted = F.shiftright(F.shiftleft(number, spare), spare) if spare else number
    return shifted.cast(spark_type(schema))


def low_long(digits: Column) -> Column:
    """Return the low bits of an integer's text as a long; null beyond 38 digits."""
    return let(F.pmod(digits.try_cast("decimal(38,0)"), two_to_64()), _signed)


def _signed(unsigned: Column) -> Column:
    """Return the long with this bit pattern, a decimal of up to 64 bits."""
    negative = unsigned >= F.lit(str(2**63)).cast("decimal(20,0)")
    return F.when(negative, unsigned - two_to_64()).otherwise(unsigned).try_cast("long")


def two_to_64() -> Column:
    """Return 2**64 as a decimal."""
    return F.lit(str(2**64)).cast("decimal(20,0)")
