"""Apache Connect's standalone offset file, byte for byte: a HashMap<byte[], byte[]> as Java serializes it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_MAGIC = b"\xac\xed\x00\x05"
_OBJECT, _CLASS, _REFERENCE, _ARRAY = b"\x73", b"\x72", b"\x71", b"\x75"
_NULL, _BLOCK, _END = b"\x70", b"\x77", b"\x78"


def hash_map(entries: Sequence[tuple[bytes | None, bytes | None]], buckets: int = 16) -> bytes:
    """The stream of a map with these entries, in this order."""
    fields = b"F" + _text("loadFactor") + b"I" + _text("threshold")
    described = _CLASS + _text("java.util.HashMap") + bytes.fromhex("0507dac1c31660d1") + b"\x03\x00\x02" + fields
    stream = _MAGIC + _OBJECT + described + _END + _NULL + struct.pack(">fi", 0.75, buckets * 3 // 4)
    stream += _BLOCK + b"\x08" + struct.pack(">ii", buckets, len(entries))
    first = True
    for data in (data for entry in entries for data in entry):
        if data is None:
            stream += _NULL
            continue
        stream += _ARRAY
        if first:
            stream += _CLASS + _text("[B") + bytes.fromhex("acf317f8060854e0") + b"\x02\x00\x00" + _END + _NULL
            first = False
        else:
            stream += _REFERENCE + struct.pack(">i", 0x7E0002)
        stream += struct.pack(">i", len(data)) + data
    return stream + _END


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
