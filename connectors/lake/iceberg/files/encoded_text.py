"""Texts that stand for bytes: UUIDs and base64, decoded as whole arrays."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_UUID: Final = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
_BASE64: Final = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def _table(letters: bytes) -> np.ndarray:
    made = np.zeros(256, np.uint8)
    made[np.frombuffer(letters, np.uint8)] = np.arange(len(letters))
    return made


_HEX: Final = _table(b"0123456789abcdef")
_SIXES: Final = _table(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def of_uuids(array: pa.Array) -> pa.Array:
    """Return the 16 bytes of each UUID. Errors: pa.ArrowInvalid for another text."""
    if pc.any(pc.invert(pc.match_substring_regex(array, _UUID))).as_py():
        raise pa.ArrowInvalid("the text is no UUID")
    bare = pc.fill_null(pc.utf8_lower(pc.replace_substring(array, "-", "")), "0" * 32)
    digits = _HEX[_bytes_of(bare)]
    made = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), len(array), [None, pa.py_buffer((digits[0::2] << 4 | digits[1::2]).tobytes())]
    )
    return pc.if_else(array.is_valid(), made, None) if array.null_count else made


def of_base64(array: pa.Array) -> pa.Array:
    """Return the bytes of each text. Errors: pa.ArrowInvalid for another text."""
    if pc.any(pc.invert(pc.match_substring_regex(array, _BASE64))).as_py():
        raise pa.ArrowInvalid("the text is no base64")
    text = pc.cast(pc.fill_null(array, ""), pa.string())
    padding = pc.subtract(pc.binary_length(text), pc.binary_length(pc.utf8_rtrim(text, "=")))
    sizes = pc.binary_length(text).to_numpy().astype(np.int64)
    ends = np.cumsum(sizes // 4 * 3)
    sixes = _SIXES[_bytes_of(text)].reshape(-1, 4)
    whole = np.empty((len(sixes), 3), np.uint8)
    whole[:, 0] = sixes[:, 0] << 2 | sixes[:, 1] >> 4
    whole[:, 1] = sixes[:, 1] << 4 | sixes[:, 2] >> 2
    whole[:, 2] = sixes[:, 2] << 6 | sixes[:, 3]
    kept, cut = np.ones(whole.size, bool), padding.to_numpy()
    kept[ends[cut > 0] - 1] = False
    kept[ends[cut > 1] - 2] = False
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(sizes // 4 * 3 - cut, out=offsets[1:])
    made = pa.BinaryArray.from_buffers(
        pa.binary(), len(array), [None, pa.py_buffer(offsets), pa.py_buffer(whole.reshape(-1)[kept].tobytes())]
    )
    return pc.if_else(array.is_valid(), made, None) if array.null_count else made


def _bytes_of(array: pa.Array) -> np.ndarray:
    """Return the bytes of all texts, one after the other."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.empty(0, np.uint8)
