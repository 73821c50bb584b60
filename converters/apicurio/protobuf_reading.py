"""Protobuf messages to Connect schemas as by Apicurio's ProtobufConverter, with the shapes to read them by.

A message is a struct of its full name, a well-known one such as google.protobuf.Timestamp too; an enum is a text.

Decided: a message that is not set, and a member of a oneof that is not, is null, while Apicurio's converter makes a
struct of defaults, or a default, because nobody could tell these from values that were sent; loses: nothing.
Decided: uint32 and fixed32 are INT64, while Apicurio's converter makes negative INT32 of what is above 2^31 - 1; loses:
the narrower column.
Decided: a message that contains itself is refused, because Spark has no type for its values; loses: such records, which
Apicurio's converter cannot read either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headrace.converters.apicurio.protobuf_names import connect_name, entry_of, items_of, small_type
from headrace.converters.protobuf.to_connect import MOST_FIELDS, SCALARS, Part
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import Field, Schema, SchemaType


def connect_part(message: Descriptor) -> Part:
    """The schema of a message, and the shape of its row. Errors: DataError for a message that contains itself."""
    return _Reading().struct(message, ())


class _Reading:
    """Makes the parts of one schema."""

    def __init__(self) -> None:
        self._fields = 0

    def struct(self, message: Descriptor, around: tuple[str, ...]) -> Part:
        """The part of a message within those named in `around`."""
        if message.full_name in around:
            raise DataError(f"The Protobuf message {message.full_name} contains itself, for which Spark has no type")
        self._fields += len(message.fields) + 1
        if self._fields > MOST_FIELDS:
            raise DataError(f"The Protobuf schema has more than {MOST_FIELDS} fields")
        inside = (*around, message.full_name)
        parts = [(connect_name(field), self._member(field, inside)) for field in message.fields]
        if len({name for name, _ in parts}) < len(parts):
            raise DataError(f"The message {message.full_name} has two fields of one name in Connect")
        fields = tuple(Field(name, part.schema) for name, part in parts)
        members = [part.shape for _, part in parts]
        schema = Schema(SchemaType.STRUCT, name=message.full_name, fields=fields)
        return Part(schema, {"kind": "struct", "members": members})

    def _member(self, field: FieldDescriptor, around: tuple[str, ...]) -> Part:
        made = self._value(field, around)
        is_message = field.message_type is not None and not field.is_repeated and not field.is_required
        nullable = field.containing_oneof is not None or is_message
        schema = replace(made.schema, optional=made.schema.optional or nullable)
        return Part(schema, {"number": field.number, "nullable": nullable, "value": made.shape})

    def _value(self, field: FieldDescriptor, around: tuple[str, ...]) -> Part:
        if (entry := entry_of(field)) is not None:
            return self._map(entry, around)
        made = self._one(field, around)
        if not field.is_repeated:
            return made
        schema = Schema(SchemaType.ARRAY, optional=True, value_schema=made.schema)
        return Part(schema, {"kind": "list", "item": made.shape})

    def _map(self, entry: Descriptor, around: tuple[str, ...]) -> Part:
        inside = (*around, entry.full_name)
        key, value = (self._one(entry.fields_by_name[name], inside) for name in ("key", "value"))
        schema = Schema(SchemaType.MAP, optional=True, key_schema=key.schema, value_schema=value.schema)
        shape: Mapping[str, Any] = {"kind": "map", "key": key.shape, "value": value.shape}
        return Part(schema, shape)

    def _one(self, field: FieldDescriptor, around: tuple[str, ...]) -> Part:
        """The part of one value of a field."""
        if field.enum_type is not None:
            return Part(Schema(SchemaType.STRING), {"kind": "symbol"})
        if field.message_type is None:
            return _scalar(field)
        if (items := items_of(field.message_type)) is None:
            return self.struct(field.message_type, around)
        if field.message_type.full_name in around:
            raise DataError(f"The Protobuf message {field.message_type.full_name} contains itself")
        made = self._value(items, (*around, field.message_type.full_name))
        return Part(made.schema, {"kind": "wrapped", "value": made.shape})


def _scalar(field: FieldDescriptor) -> Part:
    type_, kind, _ = SCALARS[field.type]
    small = small_type(field)
    if type_ is SchemaType.INT32 and small is not None:
        return Part(Schema(small), {"kind": small.value})
    return Part(Schema(type_), {"kind": kind})
