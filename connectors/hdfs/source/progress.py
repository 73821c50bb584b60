"""The state of all files, in a bounded number of source partitions.

| source partition | its offset |
|---|---|
| `{"slot": 0}` … | the file read there last: `{"file": "topics/t/a.avro", "rows": 200, "done": true}` |
| `{"read": 0}` … | 2,048 files that were read, as hashes of their paths |

Each file, or piece of a large one, is read in a slot. Before the slots run out, the files that are done are noted in
the last `read` partition, and their slots are free for others once that is stored. So a million files are 500 offsets
of 22 KB and 256 small ones; the former are looked at when the task starts, the latter before each plan.

Decided: hashes of paths, because nothing that orders files (name, time) orders their appearance; 64 bits of them, so
that of a million files two collide, and one is never read, with a chance of 1 to 30,000,000; a name counts once: a file
that is replaced after it was read is not read again.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.plugins.contracts import PartitionResult, SourceOffset, SourcePartition, Split

SLOTS: Final = 256
SEGMENT: Final = 2048
_ASKED: Final = 1024
"""So many segments are asked for at once: those of two million files."""
_FEW: Final = SLOTS // 4
SLOT: Final = "slot"
READ: Final = "read"
OFFSET_TYPE: Final = pa.struct(
    [
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("done", pa.bool_()),
        ("_size", pa.int64()),
        ("_first", pa.int64()),
        ("_upto", pa.int64()),
        ("_pieces", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Piece:
    """A file, or some of its rows, and the count of those read."""

    file: str
    size: int
    first: int = 0
    upto: int = -1
    """The row after its last; -1: the end of the file."""
    pieces: int = 1
    """The count of the file's pieces."""
    rows: int = 0
    """The rows of this piece that were read."""
    done: bool = False

    @classmethod
    def of(cls, offset: SourceOffset) -> Piece:
        """The piece of a stored offset."""
        kept = {name: offset[f"_{name}"] for name in ("size", "first", "upto", "pieces")}
        return cls(offset["file"], rows=offset["rows"], done=offset["done"], **kept)

    def stored(self) -> dict[str, Any]:
        """The piece as a stored offset."""
        hidden = {"_size": self.size, "_first": self.first, "_upto": self.upto, "_pieces": self.pieces}
        return {"file": self.file, "rows": self.rows, "done": self.done, **hidden}

    @property
    def bounds(self) -> tuple[int, int]:
        """Its rows in the file."""
        return self.first, self.upto


class Progress:
    """The state of all files by the last stored offsets."""

    def __init__(self) -> None:
        self._read: set[int] = set()
        self._segment: list[int] = []
        self._number = 0
        self._asked: range | None = range(_ASKED)
        self._noting: tuple[int, list[int]] | None = None
        self._slots: list[Piece | None] = [None] * SLOTS
        self._by_file: dict[str, list[tuple[int, Piece]]] = {}

    def partitions(self) -> list[SourcePartition]:
        """The partitions to ask the offsets of: the slots, and at first the segments of read files."""
        slots: list[SourcePartition] = [{SLOT: number} for number in range(SLOTS)]
        return slots + [{READ: number} for number in self._asked or ()]

    def update(self, offsets: Sequence[SourceOffset | None]) -> bool:
        """Take the offsets of `partitions()`; True if no more offsets are to be asked for."""
        self._slots = [None if one is None else Piece.of(one) for one in offsets[:SLOTS]]
        self._by_file = defaultdict(list)
        for number, piece in enumerate(self._slots):
            if piece is not None:
                self._by_file[piece.file].append((number, piece))
        if self._asked is not None:
            asked, self._asked = self._asked, None
            for number, offset in zip(asked, offsets[SLOTS:], strict=True):
                if offset is not None:
                    self._number, self._segment = number, _numbers(offset)
                    self._read.update(self._segment)
            if offsets[-1] is not None:
                self._asked = range(asked.stop, asked.stop + _ASKED)
        return self._asked is None

    def is_known(self, file: str) -> bool:
        """True if a file was read, or is being read."""
        return file in self._by_file or _hash(file) in self._read

    def open(self) -> list[tuple[int, Piece]]:
        """The slots whose pieces are not done."""
        return [(number, piece) for number, piece in enumerate(self._slots) if piece is not None and not piece.done]

    def of(self, file: str) -> list[tuple[int, Piece]]:
        """The slots of a file."""
        return self._by_file.get(file, [])

    def bounds(self, file: str) -> set[tuple[int, int]]:
        """The pieces of a file that are in slots."""
        return {piece.bounds for _, piece in self.of(file)}

    def unfinished(self) -> list[str]:
        """The files of several pieces with some pieces in no slot yet."""
        return [file for file, found in self._by_file.items() if len(found) < found[0][1].pieces and self._counts(file)]

    def free(self) -> list[int]:
        """The free slots."""
        return [number for number, piece in enumerate(self._slots) if piece is None or not self._counts(piece.file)]

    def note(self, wanted: int) -> Split | None:
        """A split without rows that notes the files that are done, if slots are about to run out."""
        if len(self.free()) >= max(wanted, _FEW):
            return None
        new = [_hash(file) for file, found in self._by_file.items() if self._counts(file) and _is_done(found)]
        if not new:
            return None
        is_full = len(self._segment) + len(new) > SEGMENT
        self._noting = (self._number + 1, new) if is_full else (self._number, [*self._segment, *new])
        number, hashes = self._noting
        return Split({READ: number}, None, None, offset_if_empty=_offset(hashes))

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Learn which offsets are about to be stored."""
        noted = [one.source_partition[READ] for one in reached if one.source_partition and READ in one.source_partition]
        if self._noting is not None and self._noting[0] in noted:
            self._number, self._segment = self._noting
            self._read.update(self._segment)
        self._noting = None

    def _counts(self, file: str) -> bool:
        return _hash(file) not in self._read


def _is_done(found: Sequence[tuple[int, Piece]]) -> bool:
    return len(found) == found[0][1].pieces and all(piece.done for _, piece in found)


def _hash(file: str) -> int:
    return int.from_bytes(blake2b(file.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


def _offset(hashes: Sequence[int]) -> dict[str, Any]:
    text = base64.b64encode(np.array(hashes, "<u8").tobytes()).decode()
    return {"files": len(hashes), "_hashes": text}


def _numbers(offset: Mapping[str, Any]) -> list[int]:
    return [int(one) for one in np.frombuffer(base64.b64decode(offset["_hashes"]), "<u8")]
