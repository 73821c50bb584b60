"""The offset of a log: a position in the file that is read now, and how that file is known again.

    partition  {"path": "/var/log/app.log"}
    offset     {"position": 34, "file": "/var/log/app.log.1"}, with hidden `_inode`, `_device`, `_head`, `_modified`

`position` counts bytes as they are once decompressed. `_head` is a checksum of the file's first bytes, so that an inode
that is used again is another file. `_modified` is the time of its last change: if it is gone, those changed later
follow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.contracts import SourceOffset

PATH: Final = "path"
POSITION: Final = "position"
TYPE: Final = pa.struct(
    [
        (POSITION, pa.int64()),
        ("file", pa.string()),
        ("_inode", pa.int64()),
        ("_device", pa.int64()),
        ("_head", pa.int64()),
        ("_modified", pa.int64()),
    ]
)
_POSITIVE: Final = (1 << 63) - 1


@dataclass(frozen=True)
class LogOffset:
    """A position in one file; all before it was read."""

    position: int = 0
    file: str | None = None
    inode: int | None = None
    device: int | None = None
    head: int | None = None
    modified: int | None = None

    @classmethod
    def of(cls, offset: SourceOffset | None) -> LogOffset | None:
        """The stored offset; None without one."""
        if offset is None or not isinstance(offset.get(POSITION), int):
            return None
        hidden = (offset.get(name) for name in ("_inode", "_device", "_head", "_modified"))
        return cls(offset[POSITION], offset.get("file"), *hidden)

    def stored(self) -> dict[str, Any]:
        """The offset in the stored form."""
        values = (self.position, self.file, self.inode, self.device, self.head, self.modified)
        return dict(zip((field.name for field in TYPE), values, strict=True))


def identity(status: os.stat_result) -> tuple[int, int]:
    """The inode and the device of a file; some file systems use all 64 bits."""
    return status.st_ino & _POSITIVE, status.st_dev & _POSITIVE


def modified(status: os.stat_result) -> int:
    """The time of the last change; units: microseconds."""
    return status.st_mtime_ns // 1_000


def check_offsets(offsets: Mapping[str, Any]) -> bool:
    """Checks offsets that an operator sets, given as in the body of a PATCH. Errors: ValueError."""
    for one in offsets.get("offsets") or ():
        offset, partition = one.get("offset"), one.get("partition") or {}
        if offset is None:
            continue
        if not isinstance(partition.get(PATH), str):
            raise ValueError('A partition of LogFiles is {"path": <the log\'s path>}')
        position = offset.get(POSITION)
        if type(position) is not int or position < 0:
            raise ValueError('An offset of LogFiles is {"position": <bytes from the start of the file, 0 or more>}')
    return True
