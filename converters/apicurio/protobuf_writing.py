"""Connect schemas to the text of a .proto file as by Apicurio's ProtobufConverter, and the shapes to write rows by.

Each struct is a message of the file, those inside it first. Optional fields have the keyword `optional`.

Decided: a map is written as Protobuf's own, which has the same bytes as Apicurio's message for its entries, because
protoc refuses the latter's text; loses: one id for both texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headrace.converters.apicurio.protobuf_names import (
    ITEMS,
    MESSAGE,
    PACKAGE,
    RAW,
    SMALL,
    connect_name,
    entry_of,
    field_name,
    items_of,
    package_name,
    type_name,
)
from headrace.converters.protobuf.from_connect import SCALAR_TYPES, ProtoText
from headrace.converters.protobuf.writing import mismatch, scalar_shape
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import Schema, SchemaType, logical

_INSTEAD: Final = "io.confluent.connect.protobuf.ProtobufConverter with the registry's /apis/ccompat/v7 has it"


def proto_text(schema: Schema | None) -> ProtoText:
    """The file for values of this schema. Errors: DataError for one that Apicurio's messages do not have."""
    if schema is None or schema.type is not SchemaType.STRUCT:
        kind = "no schema" if schema is None else schema.type.name
        raise DataError(f"A Protobuf message is a STRUCT, and the value has {kind}")
    before, _, last = (schema.name or "").rpartition(".")
    file = _File(package_name(before) if before else PACKAGE)
    message = file.message(type_name(last.strip() or MESSAGE), schema)
    text = f'syntax = "proto3";\n\npackage {file.package};\n' + "".join(f"\n{one}" for one in file.messages)
    return ProtoText(text, f"{file.package}.{message}")


class _File:
    """A file that is being written."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.messages: list[str] = []
        self._names: set[str] = set()
        self._of_structs: dict[Schema, str] = {}

    def message(self, wanted: str, schema: Schema) -> str:
        """The name of the message for a struct, written if it is not there."""
        if schema not in self._of_structs:
            name = self._of_structs[schema] = self._free(wanted)
            fields = [self._field(one.name, one.schema, number) for number, one in enumerate(schema.fields, 1)]
            self._write(name, fields)
        return self._of_structs[schema]

    def _write(self, name: str, fields: list[str]) -> None:
        self.messages.append("\n".join([f"message {name} {{", *fields, "}", ""]))

    def _free(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self._names:
            name, number = f"{wanted}{number}", number + 1
        self._names.add(name)
        return name

    def _field(self, name: str, schema: Schema, number: int) -> str:
        wanted = type_name(name)
        if schema.type is SchemaType.MAP:
            assert schema.value_schema is not None
            if schema.key_schema is None or schema.key_schema.type is not SchemaType.STRING:
                raise DataError(f"The map {name} has keys that are no texts; {_INSTEAD}")
            kind, item = f"map<string, {self._type(wanted, schema.value_schema)}>", schema.value_schema
        elif schema.type is SchemaType.ARRAY:
            assert schema.value_schema is not None
            kind, item = f"repeated {self._type(wanted, schema.value_schema)}", schema.value_schema
        else:
            kind, item = f"{'optional ' if schema.optional else ''}{self._type(wanted, schema)}", schema
        return f"  {kind} {field_name(name)} = {number}{self._options(name, item, schema.type is SchemaType.MAP)};"

    @staticmethod
    def _options(name: str, item: Schema, is_map: bool) -> str:
        small = SMALL.get(item.type, "")
        if small and is_map:
            raise DataError(f"The map {name} has values of type {item.type.name}, which its entries cannot tell")
        changed = field_name(name) != name
        if not small and not changed:
            return ""
        told = small + (RAW + name if changed else name)
        return f" [json_name = {json.dumps(told, ensure_ascii=False)}]"

    def _type(self, wanted: str, schema: Schema) -> str:
        """The type of one value."""
        if logical(schema) is not None:
            raise DataError(f"Apicurio's messages have no {schema.name}; {_INSTEAD}")
        match schema.type:
            case SchemaType.STRUCT:
                return f".{self.package}.{self.message(wanted, schema)}"
            case SchemaType.ARRAY:
                name = self._free(f"{wanted}Wrapper")
                self._write(name, [self._field_of_items(name, schema)])
                return f".{self.package}.{name}"
            case SchemaType.MAP:
                raise DataError(f"Apicurio's messages have no map within a list or a map; {_INSTEAD}")
        return SCALAR_TYPES[schema.type]

    def _field_of_items(self, name: str, schema: Schema) -> str:
        assert schema.value_schema is not None
        kind = self._type(f"{name}Element", schema.value_schema)
        return f"  repeated {kind} {ITEMS} = 1{self._options(ITEMS, schema.value_schema, is_map=False)};"


def struct_shape(schema: Schema, message: Descriptor) -> Mapping[str, Any]:
    """The shape of a struct's row in this message; what the message lacks is left out.

    Errors: DataError naming a field of another type.
    """
    known = {connect_name(field): field for field in message.fields}
    members = []
    for one in schema.fields:
        member: dict[str, Any] = {"name": one.name, "required": not one.schema.optional}
        if (field := known.get(one.name)) is not None:
            member |= {"number": field.number, "value": _value(one.schema, field)}
        members.append(member)
    return {"kind": "struct", "members": members}


def _value(schema: Schema, field: FieldDescriptor) -> Mapping[str, Any]:
    entry = entry_of(field)
    if (entry is not None) != (schema.type is SchemaType.MAP):
        raise mismatch(schema, field)
    if entry is not None:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return {"kind": "map", "key": _one(schema.key_schema, key), "value": _one(schema.value_schema, value)}
    if schema.type is SchemaType.ARRAY and field.is_repeated:
        assert schema.value_schema is not None
        return {"kind": "list", "item": _one(schema.value_schema, field)}
    if field.is_repeated:
        raise mismatch(schema, field)
    return _one(schema, field)


def _one(schema: Schema, field: FieldDescriptor) -> Mapping[str, Any]:
    """The shape of one value of a field."""
    message = field.message_type
    if logical(schema) is not None or (message is None) == (schema.type in (SchemaType.STRUCT, SchemaType.ARRAY)):
        raise mismatch(schema, field)
    if message is None:
        return scalar_shape(schema, field)
    if schema.type is SchemaType.STRUCT:
        return struct_shape(schema, message)
    if schema.type is not SchemaType.ARRAY or (items := items_of(message)) is None:
        raise mismatch(schema, field)
    return {"kind": "wrapped", "value": _value(schema, items)}
