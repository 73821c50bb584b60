"""Apache's BooleanConverter and its converters of single numbers: big-endian bytes of one size.

Decided: Spark's Avro functions convert floats and doubles, because only they give a number's bits, lowest byte first;
loses: a copy. A double NaN always has Java's canonical bits, as in Java; a float NaN keeps its own.
"""

from __future__ import annotations

import json
import struct
from abc import abstractmethod
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from headrace import CONNECT_VERSION
from headrace.config.settings import Settings
from headrace.converters.settings import CONVERTER_TYPE
from headrace.plugins.contracts import Converter, DataError, Decoded
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.schema import Schema, SchemaType, logical, spark_type


class _OneSize(Converter):
    """Values of one type as bytes of one length; null for null."""

    settings: ClassVar[Settings] = Settings(CONVERTER_TYPE)
    version: ClassVar[str] = CONNECT_VERSION
    constant_identity = b""
    type: ClassVar[SchemaType]
    called: ClassVar[str]
    """The type's name in error messages."""
    packed: ClassVar[struct.Struct]
    """The bytes of a value."""

    def identify(self, data: Column) -> Column:
        return F.lit(self.constant_identity)

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        return Schema(self.type, optional=True)

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The value, or the error for bytes without one."""
        return Decoded(self.read(data), self.unreadable(data))

    def shown(self, data: bytes) -> str:
        """The value in JSON; NaN and infinities as Python has them."""
        if len(data) != self.packed.size:
            raise DataError(f"Failed to deserialize {self.called}: ")
        return json.dumps(self.packed.unpack(data)[0])

    @abstractmethod
    def unreadable(self, data: Column) -> Column:
        """Connect's message for bytes without such a value; null for all others and for null."""

    @abstractmethod
    def read(self, data: Column) -> Column:
        """The value; null for bytes without one."""


class BooleanConverter(_OneSize):
    """One byte, 1 or 0."""

    type = SchemaType.BOOLEAN
    called = "boolean"
    packed = struct.Struct("?")

    def shown(self, data: bytes) -> str:
        if data not in (b"\x00", b"\x01"):
            raise DataError(f"Failed to deserialize {self.called}: ")
        return super().shown(data)

    def unreadable(self, data: Column) -> Column:
        """The message for all data but the one byte 0 or 1; null for these and for null."""
        return F.when(~data.isin(b"\x00", b"\x01"), F.lit("Failed to deserialize boolean: "))

    def read(self, data: Column) -> Column:
        """True for the byte 1, false for the byte 0, null for all else."""
        return F.when(data == F.lit(b"\x01"), F.lit(True)).when(data == F.lit(b"\x00"), F.lit(False))

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """The byte; other schemas are errors, even of a null."""
        nothing = F.lit(None).cast("binary")
        if schema is None:
            refused = F.concat(
                F.lit("BooleanConverter is not compatible with objects of type class "), class_of_json(value)
            )
            boolean = F.when(value == "true", F.lit(b"\x01")).when(value == "false", F.lit(b"\x00"))
            return Decoded(boolean, F.when(value.isNotNull(), refused))
        if schema.type is not SchemaType.BOOLEAN:
            return Decoded(nothing, F.lit(f"Invalid schema type for BooleanConverter: {schema.type.name}"))
        return Decoded(F.when(value, F.lit(b"\x01")).when(~value, F.lit(b"\x00")), F.lit(None).cast("string"))


class _Number(_OneSize):
    """A number; only values of its own Java class are written."""

    size: ClassVar[int]

    def unreadable(self, data: Column) -> Column:
        return F.when(F.length(data) != self.size, F.lit(f"Failed to deserialize {self.called}: "))

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        nothing = F.lit(None).cast("binary")
        if schema is None:
            # Schemaless numbers are Longs or Doubles.
            found = class_of_json(value)
            own = found == class_of(Schema(self.type))
            data = F.when(own, self.write(value.try_cast(spark_type(Schema(self.type)))))
            return Decoded(data, F.when(value.isNotNull() & ~own, self._refused(found)))
        if schema.type is self.type and logical(schema) is None:
            return Decoded(self.write(value), F.lit(None).cast("string"))
        return Decoded(nothing, F.when(value.isNotNull(), self._refused(F.lit(class_of(schema)))))

    def _refused(self, found: Column) -> Column:
        return F.concat(F.lit(f"Failed to serialize to {self.called} (was class "), found, F.lit("): "))

    @abstractmethod
    def write(self, value: Column) -> Column:
        """The bytes of a number, null for null."""


class _Integer(_Number):
    def read(self, data: Column) -> Column:
        """The number of the hexadecimal digits, sign-extended to 64 bits."""
        digits = F.hex(F.when(F.length(data) == self.size, data))
        sign = F.when(digits >= "8", F.lit("F" * (16 - 2 * self.size))).otherwise(F.lit("0"))
        return F.conv(F.concat(sign, digits), 16, -10).try_cast(spark_type(Schema(self.type)))

    def write(self, value: Column) -> Column:
        """The bytes of the last hexadecimal digits; a negative number has those of all 64 bits."""
        wide = F.concat(F.lit("0" * (2 * self.size)), F.hex(value))
        return F.unhex(F.substring(wide, -2 * self.size, 2 * self.size))


class ShortConverter(_Integer):
    """Two bytes."""

    type = SchemaType.INT16
    called = "short"
    packed = struct.Struct(">h")
    size = 2


class IntegerConverter(_Integer):
    """Four bytes."""

    type = SchemaType.INT32
    called = "integer"
    packed = struct.Struct(">i")
    size = 4


class LongConverter(_Integer):
    """Eight bytes."""

    type = SchemaType.INT64
    called = "long"
    packed = struct.Struct(">q")
    size = 8


class _Floating(_Number):
    def read(self, data: Column) -> Column:
        """The number; Avro has its bytes in reverse order."""
        right = F.length(data) == self.size
        always = F.when(right, data).otherwise(F.lit(bytes(self.size)))
        return F.when(right, from_avro(_reversed(always), f'"{self.type}"'))

    def write(self, value: Column) -> Column:
        """The bytes of the number; Avro has them in reverse order."""
        usual = F.when(F.isnan(value), F.lit(float("nan"))).otherwise(value) if self.size == 8 else value
        always = F.coalesce(usual, F.lit(0.0).cast(spark_type(Schema(self.type))))
        return F.when(value.isNotNull(), _reversed(to_avro(always, f'"{self.type}"')))


class FloatConverter(_Floating):
    """Four bytes."""

    type = SchemaType.FLOAT32
    called = "float"
    packed = struct.Struct(">f")
    size = 4


class DoubleConverter(_Floating):
    """Eight bytes."""

    type = SchemaType.FLOAT64
    called = "double"
    packed = struct.Struct(">d")
    size = 8


def _reversed(data: Column) -> Column:
    return F.encode(F.reverse(F.decode(data, "ISO-8859-1")), "ISO-8859-1")
