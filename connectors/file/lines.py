r"""Bytes to lines, without Python per line: `\n`, `\r\n` and a lone `\r` end a line.

A `\r` that is the last byte known has not ended its line yet: a `\n` may follow.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NEWLINE: Final = 10
_RETURN: Final = 13
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class Lines(NamedTuple):
    """The lines of some bytes, and the end of each: after its terminator, counted from the first byte."""

    values: pa.StringArray
    ends: npt.NDArray[np.int64]


def split_lines(data: bytes, closed: bool = False) -> Lines:
    r"""The complete lines in `data`; `closed`: nothing follows, so the rest is a line too.

    The bytes that end lines are cut out of the buffer. A line's offset in the rest is its end less the bytes cut before
    it: no line is touched by itself.

    A line that is alone, as most are if files trickle, goes through none of numpy's kernels: their code has left the
    caches by then.
    """
    if data.endswith(b"\n") and data.count(b"\n") == 1 and b"\r" not in data:
        return Lines(pa.array([_text(data[:-1])], pa.string()), np.array([len(data)], np.int64))
    octets = np.frombuffer(data, np.uint8)
    if b"\r" not in data:
        last = np.flatnonzero(octets == _NEWLINE)
        cut_before = np.arange(len(last))
    else:
        cut = np.flatnonzero((octets == _NEWLINE) | (octets == _RETURN))
        following = np.append(octets, np.uint8(0 if closed else _NEWLINE))[cut + 1]
        ends = (octets[cut] == _NEWLINE) | (following != _NEWLINE)
        last, cut_before = cut[ends], np.flatnonzero(ends)
    if closed and len(data) and (len(last) == 0 or last[-1] != len(data) - 1):
        last = np.append(last, len(data))
        cut_before = np.append(cut_before, data.count(b"\n") + data.count(b"\r"))
    return Lines(_strings(data, last, cut_before), np.minimum(last + 1, len(data)))


def last_line_end(data: bytes, within: int) -> int:
    r"""The position after the last line that ends within `data[:within]`; 0 if none does.

    `data` has one byte more, if the file has: it shows if a `\r` at the end of the window is a whole terminator.
    """
    newline = data.rfind(b"\n", 0, within)
    lone = data.rfind(b"\r", newline + 1, within)
    if lone == within - 1 and data[within : within + 1] in (b"", b"\n"):
        lone = data.rfind(b"\r", newline + 1, lone)
    return max(newline, lone) + 1


def _strings(data: bytes, last: npt.NDArray[np.intp], cut_before: npt.NDArray[np.intp]) -> pa.StringArray:
    offsets = np.zeros(len(last) + 1, np.int32)
    np.subtract(last, cut_before, out=offsets[1:], casting="unsafe")
    text = data.replace(b"\n", b"")
    if b"\r" in text:
        text = text.replace(b"\r", b"")
    values = pa.StringArray.from_buffers(len(last), pa.py_buffer(offsets), pa.py_buffer(text))
    return values if is_utf8(data) else _repaired(values)


def is_utf8(data: bytes) -> bool:
    """True if these bytes are well-formed UTF-8."""
    if data.isascii():
        return True
    whole = pa.py_buffer(np.array([0, len(data)], np.int32))
    try:
        pa.StringArray.from_buffers(1, whole, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _repaired(values: pa.StringArray) -> pa.StringArray:
    # Rare, so it may cost Python per line: bytes that are not UTF-8 somewhere in these lines.
    return pa.array([_text(value) for value in values.cast(pa.binary()).to_pylist()], pa.string())


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return repair(line).decode()


def repair(data: bytes) -> bytes:
    """Replaces each malformed sequence by one U+FFFD, as Java's decoder does: the result is well-formed UTF-8.

    Source: Unicode's "maximal subpart", which Python follows as well. Java alone takes an encoded surrogate (ED A0..BF
    and a continuation byte) as one sequence.
    """
    return _SURROGATE.sub("�".encode(), data).decode("utf-8", "replace").encode()
