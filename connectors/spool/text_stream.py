"""The text of a file as UTF-8, decompressed by the end of its name, from any position on.

| end of the name | compression |
|---|---|
| `.gz` | gzip |
| `.bz2` | bzip2 |
| `.lz4` | LZ4 frames |
| `.snappy`, `.sz` | snappy's framing format |
| `.zst` | Zstandard |

A position counts the bytes of this text. Only in a plain file of UTF-8 it is one of the file: in others all before it
is read again, and passed over.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final

import pyarrow as pa

from headrace.connectors.spool.errors import BadFile
from headrace.plugins.errors import RetriableError

_SNAPPY_BEGIN: Final = b"\xff\x06\x00\x00sNaPpY"
_SNAPPY_HEADER_BYTES: Final = 4
_SNAPPY_CHECK_BYTES: Final = 4
_SNAPPY_MOST_BYTES: Final = 64 << 10
_PASSED_BYTES: Final = 1 << 20
_BROKEN: Final = (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowException)
COMPRESSED: Final = (".gz", ".bz2", ".lz4", ".snappy", ".sz", ".zst")
NOT_SERVED: Final = (".z",)


def is_compressed(name: str) -> bool:
    """True if the end of the name tells a compression."""
    return name.lower().endswith(COMPRESSED)


class TextStream:
    """The text of an open file, which it closes."""

    def __init__(self, descriptor: int, name: str, charset: str | None) -> None:
        """`charset` None: the bytes are taken as they are."""
        self._file = os.fdopen(descriptor, "rb")
        self._data = _decompressed(self._file, PurePath(name).suffix.lower())
        is_utf8 = charset is None or codecs.lookup(charset).name == "utf-8"
        self._decoder = None if is_utf8 else codecs.getincrementaldecoder(charset or "")("strict")
        self._is_plain = is_utf8 and self._data is self._file
        self._rest = b""
        self._position = 0

    def read(self, size: int) -> bytes:
        """Return some bytes; none at the end. Errors: BadFile for broken contents; RetriableError of the disk."""
        if self._rest:
            data, self._rest = self._rest, b""
        else:
            data = self._read(size)
        self._position += len(data)
        return data

    def _read(self, size: int) -> bytes:
        try:
            while True:
                data: bytes = self._data.read(size)
                if self._decoder is None:
                    return data
                text = self._decoder.decode(data, not data).encode()
                if text or not data:
                    return text
        except UnicodeDecodeError as error:
            raise BadFile(f"its text is not {error.encoding}: {error.reason}; set the charset of the files") from error
        except _BROKEN as error:
            raise BadFile(f"its compressed contents are broken: {error}") from error
        except OSError as error:
            if error.errno is None:  # of a library, not of the disk
                raise BadFile(f"its compressed contents are broken: {error}") from error
            raise RetriableError(f"A file cannot be read: {error}") from error

    def pass_to(self, position: int) -> None:
        """Go forward to a position. Errors: as `read`."""
        if self._is_plain:
            self._file.seek(position)
            self._position, self._rest = position, b""
            return
        while self._position < position:
            data = self.read(_PASSED_BYTES)
            if not data:
                raise BadFile(f"its text ends at {self._position}, before the stored position {position}")
            if self._position > position:
                excess = self._position - position
                self._rest, self._position = data[-excess:], position

    def has_grown(self, size: int) -> bool:
        """True if the file has another size now."""
        return os.fstat(self._file.fileno()).st_size != size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _decompressed(file: Any, suffix: str) -> Any:
    match suffix:
        case ".gz":
            return gzip.GzipFile(fileobj=file)
        case ".bz2":
            return bz2.BZ2File(file)
        case ".lz4":
            return pa.CompressedInputStream(pa.PythonFile(file), "lz4")
        case ".zst":
            return pa.CompressedInputStream(pa.PythonFile(file), "zstd")
        case ".snappy" | ".sz":
            return _Snappy(file)
    return file


class _Snappy:
    """Snappy's framing format; of its check sums none is looked at."""

    def __init__(self, file: Any) -> None:
        self._chunks = _snappy_chunks(file)

    def read(self, size: int) -> bytes:
        return next(self._chunks, b"")


def _snappy_chunks(file: Any) -> Iterator[bytes]:
    if file.read(len(_SNAPPY_BEGIN)) != _SNAPPY_BEGIN:
        raise BadFile("it does not begin as snappy's framing format")
    while header := file.read(_SNAPPY_HEADER_BYTES):
        kind, size = header[0], int.from_bytes(header[1:], "little")
        body = file.read(size)
        if len(header) < _SNAPPY_HEADER_BYTES or len(body) < size:
            raise EOFError("it ends within a chunk")
        if kind > 1 and kind < 0x80:
            raise BadFile(f"it has a chunk of the unknown kind {kind}")
        data = body[_SNAPPY_CHECK_BYTES:]
        if kind == 0:
            data = pa.Codec("snappy").decompress(data, decompressed_size=_snappy_size(data), asbytes=True)
        if kind < 2 and data:  # nothing at all is the end of the text
            yield data


def _snappy_size(body: bytes) -> int:
    size = 0
    for number, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            if size > _SNAPPY_MOST_BYTES:
                raise BadFile(f"it has a chunk of {size} bytes, but the format allows {_SNAPPY_MOST_BYTES}")
            return size
    raise BadFile("it has a chunk without a size")
