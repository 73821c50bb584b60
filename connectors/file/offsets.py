"""The offset of a file: `{"position": 34, "line": 3}`, with the hidden members `_generation` and `_head`.

`position` is in bytes and the one member that Apache's connector reads and writes. `line` counts the lines of this
file so far; it stays null after an offset that did not have it. `_generation` counts the files that stood under the
name so far, so that an offset of an older one is never taken for one of this (invariant 2). `_head` is a checksum of
the file's first bytes.

Decided: `_head` is stored with every offset, because after a restart nothing else shows that another file stands there
once that has grown beyond the stored position; its start would be lost in silence. An inode does not show it: file
systems give freed numbers out again at once, and a restored or moved file has another one.
Loses: 12 bytes a row on the way; a file with the same first KiB, and a line end at the stored position, passes.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.connectors.file.errors import FileError
from headrace.plugins.contracts import SourceOffset

FILENAME: Final = "filename"
POSITION: Final = "position"
HEAD_BYTES: Final = 1024


@dataclass(frozen=True)
class FileOffset:
    """A position in one generation of a file; everything before it was read."""

    position: int = 0
    line: int | None = 0
    generation: int = 0
    head: int | None = None

    @classmethod
    def of(cls, offset: SourceOffset | None) -> FileOffset:
        """The stored offset, Apache's included; the start of the file if there is none.

        Errors: FileError if its position is no integer.
        """
        if offset is None or offset.get(POSITION) is None:
            return cls()
        position = offset[POSITION]
        if not _is_integer(position):
            raise FileError("Offset position is the incorrect type")
        if position < 0:
            raise FileError(f"The stored offset has the position {position}, before the start of the file; reset it")
        line, generation = _integer_or_none(offset.get("line")), _integer_or_none(offset.get("_generation"))
        return cls(position, line, generation or 0, _integer_or_none(offset.get("_head")))

    def stored(self) -> dict[str, Any]:
        """The offset in the stored form."""
        return {POSITION: self.position, "line": self.line, "_generation": self.generation, "_head": self.head}


def head_of(start: bytes, position: int) -> int | None:
    """A checksum of the file's bytes below `position`, the first KiB at most, with their number in the upper half.

    `start` is the file's first KiB. None at the start of the file.
    """
    covered = min(position, HEAD_BYTES)
    return covered << 32 | zlib.crc32(start[:covered]) if covered else None


def same_head(start: bytes, head: int | None) -> bool:
    """True if a file that begins with `start` can be the one that had this head."""
    return head is None or head_of(start, head >> 32) == head


def check_offsets(config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
    """Checks offsets that an operator sets, given as in the body of `PATCH /connectors/{name}/offsets`; returns True.

    Errors: FileError with the texts of Apache's connector.
    """
    if not config.get("file"):
        raise FileError(
            "Offsets cannot be modified if the 'file' configuration is unspecified. "
            "This is because stdin is used for input and offsets are not tracked."
        )
    for item in offsets.get("offsets") or ():
        if item.get("offset") is not None:
            _check(item.get("partition"), item["offset"])
    return True


def _check(partition: Mapping[str, Any] | None, offset: Mapping[str, Any]) -> None:
    if POSITION not in offset:
        raise FileError("Offset objects should either be null or contain the key 'position'")
    if not _is_integer(offset[POSITION]):
        raise FileError("The value for the 'position' key in the offset is expected to be a Long value")
    if offset[POSITION] < 0:
        raise FileError("The value for the 'position' key in the offset should be a non-negative value")
    if partition is None:
        raise FileError("Partition objects cannot be null")
    if FILENAME not in partition:
        raise FileError("Partition objects should contain the key 'filename'")


def _is_integer(value: Any) -> bool:
    return type(value) is int  # to isinstance a bool is one


def _integer_or_none(value: Any) -> int | None:
    return value if _is_integer(value) else None
