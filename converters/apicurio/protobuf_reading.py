"""Protobuf messages to Connect schemas as by Apicurio's ProtobufConverter, with the shapes to read them by.

A message is a struct of its full name, a well-known one such as google.protobuf.Timestamp too; an enum is a text.

Decided: a message that is not set, and a member of a oneof that is not, is null, while Apicurio's converter makes a
struct of defaults, or a default, because nobody could tell these from values that were sent; loses: nothing.
Decided: uint32 and fixed32 are INT64, while Apicurio's converter makes negative INT32 of what is above 2^31 - 1; loses:
the narrower column.
"""

from __future__ import annotations

from dataclasses import replace

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from headrace.converters.apicurio.protobuf_names import connect_name, entry_of, items_of, small_type
from headrace.converters.protobuf.settings import ProtobufOptions
from headrace.converters.protobuf.to_connect import SCALARS, Part, Walk, inside
from headrace.plugins.schema import Schema, SchemaType


def connect_part(message: Descriptor) -> Part:
    """The schema of a message, and the shape of its row. Errors: DataError for a message that contains itself."""
    return _Walk(ProtobufOptions(full_names=True, flatten_unions=True)).struct(message, ())


class _Walk(Walk):
    """The rules of Apicurio's converter that are its own."""

    optional_items = False

    def field_name(self, field: FieldDescriptor) -> str:
        return connect_name(field)

    def field_schema(self, field: FieldDescriptor, schema: Schema, nullable: bool) -> Schema:
        return replace(schema, optional=schema.optional or nullable)

    def is_nullable(self, field: FieldDescriptor) -> bool:
        is_message = field.message_type is not None and not field.is_repeated and not field.is_required
        return field.containing_oneof is not None or is_message

    def entry_of(self, field: FieldDescriptor) -> Descriptor | None:
        return entry_of(field)

    def map_name(self, entry: Descriptor) -> None:
        return None

    def scalar(self, field: FieldDescriptor) -> Part:
        type_, kind, _ = SCALARS[field.type]
        small = small_type(field)
        if type_ is SchemaType.INT32 and small is not None:
            return Part(Schema(small), {"kind": small.value})
        return Part(Schema(type_), {"kind": kind})

    def enum(self, enum: EnumDescriptor) -> Part:
        return Part(Schema(SchemaType.STRING), {"kind": "symbol"})

    def special(self, message: Descriptor, field: FieldDescriptor, around: tuple[str, ...]) -> Part | None:
        if (items := items_of(message)) is None:
            return None
        made = self.value(items, inside(message, around))
        return Part(made.schema, {"kind": "wrapped", "value": made.shape})
