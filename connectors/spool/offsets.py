"""The offset of a file: `{"offset": 34}` in the source partition `{"fileName": "orders.csv"}`, with hidden members.

`offset` counts the records of the file that were read, and is the one member that the original connector reads and
writes. `_position` is where the next record begins in the decoded text, `_of` tells the file from others that stood
under its name, `_done` says that all of it was read.

Decided: a file is another one if its inode, size or time of change differs, because a name alone has a file that is
dropped again passed over; loses: a file that is written on while it is read comes again as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.contracts import SourceOffset, SourcePartition

FILE_NAME: Final = "fileName"
OFFSET: Final = "offset"
OFFSET_TYPE: Final = pa.struct(
    [(OFFSET, pa.int64()), ("_position", pa.int64()), ("_of", pa.string()), ("_done", pa.bool_())]
)
FORGOTTEN: Final[Mapping[str, Any]] = {OFFSET: 0, "_position": 0, "_of": "", "_done": False}
"""Stands in a plan for an offset that is to be removed: its file has left the folder."""


@dataclass(frozen=True)
class FileOffset:
    """A place in a file."""

    records: int = 0
    position: int | None = 0
    """None: unknown, the records before have to be passed over."""
    of: str | None = None
    done: bool = False

    @classmethod
    def after(cls, stored: SourceOffset | None, identity: str) -> FileOffset:
        """Return the place in the file of this identity by what is stored under its name."""
        if stored is None or (stored.get("_of") is not None and stored["_of"] != identity):
            return cls(of=identity)
        records = stored.get(OFFSET)
        if not _is_count(records):
            return cls(of=identity)
        assert isinstance(records, int)
        position = stored.get("_position")
        return cls(records, position if _is_count(position) else None, identity, bool(stored.get("_done")))

    def stored(self) -> dict[str, Any]:
        """Return the offset in the stored form."""
        return {OFFSET: self.records, "_position": self.position, "_of": self.of, "_done": self.done}

    def ended(self) -> FileOffset:
        """Return the place at the end of the file."""
        return replace(self, done=True)


def identity_of(status: os.stat_result) -> str:
    """Return what tells a file from others that stand under its name, before and after it."""
    return f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"


def is_of_another(stored: SourceOffset | None, identity: str) -> bool:
    """True if an offset belongs to an earlier file of the same name."""
    return stored is not None and stored.get("_of") not in (None, identity)


def partition_of(name: str) -> SourcePartition:
    """Return the source partition of a file."""
    return {FILE_NAME: name}


def check_offsets(offsets: Mapping[str, Any]) -> bool:
    """Check offsets that an operator sets; returns True. Errors: ValueError."""
    for one in offsets.get("offsets") or ():
        partition, offset = one.get("partition") or {}, one.get("offset")
        if set(partition) != {FILE_NAME} or not isinstance(partition[FILE_NAME], str):
            raise ValueError('A partition of a spool folder is {"fileName": "<its path below input.path>"}')
        if offset is not None and (set(offset) != {OFFSET} or not _is_count(offset[OFFSET])):
            raise ValueError(
                'An offset of a spool folder is {"offset": <the number of records to pass over>}, or null for the '
                "beginning of the file"
            )
    return True


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0  # to isinstance a bool is one
