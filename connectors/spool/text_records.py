"""Records of a text: where they end, and runs of them with the position after each.

A format finds the ends of records in some bytes that begin with a record. All of it is numpy over the bytes: nothing
looks at records one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.connectors.spool.errors import BadFile
from headrace.connectors.spool.text_stream import TextStream

BOM: Final = b"\xef\xbb\xbf"
CHUNK_BYTES: Final = 1 << 20
MAX_RECORD_BYTES: Final = 64 << 20
"""A longer record is a bad one: no Kafka record would hold it."""
_LF: Final = 10
_CR: Final = 13


class Found(NamedTuple):
    """The records in some bytes."""

    ends: Any
    """The position after each, as an array."""
    problem: str | None = None
    """The fault of the record that follows them."""


Finder = Callable[[bytes, bool], Found]
"""Finds records; the flag says that nothing follows the bytes, so that the rest is a record, too."""


class Run(NamedTuple):
    """Some records, one after the other."""

    data: bytes
    ends: Any
    """The position after each in `data`."""
    begin: int
    """The position of `data` in the text."""


class TextRecords:
    """The records of a text, in order."""

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream
        self._data = b""
        self._begin = 0
        self._closed = False
        self._is_new = True

    def run(self, find: Finder, most: int | None = None) -> Run | None:
        """Return the next records, `most` of them at most; None at the end.

        Errors: BadFile for a record that cannot be told from the next.
        """
        size = CHUNK_BYTES
        if not self._data:
            self._fill(size)
        while True:
            if not self._data:
                return None
            ends, problem = find(self._data, self._closed)
            if len(ends):
                ends = ends[:most]
                data, self._data = self._data[: ends[-1]], self._data[ends[-1] :]
                begin, self._begin = self._begin, self._begin + len(data)
                return Run(data, ends, begin)
            if problem is not None:
                raise BadFile(problem)
            if self._closed:
                self._data = b""
                return None
            if len(self._data) > MAX_RECORD_BYTES:
                raise BadFile(f"a record is longer than {MAX_RECORD_BYTES} bytes, or its quotes have no end")
            self._fill(size)
            size *= 2

    def pass_to(self, position: int) -> None:
        """Go forward to a position where a record begins. Errors: as `TextStream.read`."""
        if self._begin <= position <= self._begin + len(self._data):
            self._data = self._data[position - self._begin :]
        else:
            self._stream.pass_to(position)
            self._data = b""
        self._begin = position
        self._is_new = self._is_new and position == 0

    def _fill(self, size: int) -> None:
        more = b"" if self._closed else self._stream.read(size)
        self._closed = not more
        self._data += more
        if self._is_new and (len(self._data) >= len(BOM) or self._closed):
            self._is_new = False
            if self._data.startswith(BOM):
                self._data, self._begin = self._data[len(BOM) :], len(BOM)
                if not self._data:
                    self._fill(size)


def line_ends(data: bytes, closed: bool) -> Any:
    r"""The position after each line; lines end with `\n`, `\r\n` or a lone `\r`."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == _LF) + 1
    if b"\r" in data:
        returns = np.flatnonzero(octets == _CR)
        following = np.append(octets, np.uint8(0 if closed else _LF))[returns + 1]
        ends = np.sort(np.concatenate([ends, returns[following != _LF] + 1]))
    if closed and len(data) and (not len(ends) or ends[-1] != len(data)):
        ends = np.append(ends, len(data))
    return ends


def escaped(data: bytes, escape: int) -> Any:
    """The positions of the bytes that an escape sign stands before, unless it is escaped itself."""
    signs = np.flatnonzero(np.frombuffer(data, np.uint8) == escape)
    is_first = np.append(True, np.diff(signs) != 1)
    first = np.maximum.accumulate(np.where(is_first, signs, 0))
    return signs[(signs - first) % 2 == 0] + 1


def lines(data: bytes, closed: bool) -> Found:
    """Find lines."""
    return Found(line_ends(data, closed))
