r"""Bytes to lines without Python per line: `\n` and `\r\n` end a line, in any encoding that has a unit for them.

A line longer than a limit is cut into several, so that no line costs more memory than that.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.connectors.file.lines import is_utf8, repair

Ends = npt.NDArray[np.int64]

_BOM: Final = codecs.BOM_UTF8
_UNITS: Final = {b"\n": "u1", b"\n\0": "<u2", b"\0\n": ">u2", b"\n\0\0\0": "<u4", b"\0\0\0\n": ">u4"}


@dataclass(frozen=True)
class Encoding:
    """A file's encoding: Python's name, and numpy's type of its units."""

    name: str
    unit: str

    @classmethod
    def of(cls, name: str) -> Encoding:
        """The encoding of this name. Errors: ValueError."""
        try:
            codec, newline = codecs.lookup(name), "\n".encode(name)
        except (LookupError, UnicodeError) as error:
            raise ValueError("It is not known.") from error
        if newline not in _UNITS:
            raise ValueError("A line end is no unit of its own in it; of UTF-16 say UTF-16LE or UTF-16BE.")
        return cls(codec.name, _UNITS[newline])

    @property
    def width(self) -> int:
        """The bytes of a unit."""
        return int(self.unit[-1])

    def ends(self, data: bytes) -> Ends:
        """The positions after each line end."""
        units = np.frombuffer(data, self.unit, len(data) // self.width)
        return (np.flatnonzero(units == 10) + 1) * self.width

    def last_end(self, data: bytes) -> int:
        """The position after the last line end; 0 without one."""
        if self.width == 1:
            return data.rfind(b"\n") + 1
        found = self.ends(data)
        return int(found[-1]) if len(found) else 0

    def boundary(self, data: bytes, most: int) -> int:
        """The last position up to `most` at which no character is cut; `most` at least if there is none."""
        at = most - most % self.width
        while self.name == "utf-8" and at > most - 4 and at < len(data) and data[at] & 0xC0 == 0x80:
            at -= 1
        return max(at, self.width)


class Lines(NamedTuple):
    """The lines of some bytes without their ends, and the position after each."""

    texts: pa.StringArray
    ends: Ends


def split(data: bytes, encoding: Encoding, most: int, closed: bool = False, is_first: bool = False) -> Lines:
    """The complete lines, in pieces of `most` bytes.

    `closed`: what follows the last line end is a line, too. `is_first`: a byte order mark may be at the start.
    """
    ends = encoding.ends(data)
    size = len(data) - len(data) % encoding.width if not closed else len(data)
    if closed and size and (not len(ends) or ends[-1] != size):
        ends = np.append(ends, size)
    elif not closed and size - (int(ends[-1]) if len(ends) else 0) > most:
        ends = np.append(ends, size)  # a line without end yet, of which all but the last piece is complete
        pieces = _cut(data, ends, encoding, most)
        ends = pieces[:-1]
        return Lines(_texts(data, ends, encoding, is_first), ends)
    ends = _cut(data, ends, encoding, most)
    return Lines(_texts(data, ends, encoding, is_first), ends)


def _cut(data: bytes, ends: Ends, encoding: Encoding, most: int) -> Ends:
    """The ends with those of the pieces of lines that are too long."""
    starts = _starts(ends)
    long = np.flatnonzero(ends - starts > most + 2 * encoding.width)
    if not len(long):
        return ends
    points = []
    for line in long.tolist():
        at, end = int(starts[line]), int(ends[line])
        while end - at > most + 2 * encoding.width:
            at += encoding.boundary(data[at : at + most + 4], most)
            points.append(at)
    return np.sort(np.concatenate([ends, np.array(points, np.int64)]))


def _texts(data: bytes, ends: Ends, encoding: Encoding, is_first: bool) -> pa.StringArray:
    if not len(ends):
        return pa.array([], pa.string())
    data = data[: int(ends[-1])]
    if encoding.name == "utf-8":
        return _of_utf8(data, ends, is_first)
    text = data.decode(encoding.name, "replace").encode("utf-8", "replace")
    ended = np.flatnonzero(np.frombuffer(text, np.uint8) == 10) + 1
    if len(text) and (not len(ended) or ended[-1] != len(text)):
        ended = np.append(ended, len(text))
    if len(ended) == len(ends):
        return _of_utf8(text, ended, is_first)
    # A line was cut, or broken characters took a line end with them: rare, so it may cost Python per line.
    pieces = [data[start:end] for start, end in zip(_starts(ends).tolist(), ends.tolist(), strict=True)]
    texts = [piece.decode(encoding.name, "replace").rstrip("\n").removesuffix("\r") for piece in pieces]
    return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.string())


def _of_utf8(data: bytes, ends: Ends, is_first: bool) -> pa.StringArray:
    """The lines of these bytes: what ends them is cut out of the buffer."""
    octets = np.frombuffer(data, np.uint8)
    newline = octets[ends - 1] == 10
    kept = np.ones(len(octets), bool)
    kept[ends[newline] - 1] = False
    lengths = ends - _starts(ends) - newline
    returned = newline & (lengths > 0)
    returned[returned] = octets[ends[returned] - 2] == 13
    kept[ends[returned] - 2] = False
    lengths = lengths - returned
    if is_first and data.startswith(_BOM):
        kept[: len(_BOM)] = False
        lengths[0] -= len(_BOM)
    offsets = np.zeros(len(ends) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    texts = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(octets[kept]))
    if is_utf8(data):
        return texts
    # Rare, so it may cost Python per line: bytes that are not UTF-8 somewhere in these lines.
    return pa.array([repair(one).decode() for one in texts.cast(pa.binary()).to_pylist()], pa.string())


def _starts(ends: Ends) -> Ends:
    return np.concatenate([np.zeros(1, np.int64), ends[:-1]])
