"""One gzip stream in pieces, with nothing kept between them but a check sum.

A compressor takes 256 KiB, too much for each of 500 open files. So each piece has its own, and ends on a whole byte.
Put together they are one stream, which any reader takes.
"""

from __future__ import annotations

import zlib
from typing import Final

from headrace.connectors.hdfs.formats.appending import Data

MAGIC: Final = b"\x1f\x8b"
_HEADER: Final = MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\xff"
_RAW: Final = -15
"""zlib's sign for deflate without header and check sum."""


class GzipStream:
    """The pieces of one stream."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._crc = self._size = 0
        self._begun = False

    def compressed(self, data: Data) -> list[bytes]:
        """Compresses the next piece."""
        made = zlib.compressobj(self._level, zlib.DEFLATED, _RAW)
        self._crc, self._size = zlib.crc32(data, self._crc), self._size + len(memoryview(data))
        return [*self._header(), made.compress(data), made.flush(zlib.Z_FULL_FLUSH)]

    def _header(self) -> list[bytes]:
        begun, self._begun = self._begun, True
        return [] if begun else [_HEADER]

    def end(self) -> list[bytes]:
        """Ends the stream."""
        check = self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")
        return [*self._header(), zlib.compressobj(wbits=_RAW).flush(), check]
