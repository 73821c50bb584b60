"""The blocks of an Avro container file, decompressed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from headrace.plugins.errors import DataError
from headrace.plugins.interop.formats.avro_codecs import DECOMPRESS

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
_BUFFER_BYTES: Final = 1 << 20
_MOST_BYTES: Final = 1 << 31
"""The most bytes of a block, or of an entry of the header; more is a broken file."""


class Block(NamedTuple):
    """Some values, one after the other."""

    rows: int
    data: bytes
    skipped: int
    """So many of its first rows are not wanted."""


@dataclass(frozen=True)
class Header:
    """The beginning of a file."""

    schema: str
    codec: str
    sync: bytes


def opened(file: pa.NativeFile) -> tuple[Header, pa.NativeFile]:
    """Reads the header; returns it and the file at its first block, to be read in large pieces.

    Errors: DataError for a file of another kind.
    """
    file.seek(0)
    stream = pa.BufferedInputStream(file, _BUFFER_BYTES)
    if stream.read(len(MAGIC)) != MAGIC:
        raise DataError("The file is not an Avro container file")
    entries: dict[bytes, bytes] = {}
    while count := _long(stream):
        if count < 0:
            _long(stream)
        for _ in range(abs(count)):
            key = _bytes(stream)
            entries[key] = _bytes(stream)
    codec = entries.get(b"avro.codec", b"null").decode()
    if codec not in DECOMPRESS:
        raise DataError(f"The file is compressed by {codec}, which cannot be read; known are {', '.join(DECOMPRESS)}")
    return Header(entries.get(b"avro.schema", b"").decode(), codec, _exactly(stream, SYNC_BYTES)), stream


def blocks(header: Header, stream: pa.NativeFile, skip: int) -> Iterator[Block]:
    """The blocks, without those whose rows are all among the first `skip`.

    Errors: DataError for a file that ends within a block, or is broken.
    """
    while (begin := stream.read(1)) != b"":
        rows, data = _long(stream, begin), _bytes(stream)
        if _exactly(stream, SYNC_BYTES) != header.sync:
            raise DataError("The Avro file is broken: a block does not end with the file's mark")
        if rows < 0:
            raise DataError("The Avro file is broken: a block has less than no rows")
        if skip >= rows:
            skip -= rows
        else:
            yield Block(rows, _decompressed(header.codec, data), skip)
            skip = 0


def _decompressed(codec: str, data: bytes) -> bytes:
    try:
        return DECOMPRESS[codec](data)
    except DataError:
        raise
    except Exception as error:  # each codec has its own
        raise DataError(f"The Avro file is broken: {codec}: {error}") from error


def _exactly(stream: pa.NativeFile, size: int) -> bytes:
    data: bytes = stream.read(size) if 0 <= size < _MOST_BYTES else b""
    if len(data) != size:
        raise DataError("The Avro file is broken: it ends too early")
    return data


def _bytes(stream: pa.NativeFile) -> bytes:
    return _exactly(stream, _long(stream))


def _long(stream: pa.NativeFile, begin: bytes = b"") -> int:
    number, shift = 0, 0
    while True:
        byte = (begin or _exactly(stream, 1))[0]
        begin = b""
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
        shift += 7
        if shift > 63:
            raise DataError("The Avro file is broken: a number has no end")


def encoded_long(number: int) -> bytes:
    """A nonnegative number as Avro's long."""
    left, made = number << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)
