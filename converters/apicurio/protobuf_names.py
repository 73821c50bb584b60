"""Names in the messages of Apicurio's ProtobufConverter, and what it keeps in `json_name` of fields.

`json_name` holds `__int8:` or `__int16:` for small integers, and `__raw:` with a field's name in Connect if that is
none in Protobuf. A list in a list is a message with the one field `items`.
"""

from __future__ import annotations

import re
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

from headrace.plugins.schema import SchemaType

PACKAGE: Final = "io.apicurio.registry.connect"
MESSAGE: Final = "ConnectMessage"
ITEMS: Final = "items"
SMALL: Final = {SchemaType.INT8: "__int8:", SchemaType.INT16: "__int16:"}
RAW: Final = "__raw:"
_MAP_OPTION: Final = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
_MARK: Final = 536_870_911
"""The largest number of a field, reserved in the entries of a map."""


def with_marks(text: str) -> str:
    """The text of a schema with a mark in each message that is declared to be a map's entry.

    Apicurio's converter declares entries so, which protoc refuses; a repeated field of such messages is a map.
    """
    return _MAP_OPTION.sub(f"reserved {_MARK};", text)


def entry_of(field: FieldDescriptor) -> Descriptor | None:
    """The entries of a field that is a map; None for any other field."""
    entry = field.message_type
    if entry is None or not field.is_repeated:
        return None
    if entry.GetOptions().map_entry:
        return entry
    declared = DescriptorProto()
    entry.CopyToProto(declared)
    return entry if any(one.start == _MARK for one in declared.reserved_range) else None


def items_of(message: Descriptor | None) -> FieldDescriptor | None:
    """The field `items` of a message that stands for a list; None for any other message."""
    if message is None or len(message.fields) != 1:
        return None
    (field,) = message.fields
    return field if field.name == ITEMS and field.is_repeated and field.number == 1 else None


def small_type(field: FieldDescriptor) -> SchemaType | None:
    """Connect's type of a field for small integers; None for any other field."""
    return next((type_ for type_, prefix in SMALL.items() if field.json_name.startswith(prefix)), None)


def connect_name(field: FieldDescriptor) -> str:
    """A field's name in Connect."""
    rest = field.json_name
    for prefix in SMALL.values():
        rest = rest.removeprefix(prefix)
    return rest.removeprefix(RAW) if rest.startswith(RAW) else str(field.name)


def field_name(name: str) -> str:
    """A field's name in Protobuf."""
    return _identifier(name, "field")


def type_name(name: str) -> str:
    """A message's name in Protobuf."""
    made = _identifier(name, "Message")
    return made[0].upper() + made[1:]


def package_name(name: str) -> str:
    """A package's name in Protobuf."""
    return ".".join(_identifier(part, "field") for part in name.split("."))


def _identifier(name: str, kind: str) -> str:
    made = re.sub(r"[^A-Za-z0-9_]", "_", name) or kind
    return made if made[0].isalpha() or made[0] == "_" else f"{kind}_{made}"
