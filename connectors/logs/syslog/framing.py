r"""Cuts a stream of bytes into messages: by octet counts (`34 <13>…`) or by line ends; RFC 6587 and RFC 5425.

The first bytes of a connection say which. What a message has beyond the longest one is passed over and counted.

Decided: octet counts are followed frame by frame in Python, because where a frame begins is known only after the frame
before; loses: some 0.5 µs a message, which lines do not cost.
"""

from __future__ import annotations

import re
from typing import Final

_FIRST_COUNT: Final = re.compile(rb"[1-9]\d{0,8} <")
_PERHAPS_COUNT: Final = re.compile(rb"([1-9]\d{0,8} ?)?")
_COUNT: Final = re.compile(rb"[\r\n]*([1-9]\d{0,8}) ")
"""Some senders end counted messages as lines."""
_BEGUN_COUNT: Final = re.compile(rb"[\r\n]*([1-9]\d{0,8})?")


class FramingError(Exception):
    """The stream cannot be followed any more."""


class Framer:
    """The messages of one connection; keeps at most one message and what was given last."""

    def __init__(self, most_bytes: int) -> None:
        self.truncated = 0
        """Messages that were too long."""
        self._most = most_bytes
        self._kept = b""
        self._skip = 0
        """The bytes, or for lines a flag, of a message that was too long."""
        self._counts: bool | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are complete with these bytes. Errors: FramingError."""
        self._kept += data
        if self._counts is None:
            if _PERHAPS_COUNT.fullmatch(self._kept):
                return []
            self._counts = _FIRST_COUNT.match(self._kept) is not None
        return self._counted() if self._counts else self._lines()

    def rest(self) -> list[bytes]:
        """The last message of a connection that ended: a line may lack its end, a counted message is torn."""
        kept, self._kept = self._kept, b""
        if self._counts:
            if kept.strip(b"\r\n") or self._skip:
                raise FramingError(f"the connection ended within a message, after {len(kept)} bytes of it")
            return []
        return [kept] if kept.strip(b"\r\n\0") and not self._skip else []

    def _lines(self) -> list[bytes]:
        *lines, self._kept = self._kept.split(b"\n")
        if lines and self._skip:
            del lines[0]
            self._skip = 0
        if any(len(line) > self._most for line in lines):
            self.truncated += sum(len(line) > self._most for line in lines)
            lines = [line[: self._most] for line in lines]
        if self._skip:
            self._kept = b""
        elif len(self._kept) > self._most:
            lines.append(self._kept[: self._most])
            self.truncated += 1
            self._kept, self._skip = b"", 1
        return lines

    def _counted(self) -> list[bytes]:
        found, data, at = [], self._kept, 0
        if self._skip:
            at = min(self._skip, len(data))
            self._skip -= at
        while (count := _COUNT.match(data, at)) is not None:
            begin, size = count.end(), int(count[1])
            if size <= self._most:
                if begin + size > len(data):
                    break
                found.append(data[begin : begin + size])
                at = begin + size
                continue
            if begin + self._most > len(data):
                break
            found.append(data[begin : begin + self._most])
            self.truncated += 1
            at = min(begin + size, len(data))
            self._skip = begin + size - at
        self._kept = data[at:]
        if count is None and not self._skip and not _BEGUN_COUNT.fullmatch(self._kept):
            raise FramingError("a message does not begin with the count of its octets")
        return found
