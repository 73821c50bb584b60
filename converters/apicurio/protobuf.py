"""Apicurio's ProtobufConverter: Protobuf in Apicurio's framing, with the name or the indexes of the message type.

After the id comes a message with the type's name, its length before it; with `send-indexes` and `read-indexes` the
indexes of the type come in its place, as in Confluent's framing. A record with its id in a header has the type's name
in another one: there 2.x writes no name before the value, and 3.x does; both are read.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.proto import parse_length_prefixed, serialize_length_prefixed
from google.protobuf.wrappers_pb2 import StringValue
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError
from headrace.config.settings import Problem, Settings
from headrace.converters.apicurio.connection import OWN
from headrace.converters.apicurio.framing import ApicurioFraming, forms, last_header
from headrace.converters.apicurio.protobuf_names import with_marks
from headrace.converters.apicurio.protobuf_reading import connect_part
from headrace.converters.apicurio.protobuf_writing import proto_text, struct_shape
from headrace.converters.apicurio.schemas import ApicurioConverter
from headrace.converters.apicurio.settings import APICURIO_SETTINGS, ApicurioOptions
from headrace.converters.protobuf.converter import ProtobufConverter
from headrace.converters.protobuf.from_connect import ProtoText
from headrace.converters.protobuf.messages import all_messages, file_of
from headrace.converters.protobuf.settings import ProtobufOptions
from headrace.converters.protobuf.to_connect import Part
from headrace.converters.registry.converter import RegistrySchema, Writing
from headrace.converters.registry.schema_settings import flag
from headrace.converters.registry.schemas import Schemas
from headrace.converters.settings import CONVERTER_TYPE
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.protobuf.codec import Shape
from headrace.plugins.schema import Schema

_SERDE: Final = f"{OWN}serde."
_LONGEST: Final = 125
"""Bytes of a name with which its message takes one byte for its length."""


class ApicurioProtobufConverter(ApicurioConverter[Descriptor], ProtobufConverter):
    """Protobuf after the bytes of an id and of the message type."""

    settings: ClassVar[Settings] = (
        Settings(
            CONVERTER_TYPE,
            flag(f"{_SERDE}send-type-ref", True, "Write the name of the message type before a value."),
            flag(f"{_SERDE}read-type-ref", True, "Read the name of the message type before a value."),
            flag(f"{_SERDE}send-indexes", False, "Write the indexes of the message type, as Confluent's converter."),
            flag(f"{_SERDE}read-indexes", False, "Read the indexes of the message type, as Confluent's converter."),
        )
        + APICURIO_SETTINGS
    )
    media_type = "application/x-protobuf"

    def make_schemas(self, config: Mapping[str, str], side: str) -> Schemas:
        """The schemas in the configured registry. Errors: ConfigError."""
        self.names_types = self._has_names("read")
        self._sends_names = self._has_names("send")
        return super().make_schemas(config, side)

    def _has_names(self, way: str) -> bool:
        """True if the type's name stands before a value, False if its indexes do. Errors: ConfigError."""
        by_name: bool = self._values[f"{_SERDE}{way}-type-ref"]
        if by_name == self._values[f"{_SERDE}{way}-indexes"]:
            what = f"One of {_SERDE}{way}-type-ref and {_SERDE}{way}-indexes must be true, and the other false."
            raise ConfigError(Problem(f"{_SERDE}{way}-indexes", str(by_name).lower(), what))
        return by_name

    def framing_of(self, options: ApicurioOptions, side: str) -> ApicurioFraming:
        """The bytes that name a schema, and the header that names the type."""
        named = forms(options.sizes, options.headers is not None)
        header = f"apicurio.protobuf.type{'.key' if side == 'key' else ''}"
        return _ProtobufFraming(named, options.use, options.headers, header if self.names_types else None)

    def options(self) -> ProtobufOptions:
        """Confluent's defaults, as far as they count here."""
        return ProtobufOptions()

    def read_text(self, text: str, identity: bytes) -> RegistrySchema[Descriptor]:
        """The message type that the bytes name."""
        return super().read_text(with_marks(text), identity)

    def type_after(self, text: str, data: bytes) -> tuple[Descriptor, int]:
        """The message type that these bytes begin with, and how many of them name it. Errors: DataError."""
        text = with_marks(text)
        if not self.names_types:
            return super().type_after(text, data)
        given = io.BytesIO(data)
        try:
            named = parse_length_prefixed(StringValue, given)
        except (DecodeError, ValueError, EOFError) as error:
            raise DataError("The bytes name no message type") from error
        if named is None:
            raise DataError("The bytes name no message type")
        for message in all_messages(file_of(text)):
            if message.name == named.value:
                return message, given.tell()
        raise DataError(f"The Protobuf schema has no message {named.value}")

    def type_bytes(self, message: Descriptor) -> bytes:
        """The bytes that name a message type."""
        if not self._sends_names:
            return super().type_bytes(message)
        made = io.BytesIO()
        serialize_length_prefixed(StringValue(value=message.name), made)
        return made.getvalue()

    def part_of(self, message: Descriptor, version: int | None) -> tuple[Part, bool]:
        """The Connect schema of a message and the shape of its row."""
        return connect_part(message), False

    def text_of(self, schema: Schema | None) -> ProtoText:
        """The text of a file with a message for values of a Connect schema."""
        return proto_text(schema)

    def shape_of(self, schema: Schema, message: Descriptor) -> Shape:
        """The shape to write rows of a Connect schema by."""
        return struct_shape(schema, message)

    def incompatible(self, found: str, own: RegistrySchema[Descriptor]) -> str | None:
        """The first break of the registry's rules."""
        return super().incompatible(with_marks(found), own)

    def writing(self, schema: Schema | None, own: RegistrySchema[Descriptor], found: str | None) -> Writing:
        """Writes by Java."""
        return super().writing(schema, own, None if found is None else with_marks(found))


@dataclass(frozen=True)
class _ProtobufFraming(ApicurioFraming):
    """Puts the type's name of a header before a value that does not begin with it."""

    type_header: str | None

    def body(self, data: Column, headers: Column) -> Column:
        """The value after the name of its type."""
        if self.type_header is None:
            return data
        name = last_header(headers, self.type_header)
        size = F.octet_length(name)
        reference = F.concat(_byte(size + F.lit(2)), F.lit(b"\x0a"), _byte(size), name)
        named = F.when(F.startswith(data, reference), data).otherwise(F.concat(reference, data))
        return F.when(size <= F.lit(_LONGEST), named).otherwise(data)


def _byte(number: Column) -> Column:
    return F.unhex(F.lpad(F.hex(number), 2, "0"))
