"""Apache's ByteArrayConverter: bytes unchanged."""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.settings import Settings
from headrace.converters.settings import CONVERTER_TYPE
from headrace.plugins.contracts import Converter, Decoded
from headrace.plugins.interop.java.class_names import class_of_json
from headrace.plugins.schema import OPTIONAL_BYTES, Schema, SchemaType

_OBJECTS: Final = "ByteArrayConverter is not compatible with objects of type class "


class ByteArrayConverter(Converter):
    """Bytes in Kafka and in Connect; values of other types are errors."""

    settings: ClassVar[Settings] = Settings(CONVERTER_TYPE)
    version: ClassVar[str] = CONNECT_VERSION
    constant_identity = b""
    keeps_bytes = True

    def identify(self, data: Column) -> Column:
        """The same identity for all bytes."""
        return F.lit(self.constant_identity)

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """The schema of all data: optional bytes."""
        return OPTIONAL_BYTES

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The bytes, unchanged."""
        return Decoded(data, F.lit(None).cast("string"))

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """The bytes; a value of another type is an error."""
        nothing = F.lit(None).cast("binary")
        if schema is None:
            return Decoded(nothing, F.when(value.isNotNull(), F.concat(F.lit(_OBJECTS), class_of_json(value))))
        if schema.type is not SchemaType.BYTES:
            return Decoded(nothing, F.lit(f"Invalid schema type for ByteArrayConverter: {schema.type.name}"))
        return Decoded(value, F.lit(None).cast("string"))
