"""The codecs of Avro container files: a block to its compressed form and back."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from headrace.plugins.errors import DataError
from headrace.plugins.interop.formats.appending import Data

_RAW: Final = -15
"""zlib's sign for deflate without header and check sum."""
_CHECK_BYTES: Final = 4


def _deflate(data: Data) -> bytes:
    made = zlib.compressobj(wbits=_RAW)
    return made.compress(data) + made.flush()


def _snappy(data: Data) -> bytes:
    body: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return body + zlib.crc32(data).to_bytes(_CHECK_BYTES, "big")


def _of_snappy(data: bytes) -> bytes:
    body, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    whole: bytes = pa.Codec("snappy").decompress(body, decompressed_size=_snappy_size(body), asbytes=True)
    if zlib.crc32(whole) != int.from_bytes(check, "big"):
        raise DataError("The check sum of a block is wrong")
    return whole


def _snappy_size(body: bytes) -> int:
    """The size at the beginning of a snappy body: seven bits a byte, the low ones first."""
    size = 0
    for number, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return size
    raise DataError("A block has no size")


def _of_zstandard(data: bytes) -> bytes:
    whole: bytes = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return whole


COMPRESS: Final[Mapping[str, Callable[[Data], Data]]] = {
    "null": lambda data: data,
    "deflate": _deflate,
    "snappy": _snappy,
    "bzip2": bz2.compress,
    "zstandard": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}
"""By their names in files and in the setting `avro.codec`."""
DECOMPRESS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.decompress(data, wbits=_RAW),
    "snappy": _of_snappy,
    "bzip2": bz2.decompress,
    "zstandard": _of_zstandard,
    "xz": lzma.decompress,
}
