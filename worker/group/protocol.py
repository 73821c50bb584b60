"""Messages between the members of a Connect group, in Apache's bytes.

    Subscription  a member's message on joining: its URL, how far it read the config topic, what it holds
    Assignment    the leader's message to a member: what to start and what to give up

All numbers are big-endian; a string is its length (int16) and its UTF-8 bytes, an array its count (int32) and its
elements. Version 0 assigns everything anew in every round; 1 and 2 assign differences and have the same layout (2
means that internal requests are signed). Readers accept any order, missing ends and higher versions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from headrace.worker.model import TaskId

PROTOCOLS: Final = {"default": 0, "compatible": 1, "sessioned": 2}
"""Versions by the names under which members offer them to the broker."""

SESSIONED: Final = PROTOCOLS["sessioned"]

CONFIG_MISMATCH: Final = 1
"""The assignment is void: its leader had not read the config topic as far as other members."""

_LONGEST: Final = 0x7FFF
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_CONNECTOR: Final = -1
"""The connector itself, among task numbers."""


@dataclass(frozen=True)
class Assignment:
    """Connectors and tasks that a member is to run; from version 1 on, the difference to those it holds."""

    version: int = SESSIONED
    error: int = 0
    leader: str = ""
    """The leader's member id."""
    leader_url: str = ""
    offset: int = -1
    """Offset in the config topic of the state that was assigned."""
    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[TaskId, ...] = ()
    delay_ms: int = 0
    """Time from now until all members join again; 0: never."""

    def holding(self, connectors: Collection[str], tasks: Collection[TaskId]) -> Assignment:
        """Return a copy with everything that a member holds, for its subscription."""
        return replace(
            self,
            connectors=tuple(connectors),
            tasks=tuple(tasks),
            revoked_connectors=(),
            revoked_tasks=(),
            delay_ms=0,
        )

    def encode(self) -> bytes:
        """Encode in the layout of its version. Errors: ValueError for a name of more than 32,767 bytes."""
        head = struct.pack(">hh", self.version, self.error) + _string(self.leader) + _string(self.leader_url)
        body = head + struct.pack(">q", self.offset) + _work(self.connectors, self.tasks)
        if self.version == 0:
            return body
        return body + _work(self.revoked_connectors, self.revoked_tasks) + struct.pack(">i", self.delay_ms)

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """Decode a leader's bytes, or those of a member about what it holds. Errors: ValueError for malformed bytes."""
        read = _Reader(data, "assignment")
        version, error = read.version(), read.int16()
        leader, url, offset = read.string(), read.string(), read.int64()
        connectors, tasks = read.work()
        if version == 0:
            return cls(version, error, leader, url, offset, connectors, tasks)
        revoked_connectors, revoked_tasks = read.work() if read.more() else ((), ())
        delay_ms = read.int32() if read.more() else 0
        return cls(version, error, leader, url, offset, connectors, tasks, revoked_connectors, revoked_tasks, delay_ms)


@dataclass(frozen=True)
class Subscription:
    """A member's message on joining."""

    url: str
    """Address of its REST API."""
    offset: int
    """Offset up to which it has read the config topic."""
    allocation: Assignment | None = None
    """Everything that it holds; None for nothing. Absent in version 0."""
    version: int = SESSIONED

    def encode(self) -> bytes:
        """Encode in the layout of its version. Errors: ValueError for a name of more than 32,767 bytes."""
        body = struct.pack(">h", self.version) + _string(self.url) + struct.pack(">q", self.offset)
        if self.version == 0:
            return body
        if self.allocation is None:
            return body + struct.pack(">i", -1)
        held = self.allocation.encode()
        return body + struct.pack(">i", len(held)) + held

    @classmethod
    def decode(cls, data: bytes) -> Subscription:
        """Decode a member's bytes. Errors: ValueError for malformed bytes."""
        read = _Reader(data, "subscription")
        version, url, offset = read.version(), read.string(), read.int64()
        length = read.int32() if version > 0 and read.more() else -1
        held = Assignment.decode(read.bytes(length)) if length >= 0 else None
        return cls(url, offset, held, version)


def fits(name: str) -> bool:
    """True if a connector of this name can be assigned."""
    return len(name.encode(errors="surrogatepass")) <= _LONGEST and not _SURROGATE.search(name)


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > _LONGEST:
        raise ValueError(f"a name of {len(data)} bytes does not fit into the group protocol: {text[:40]}…")
    return struct.pack(">h", len(data)) + data


def _work(connectors: Iterable[str], tasks: Iterable[TaskId]) -> bytes:
    """Encode connectors first, each with its tasks; then tasks without their connector."""
    numbers: dict[str, list[int]] = {connector: [_CONNECTOR] for connector in connectors}
    for connector, task in tasks:
        numbers.setdefault(connector, []).append(task)
    elements = (_string(name) + struct.pack(f">i{len(ids)}i", len(ids), *ids) for name, ids in numbers.items())
    return struct.pack(">i", len(numbers)) + b"".join(elements)


class _Reader:
    """Reads fields in sequence. Errors: ValueError that names the message."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._at, self._what = data, 0, what

    def more(self) -> bool:
        return self._at < len(self._data)

    def bytes(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise ValueError(f"a {self._what} of {len(self._data)} bytes ends within a field at byte {self._at}")
        data, self._at = self._data[self._at : end], end
        return data

    def int16(self) -> int:
        return int.from_bytes(self.bytes(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.bytes(4), signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.bytes(8), signed=True)

    def string(self) -> str:
        return self.bytes(self.int16()).decode()

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise ValueError(f"Unsupported {self._what} version: {version}")
        return min(version, SESSIONED)

    def work(self) -> tuple[tuple[str, ...], tuple[TaskId, ...]]:
        # Several elements may name one connector; duplicates count once.
        connectors: dict[str, None] = {}
        tasks: dict[TaskId, None] = {}
        for _ in range(self.int32()):
            name = self.string()
            for _ in range(self.int32()):
                number = self.int32()
                if number == _CONNECTOR:
                    connectors[name] = None
                else:
                    tasks[TaskId(name, number)] = None
        return tuple(connectors), tuple(tasks)
