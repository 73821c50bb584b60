"""Message types of compiled files, as Python's Protobuf library knows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from headrace.converters.protobuf.compiling import MAIN, bare, compiled
from headrace.plugins.contracts import DataError

_META: Final = 1088
"""The number of Confluent's options."""


@lru_cache(maxsize=64)
def file_of(text: str) -> FileDescriptor:
    """The file of a schema's text. Errors: DataError."""
    pool = DescriptorPool()
    try:
        for file in compiled(text).file:
            pool.Add(file)
        return pool.FindFileByName(MAIN)
    except (TypeError, KeyError) as error:
        raise DataError(f"The Protobuf schema cannot be used: {error}") from error


def message_at(file: FileDescriptor, indexes: Iterable[int]) -> Descriptor:
    """The message type at these positions: of a type in the file, then of those nested in it. Errors: DataError."""
    found: Descriptor | None = None
    for index in indexes:
        types = _in_order(file, found)
        if not 0 <= index < len(types):
            raise DataError(f"The Protobuf schema has no message at the indexes {list(indexes)}")
        found = types[index]
    if found is None:
        raise DataError("The bytes name no message")
    return found


def indexes_of(message: Descriptor) -> list[int]:
    """The positions of a message type, as `message_at` takes them."""
    path: list[int] = []
    while True:
        around = message.containing_type
        path.insert(0, [one.full_name for one in _in_order(message.file, around)].index(message.full_name))
        if around is None:
            return path
        message = around


def all_messages(file: FileDescriptor) -> list[Descriptor]:
    """The types of the file itself, in order, without nested ones."""
    return _in_order(file, None)


def _in_order(file: FileDescriptor, around: Descriptor | None) -> list[Descriptor]:
    """The message types of a file, or of a type, in the order of their text."""
    if around is None:
        declared = bare(FileDescriptorProto).FromString(file.serialized_pb)
        return [file.message_types_by_name[one.name] for one in declared.message_type]
    return list(around.nested_types)


def parameters(field: FieldDescriptor) -> Mapping[str, str]:
    """The params of a field's option confluent.field_meta."""
    try:
        data = field.GetOptions().SerializeToString()
        return dict(_options().FromString(data).meta.params) if data else {}
    except DecodeError:
        return {}  # another option has the number of Confluent's


@lru_cache(maxsize=1)
def _options() -> Any:
    """The class of messages that have only Confluent's option of a field's options."""
    text = f"""syntax = "proto3"; import "confluent/meta.proto";
    message Options {{ confluent.Meta meta = {_META}; }}"""
    return GetMessageClass(message_at(file_of(text), [0]))
