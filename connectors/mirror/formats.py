"""The records of heartbeats, checkpoints and offset syncs, in MirrorMaker's binary formats.

Fields are Kafka's own types, big-endian; a string has its length in two bytes before it. The values of heartbeats and
of checkpoints begin with a version, 0; offset syncs have none.

Errors: `of` raises FormatError for bytes of another kind. As in Java, bytes after the last field are ignored.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

_VERSION: Final = 0


class FormatError(ValueError):
    """Bytes that are no record of the expected kind."""


@dataclass(frozen=True)
class Heartbeat:
    """A sign that the flow from source to target was alive at a time."""

    source: str
    """The alias of the source cluster."""
    target: str
    timestamp: int
    """Units: milliseconds since 1970."""

    def key(self) -> bytes:
        """The record's key."""
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        """The record's value."""
        return struct.pack(">hq", _VERSION, self.timestamp)

    @classmethod
    def of(cls, key: bytes, value: bytes) -> Heartbeat:
        """The heartbeat of a record."""
        keys, values = _Fields("heartbeat", key), _Fields("heartbeat", value)
        source, target = keys.string(), keys.string()
        values.version()
        return cls(source, target, values.number("q"))


@dataclass(frozen=True)
class Checkpoint:
    """The place of a consumer group in one partition, in both clusters."""

    group: str
    topic: str
    """Its name in the target cluster."""
    partition: int
    upstream_offset: int
    """The group's committed offset in the source cluster."""
    downstream_offset: int
    """The offset from which the group goes on in the target cluster."""
    metadata: str = ""
    """The metadata of the group's commit."""

    def key(self) -> bytes:
        """The record's key."""
        return _string(self.group) + _string(self.topic) + struct.pack(">i", self.partition)

    def value(self) -> bytes:
        """The record's value."""
        offsets = struct.pack(">hqq", _VERSION, self.upstream_offset, self.downstream_offset)
        return offsets + _string(self.metadata)

    @classmethod
    def of(cls, key: bytes, value: bytes) -> Checkpoint:
        """The checkpoint of a record."""
        keys, values = _Fields("checkpoint", key), _Fields("checkpoint", value)
        group, topic, partition = keys.string(), keys.string(), keys.number("i")
        values.version()
        return cls(group, topic, partition, values.number("q"), values.number("q"), values.string())


@dataclass(frozen=True)
class OffsetSync:
    """The same record's offsets in both clusters."""

    topic: str
    """Its name in the source cluster."""
    partition: int
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        """The record's key."""
        return _string(self.topic) + struct.pack(">i", self.partition)

    def value(self) -> bytes:
        """The record's value."""
        return struct.pack(">qq", self.upstream_offset, self.downstream_offset)

    @classmethod
    def of(cls, key: bytes, value: bytes) -> OffsetSync:
        """The offset sync of a record."""
        keys, values = _Fields("offset sync", key), _Fields("offset sync", value)
        return cls(keys.string(), keys.number("i"), values.number("q"), values.number("q"))


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


class _Fields:
    """Takes one field after the other off some bytes."""

    def __init__(self, kind: str, data: bytes) -> None:
        self._kind, self._data, self._at = kind, data, 0

    def number(self, code: str) -> int:
        """An integer of this `struct` format."""
        number: int = struct.unpack(f">{code}", self._take(struct.calcsize(f">{code}")))[0]
        return number

    def string(self) -> str:
        length = self.number("h")
        if length < 0:
            raise self._error()
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as e:
            raise self._error() from e

    def version(self) -> None:
        """Check the version. Errors: FormatError for an unknown one."""
        if (version := self.number("h")) != _VERSION:
            raise FormatError(f"a {self._kind} of version {version}, which is not known here")

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise self._error()
        self._at += size
        return taken

    def _error(self) -> FormatError:
        return FormatError(f"no {self._kind}: {self._data.hex()[:200]}")
