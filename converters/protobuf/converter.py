"""Confluent's ProtobufConverter: Protobuf in Kafka, with its schemas in a schema registry.

After the bytes that name the schema come the indexes of the message type: their count and each of them, as zigzag
varints; the single byte 0 stands for the first type of the file.

Decided: an integer that its Protobuf type does not hold is refused, while Confluent's converter cuts its bits off;
loses: such records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import MessageToJson
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headrace.config.settings import Settings
from headrace.converters.protobuf.compatibility import breaks
from headrace.converters.protobuf.compiling import bundle, compiled
from headrace.converters.protobuf.from_connect import ProtoText, proto_text
from headrace.converters.protobuf.indexes import head_length, indexes_after, indexes_of_bytes
from headrace.converters.protobuf.messages import all_messages, file_of, indexes_of, message_at
from headrace.converters.protobuf.names import WRAPPERS
from headrace.converters.protobuf.settings import PROTOBUF_SETTINGS, ProtobufOptions, protobuf_options
from headrace.converters.protobuf.to_connect import Part, connect_part, raw_part
from headrace.converters.protobuf.writing import raw_shape, struct_shape, with_defaults
from headrace.converters.registry.converter import UNREADABLE, RegistryConverter, RegistrySchema, Writing
from headrace.plugins.contracts import DataError, Decoded
from headrace.plugins.interop.protobuf.codec import ProtobufReader, ProtobufWriter, Shape, head
from headrace.plugins.quick_decoding import Parts, Step
from headrace.plugins.schema import Schema, SchemaType, spark_type


@dataclass(frozen=True)
class _Reading:
    """The way in which the bytes of one identity are read."""

    files: bytes
    message: str
    shape: Shape
    row: StructType
    is_raw: bool
    start: int
    topic: str

    def reader(self) -> ProtobufReader:
        """The reader in the running JVM."""
        return ProtobufReader(self.files, self.message, self.shape, self.row, self.start)

    def value(self, row: Column) -> Column:
        """The value in a row that was read."""
        return row.getField("value") if self.is_raw else row


class ProtobufConverter(RegistryConverter[Descriptor]):
    """Protobuf after the bytes that name its schema, and the indexes of its message type."""

    settings: ClassVar[Settings] = PROTOBUF_SETTINGS
    kind = "PROTOBUF"
    title = "ProtobufConverter"
    cannot_read = "Failed to deserialize data for topic {topic} to Protobuf: "
    cannot_write = "Failed to serialize Protobuf data from topic {topic} : "
    names_types = False
    """True if a message with the type's name stands before a value, False if the type's indexes do."""

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Reads the settings; sends no request to the registry. Errors: ConfigError."""
        super().configure(config, is_key)
        self._options = self.options()
        self._readings: dict[bytes, _Reading] = {}

    def options(self) -> ProtobufOptions:
        """The options in the settings. Errors: ConfigError."""
        return protobuf_options(self._values)

    def merged(self, text: str, referenced: Sequence[tuple[str, str]]) -> str:
        """The schema and the files that it imports, as one text."""
        return bundle(text, referenced)

    def identify(self, data: Column) -> Column:
        """The bytes that name the schema and the message type."""
        return head(data, [(form.start, form.length) for form in self.schemas.framing.forms], self.names_types)

    def matches(self, data: Column, identity: bytes) -> Column:
        """Compares the first bytes."""
        if identity == UNREADABLE:
            return self.identify(data) == F.lit(UNREADABLE)
        return F.startswith(data, F.lit(identity))

    def read_text(self, text: str, identity: bytes) -> RegistrySchema[Descriptor]:
        """The message type that the bytes name."""
        message, _ = self.type_after(text, identity[self.schemas.framing.length(identity) :])
        return RegistrySchema(text, message, message.full_name)

    def type_after(self, text: str, data: bytes) -> tuple[Descriptor, int]:
        """The message type that these bytes begin with, and how many of them name it. Errors: DataError."""
        return message_at(file_of(text), indexes_of_bytes(data)), head_length(data)

    def type_bytes(self, message: Descriptor) -> bytes:
        """The bytes that name a message type, as `type_after` reads them."""
        return indexes_after(indexes_of(message))

    def reading(
        self, found: RegistrySchema[Descriptor], version: int | None, identity: bytes, topic: str
    ) -> Schema | None:
        """The Connect schema of the message, or of the value in a wrapper."""
        part, is_raw = self.part_of(found.form, version)
        files = compiled(found.text).SerializeToString()
        row = _row_type(part.schema, is_raw)
        self._readings[identity] = _Reading(files, found.form.full_name, part.shape, row, is_raw, len(identity), topic)
        return part.schema

    def part_of(self, message: Descriptor, version: int | None) -> tuple[Part, bool]:
        """The Connect schema of a message and the shape of its row; true if the row holds the value of a wrapper."""
        is_raw = message.full_name in WRAPPERS and self._options.raw_wrappers
        return (raw_part if is_raw else connect_part)(message, self._options, version), is_raw

    def quick_steps(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """The step that reads the row."""
        reader = self._readings[identity].reader()
        return [lambda data, _: {"row": reader.read(data)}]

    def quick_decode(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column | None:
        """The value in the row; null for bytes without one."""
        return self._readings[identity].value(parts["row"])

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The values."""
        known = self._readings[identity]
        reader = known.reader()
        failed = self.cannot_read.format(topic=known.topic)
        fault = F.concat(F.lit(f"{failed}{known.message}: "), reader.fault(data))
        return Decoded(known.value(reader.read(data)), fault)

    def shown(self, data: bytes) -> str:
        """The value in Protobuf's JSON."""
        prefix, text = self.named_text(data)
        rest = data[len(prefix) :]
        message, length = self.type_after(text, rest)
        try:
            value = GetMessageClass(message).FromString(rest[length:])
            return MessageToJson(value, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
        except Exception as error:  # any kind: schema and bytes may be anything
            raise DataError(f"The bytes do not follow their schema: {type(error).__name__}: {error}") from error

    def own_schema(self, schema: Schema | None) -> RegistrySchema[Descriptor]:
        """The schema that values are registered with."""
        made = self.text_of(schema)
        found = {message.full_name: message for message in all_messages(file_of(made.text))}
        return RegistrySchema(made.text, found[made.message], made.message)

    def text_of(self, schema: Schema | None) -> ProtoText:
        """The text of a file with a message for values of a Connect schema. Errors: DataError."""
        return proto_text(schema, self._options)

    def shape_of(self, schema: Schema, message: Descriptor) -> Shape:
        """The shape to write rows of a Connect schema by, in this message. Errors: DataError."""
        is_raw = schema.type is not SchemaType.STRUCT
        return (raw_shape if is_raw else struct_shape)(schema, message, self._options)

    def incompatible(self, found: str, own: RegistrySchema[Descriptor]) -> str | None:
        """The first break of the registry's rules."""
        return next(breaks(_message_in(found, own.form), own.form), None)

    def writing(self, schema: Schema | None, own: RegistrySchema[Descriptor], found: str | None) -> Writing:
        """Writes by Java."""
        assert schema is not None
        message = own.form if found is None else _message_in(found, own.form)
        shape = self.shape_of(schema, message)
        files = compiled(own.text if found is None else found).SerializeToString()
        row = self._row_maker(schema, schema.type is not SchemaType.STRUCT)

        def writer() -> ProtobufWriter:
            return ProtobufWriter(files, message.full_name, shape, self.type_bytes(message))

        def error(topic: Column, value: Column) -> Column:
            before, after = self.cannot_write.split("{topic}")
            return F.concat(F.lit(before), topic, F.lit(after), writer().fault(row(value)))

        return Writing(lambda value: writer().write(row(value)), error)

    def _row_maker(self, schema: Schema, is_raw: bool) -> Callable[[Column], Column]:
        def row(value: Column) -> Column:
            filled = value if self._options.keep_nulls else with_defaults(value, schema)
            made = F.struct(filled.alias("value")) if is_raw else filled
            return made.cast(_row_type(schema, is_raw))

        return row


def _row_type(schema: Schema, is_raw: bool) -> StructType:
    made = spark_type(schema)
    if is_raw:
        return StructType([StructField("value", made)])
    assert isinstance(made, StructType)
    return made


def _message_in(text: str, own: Descriptor) -> Descriptor:
    """The message of a registered schema for values of `own`: of its name, or the only one. Errors: DataError."""
    messages = all_messages(file_of(text))
    named = [one for one in messages if one.full_name == own.full_name]
    if not named and len(messages) != 1:
        raise DataError(f"The registered schema has no message {own.full_name}")
    return (named or messages)[0]
