"""Checks if a Protobuf message may take the place of another, by the rules of Confluent's registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headrace.converters.protobuf.to_connect import real_oneofs

_F = FieldDescriptor
_GROUPS: Final = (
    {_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM},
    {_F.TYPE_SINT32, _F.TYPE_SINT64},
    {_F.TYPE_STRING, _F.TYPE_BYTES},
    {_F.TYPE_FIXED32, _F.TYPE_SFIXED32},
    {_F.TYPE_FIXED64, _F.TYPE_SFIXED64},
)
"""Types whose values have one form on the wire; each other type stands alone."""
_EITHER_LABEL: Final = (_F.TYPE_STRING, _F.TYPE_BYTES, _F.TYPE_MESSAGE)


def breaks(reader: Descriptor, writer: Descriptor) -> Iterator[str]:
    """The reasons that `reader` may not take the place of `writer`; empty if it may."""
    yield from _between(reader, writer, frozenset())


def _between(reader: Descriptor, writer: Descriptor, seen: frozenset[tuple[str, str]]) -> Iterator[str]:
    if reader.file.package != writer.file.package and not seen:
        yield f"the package {writer.file.package!r} became {reader.file.package!r}"
    pair = (reader.full_name, writer.full_name)
    if pair in seen:
        return
    for number, theirs in writer.fields_by_number.items():
        ours = reader.fields_by_number.get(number)
        if ours is not None:
            yield from _between_fields(ours, theirs, seen | {pair})
        elif theirs.is_required:
            yield f"the required field {theirs.full_name} was removed"
        elif _oneof(theirs) is not None and _oneof(theirs) in {one.name for one in real_oneofs(reader)}:
            yield f"the member {theirs.full_name} of a oneof was removed"
    for number, ours in reader.fields_by_number.items():
        if ours.is_required and number not in writer.fields_by_number:
            yield f"the required field {ours.full_name} was added"
    yield from _moved(reader, writer)


def _between_fields(ours: FieldDescriptor, theirs: FieldDescriptor, seen: frozenset[tuple[str, str]]) -> Iterator[str]:
    if ours.is_repeated != theirs.is_repeated and theirs.type not in _EITHER_LABEL:
        yield f"the label of the field {theirs.full_name} changed"
    if ours.message_type is not None and theirs.message_type is not None:
        yield from _between(ours.message_type, theirs.message_type, seen)
    elif ours.type != theirs.type and not any({ours.type, theirs.type} <= group for group in _GROUPS):
        yield f"the type of the field {theirs.full_name} changed"


def _oneof(field: FieldDescriptor) -> str | None:
    """The name of the oneof that a field is a member of."""
    found = field.containing_oneof
    within = field.containing_type
    return found.name if found is not None and within is not None and found in real_oneofs(within) else None


def _moved(reader: Descriptor, writer: Descriptor) -> Iterator[str]:
    """The fields that moved into a oneof together, or into one that had members before."""
    for one in real_oneofs(reader):
        known = [writer.fields_by_number.get(field.number) for field in one.fields]
        moved = [field for field in known if field is not None and _oneof(field) is None]
        if len(moved) > 1 or (moved and any(field is not None and _oneof(field) for field in known)):
            yield f"the field {moved[0].full_name} moved into the oneof {one.name} with others"
