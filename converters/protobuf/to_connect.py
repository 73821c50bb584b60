"""Protobuf messages to Connect schemas, with the shapes to read them by (`plugins/interop/protobuf/codec.py`).

`Walk` does it as Confluent's converter; what Apicurio's does otherwise is in `converters/apicurio/protobuf_reading.py`.

Decided: a message that contains itself is refused, google.protobuf.Struct among them, because Spark has no type for its
values; loses: such records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from headrace.converters.protobuf.messages import parameters
from headrace.converters.protobuf.names import (
    DATE_TYPE,
    DECIMAL_TYPE,
    ENUM,
    TAG,
    TIME_TYPE,
    TIMESTAMP_TYPE,
    TYPE,
    UNION,
    WRAPPERS,
)
from headrace.converters.protobuf.settings import ProtobufOptions
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.tree import PRECISION
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType

_MOST_FIELDS: Final = 10_000
_SCALE: Final = re.compile(r"-?[0-9]{1,9}")
_BEFORE_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_F = FieldDescriptor
SCALARS: Final[Mapping[int, tuple[SchemaType, str, str | None]]] = {
    _F.TYPE_INT32: (SchemaType.INT32, "plain", None),
    _F.TYPE_SINT32: (SchemaType.INT32, "plain", "sint32"),
    _F.TYPE_SFIXED32: (SchemaType.INT32, "plain", "sfixed32"),
    _F.TYPE_UINT32: (SchemaType.INT64, "unsigned32", "uint32"),
    _F.TYPE_FIXED32: (SchemaType.INT64, "unsigned32", "fixed32"),
    _F.TYPE_INT64: (SchemaType.INT64, "plain", None),
    _F.TYPE_SINT64: (SchemaType.INT64, "plain", "sint64"),
    _F.TYPE_UINT64: (SchemaType.INT64, "plain", "uint64"),
    _F.TYPE_FIXED64: (SchemaType.INT64, "plain", "fixed64"),
    _F.TYPE_SFIXED64: (SchemaType.INT64, "plain", "sfixed64"),
    _F.TYPE_FLOAT: (SchemaType.FLOAT32, "plain", None),
    _F.TYPE_DOUBLE: (SchemaType.FLOAT64, "plain", None),
    _F.TYPE_BOOL: (SchemaType.BOOLEAN, "plain", None),
    _F.TYPE_STRING: (SchemaType.STRING, "text", None),
    _F.TYPE_BYTES: (SchemaType.BYTES, "bytes", None),
}
"""Connect's type of each scalar, the kind of its shape, and the parameter that keeps its own type."""
_SMALL: Final = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}
_MOMENTS: Final = {
    TIMESTAMP_TYPE: (Schema(SchemaType.INT64, name=TIMESTAMP, version=1), "timestamp"),
    DATE_TYPE: (Schema(SchemaType.INT32, name=DATE, version=1), "date"),
    TIME_TYPE: (Schema(SchemaType.INT32, name=TIME, version=1), "time"),
}

_WITHOUT_DEFAULT: Final = (DATE_TYPE, DECIMAL_TYPE)
"""Messages whose fields of zeros hold no value: no date is the day 0, no Decimal has no bytes."""


@dataclass(frozen=True)
class Part:
    """A Connect schema and the shape to read its values by."""

    schema: Schema
    shape: Mapping[str, Any]


Member = tuple[Field, Mapping[str, Any]]
"""A field of a struct, and its shape."""


def connect_part(message: Descriptor, options: ProtobufOptions, version: int | None) -> Part:
    """The schema of a message, and the shape of its row. Errors: DataError for a message that contains itself."""
    made = Walk(options).struct(message, ())
    return replace(made, schema=replace(made.schema, version=version))


def raw_part(message: Descriptor, options: ProtobufOptions, version: int | None) -> Part:
    """The schema of the value in a wrapper; the shape is that of a row with this value."""
    part = Walk(options).scalar(message.fields[0])
    member = {"number": 1, "nullable": False, "value": part.shape}
    return Part(replace(part.schema, version=version, optional=True), {"kind": "struct", "members": [member]})


def entry_of(field: FieldDescriptor) -> Descriptor | None:
    """The entries of a repeated field that is a map, or a list of messages that look like a map's entries."""
    entry = field.message_type
    if not field.is_repeated or entry is None or not entry.name.endswith("Entry"):
        return None
    return entry if [one.name for one in entry.fields] == ["key", "value"] else None


def real_oneofs(message: Descriptor) -> list[OneofDescriptor]:
    """The oneofs that stand in the text; the keyword optional makes others."""
    keyword = optional_fields(message)
    return [one for one in message.oneofs if not keyword.intersection(field.name for field in one.fields)]


def optional_fields(message: Descriptor) -> set[str]:
    """The fields of proto3 with the keyword optional."""
    declared = DescriptorProto()
    message.CopyToProto(declared)
    return {field.name for field in declared.field if field.proto3_optional}


def is_proto2(message: Descriptor) -> bool:
    """True if the message's file has the syntax proto2."""
    return FileDescriptorProto.FromString(message.file.serialized_pb).syntax in ("", "proto2")


class Walk:
    """Makes the parts of one schema; a subclass overrides what another converter does in its own way.

    `around`: the full names of the messages that the present one is in.
    """

    optional_items = True
    """True if the items of all lists are optional."""

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._fields = 0

    def struct(self, message: Descriptor, around: tuple[str, ...]) -> Part:
        """The part of a message. Errors: DataError for one that contains itself or is too large."""
        self._fields += len(message.fields) + 1
        if self._fields > _MOST_FIELDS:
            raise DataError(f"The Protobuf schema has more than {_MOST_FIELDS} fields")
        members = self._members(message, inside(message, around))
        fields = tuple(field for field, _ in members)
        if len({field.name for field in fields}) < len(fields):
            raise DataError(f"The message {message.full_name} has two fields of one name in Connect")
        name = message.full_name if self._options.full_names else message.name
        schema = Schema(SchemaType.STRUCT, name=name, fields=fields)
        return Part(schema, {"kind": "struct", "members": [shape for _, shape in members]})

    def _members(self, message: Descriptor, around: tuple[str, ...]) -> Sequence[Member]:
        unions = [] if self._options.flatten_unions else real_oneofs(message)
        taken = {field.name for one in unions for field in one.fields}
        alone = [field for field in message.fields if field.name not in taken]
        return [
            *(self._union(one, number, around) for number, one in enumerate(unions)),
            *(self._member(field, around, self.is_nullable(field)) for field in alone),
        ]

    def _union(self, one: OneofDescriptor, number: int, around: tuple[str, ...]) -> Member:
        members = [self._member(field, around, nullable=True) for field in one.fields]
        fields = tuple(field for field, _ in members)
        schema = Schema(SchemaType.STRUCT, optional=True, name=f"{UNION}.{one.name}", fields=fields)
        name = f"{one.name}_{number}" if self._options.number_unions else one.name
        return Field(name, schema), {"union": [shape for _, shape in members]}

    def _member(self, field: FieldDescriptor, around: tuple[str, ...], nullable: bool) -> Member:
        made = self.value(field, around)
        shape = {"number": field.number, "nullable": nullable, "value": made.shape}
        return Field(self.field_name(field), self.field_schema(field, made.schema, nullable)), shape

    def value(self, field: FieldDescriptor, around: tuple[str, ...]) -> Part:
        """The part of what a field holds."""
        if (entry := self.entry_of(field)) is not None:
            return self._map(entry, inside(entry, around))
        made = self._one(field, around)
        if not field.is_repeated:
            return made
        item = replace(made.schema, optional=made.schema.optional or self.optional_items)
        return Part(Schema(SchemaType.ARRAY, optional=True, value_schema=item), {"kind": "list", "item": made.shape})

    def _map(self, entry: Descriptor, around: tuple[str, ...]) -> Part:
        (key, of_key), (value, of_value) = (self._member(field, around, nullable=False) for field in entry.fields)
        name = self.map_name(entry)
        schema = Schema(SchemaType.MAP, optional=True, name=name, key_schema=key.schema, value_schema=value.schema)
        return Part(schema, {"kind": "map", "key": of_key["value"], "value": of_value["value"]})

    def _one(self, field: FieldDescriptor, around: tuple[str, ...]) -> Part:
        """The part of one value of a field."""
        if field.enum_type is not None:
            return self.enum(field.enum_type)
        if (message := field.message_type) is None:
            return self.scalar(field)
        return self.special(message, field, around) or self.struct(message, around)

    def field_name(self, field: FieldDescriptor) -> str:
        """A field's name in Connect."""
        return str(field.name)

    def field_schema(self, field: FieldDescriptor, schema: Schema, nullable: bool) -> Schema:
        """The schema of a field, from that of its values."""
        tagged = {**schema.parameters, TAG: str(field.number)}
        return replace(schema, optional=nullable or self._is_optional(field), parameters=tagged)

    def is_nullable(self, field: FieldDescriptor) -> bool:
        """True if an unset field is null."""
        within = field.containing_type
        if within is None or field.is_repeated or not field.has_presence or field.is_required:
            return False
        if field.message_type is not None and field.message_type.full_name in _WITHOUT_DEFAULT:
            return True
        if field.containing_oneof is not None and field.name not in optional_fields(within):
            return True  # a flat member of a oneof
        if field.message_type is None and is_proto2(within) and not self._options.optional_proto2:
            return False
        return not self._options.structs_for_nulls

    def _is_optional(self, field: FieldDescriptor) -> bool:
        """True if the schema of a field that is never null is optional all the same."""
        if field.is_repeated or field.message_type is not None or field.enum_type is not None:
            return True
        return not (self._options.optional or self._options.wrappers)

    def entry_of(self, field: FieldDescriptor) -> Descriptor | None:
        """The entries of a field that is a map; None for any other field."""
        return entry_of(field)

    def map_name(self, entry: Descriptor) -> str | None:
        """The name of a map's schema."""
        return _BEFORE_CAPITAL.sub("_", entry.name.removesuffix("Entry")).lower()

    def enum(self, enum: EnumDescriptor) -> Part:
        """The part of an enum."""
        name = enum.full_name if self._options.full_names else enum.name
        symbols = {f"{ENUM}.{value.name}": str(value.number) for value in enum.values}
        type_, kind = (SchemaType.INT32, "number") if self._options.int_enums else (SchemaType.STRING, "symbol")
        return Part(Schema(type_, name=name, parameters={ENUM: name, **symbols}), {"kind": kind})

    def scalar(self, field: FieldDescriptor) -> Part:
        """The part of a value that is neither an enum nor a message."""
        return _scalar(field, parameters(field))

    def special(self, message: Descriptor, field: FieldDescriptor, around: tuple[str, ...]) -> Part | None:
        """The part of a field's message that is no struct in Connect; None for any other message."""
        name = message.full_name
        if name in _MOMENTS:
            schema, kind = _MOMENTS[name]
            return Part(schema, {"kind": kind})
        if name == DECIMAL_TYPE:
            return _decimal(parameters(field))
        if name in WRAPPERS and self._options.wrappers:
            part = _scalar(message.fields[0], parameters(field))
            return Part(part.schema, {"kind": "wrapped", "value": part.shape})
        return None


def inside(message: Descriptor, around: tuple[str, ...]) -> tuple[str, ...]:
    """The names around a message's fields: those around it, and its own. Errors: DataError if it contains itself."""
    if message.full_name in around:
        raise DataError(f"The Protobuf message {message.full_name} contains itself, for which Spark has no type")
    return (*around, message.full_name)


def _scalar(field: FieldDescriptor, known: Mapping[str, str]) -> Part:
    """The part of a scalar; `known`: the params of the field that it stands in."""
    type_, kind, own = SCALARS[field.type]
    small = known.get("connect.type")
    if field.type == _F.TYPE_INT32 and small in _SMALL:
        return Part(Schema(_SMALL[small]), {"kind": small})
    return Part(Schema(type_, parameters={} if own is None else {TYPE: own}), {"kind": kind})


def _decimal(known: Mapping[str, str]) -> Part:
    scale = known.get("scale", "0")
    if not _SCALE.fullmatch(scale):
        raise DataError(f"The scale of a Protobuf field is {scale!r}, not an integer")
    precision = {PRECISION: known["precision"]} if "precision" in known else {}
    schema = Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": scale, **precision})
    return Part(schema, {"kind": "decimal", "scale": int(scale)})
