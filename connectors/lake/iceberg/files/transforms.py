"""Iceberg's partition transforms of whole arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.files.murmur import hash_bytes, hash_longs

Transform = Callable[[pa.Array], pa.Array]
"""Returns null for null. The types: int32 of buckets, years, months and hours, date32 of days, else the source's."""

_NUMBERED: Final = re.compile(r"(bucket|truncate)\[(\d+)\]")
_MOST_DIGITS_OF_LONG: Final = 18
_PER_SECOND: Final = {"us": 1_000_000, "ns": 1_000_000_000}


def transform(text: str, where: str) -> Transform:
    """Return the transform of Iceberg's text; `where` names its field in errors. Errors: LakeError."""
    if (found := _PLAIN.get(text)) is not None:
        return found
    if (numbered := _NUMBERED.fullmatch(text)) is not None:
        number = int(numbered[2])
        return (lambda array: _bucket(array, number)) if numbered[1] == "bucket" else lambda a: _truncate(a, number)
    raise LakeError(f"The table's partition field {where} has the transform {text}, which this connector does not know")


def storage(array: pa.Array) -> pa.Array:
    """Return the bytes of UUIDs, other arrays as they are."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _identity(array: pa.Array) -> pa.Array:
    return array


def _void(array: pa.Array) -> pa.Array:
    return pa.nulls(len(array), pa.int32())


# -- bucket ------------------------------------------------------------------------------------------------------------


def _bucket(array: pa.Array, number: int) -> pa.Array:
    hashes = _hashes(array) & np.int32(0x7FFFFFFF)
    made = pa.array((hashes % np.int32(number)).astype(np.int32))
    return pc.if_else(array.is_valid(), made, None) if array.null_count else made


def _hashes(array: pa.Array) -> np.ndarray:
    plain = storage(array)
    kind = plain.type
    if pa.types.is_decimal(kind):
        return hash_bytes(*_unscaled(plain))
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind) or pa.types.is_string(kind):
        bytes_ = pc.fill_null(pc.cast(plain, pa.binary()), b"")
        offsets = np.frombuffer(bytes_.buffers()[1], np.int32)[bytes_.offset : bytes_.offset + len(bytes_) + 1]
        data = bytes_.buffers()[2]
        return hash_bytes(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), offsets)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return hash_longs(_longs(plain) // 1000)
    return hash_longs(_longs(plain))


def _longs(array: pa.Array) -> np.ndarray:
    """Integers and times as 64-bit numbers, 0 for null."""
    width = pa.int32() if array.type.bit_width == 32 else pa.int64()
    numbers = pc.fill_null(array.view(width), 0).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, np.int64)


def _words(array: pa.Array) -> np.ndarray:
    """The 16 bytes of decimals, little-endian, 0 for null."""
    data = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, 16)[array.offset : array.offset + len(array)]
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid[:, None], data, np.uint8(0))


def _unscaled(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Decimals as the fewest big-endian bytes of their unscaled values, with offsets."""
    words = _words(array)[:, ::-1]
    sign = np.where(words[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0))
    same = np.cumprod(words == sign, axis=1).sum(axis=1)  # leading bytes that only carry the sign
    first = np.minimum(same, 15)
    is_other = ((words[np.arange(len(words)), first] ^ sign[:, 0]) & 0x80) != 0
    skipped = np.where((same < 16) & is_other, first - 1, first)
    kept = np.arange(16)[None, :] >= skipped[:, None]
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum(16 - skipped, out=offsets[1:])
    return words[kept], offsets


# -- truncate ----------------------------------------------------------------------------------------------------------


def _truncate(array: pa.Array, width: int) -> pa.Array:
    kind = array.type
    if pa.types.is_string(kind):
        return pc.utf8_slice_codeunits(array, 0, width)
    if pa.types.is_binary(kind):
        return pc.binary_slice(array, 0, width)
    if pa.types.is_decimal(kind):
        return _truncated_decimals(array, width)
    numbers = _longs(array)
    made = pa.array((numbers - numbers % width).astype(kind.to_pandas_dtype()))
    return pc.if_else(array.is_valid(), made, None) if array.null_count else made


def _truncated_decimals(array: pa.Array, width: int) -> pa.Array:
    if array.type.precision > _MOST_DIGITS_OF_LONG:
        raise LakeError(
            f"A partition field truncates decimals of {array.type.precision} digits; this connector does so only for "
            f"up to {_MOST_DIGITS_OF_LONG}. Give the table another partition spec"
        )
    numbers = np.ascontiguousarray(_words(array)[:, :8]).view(np.int64)[:, 0]
    made = numbers - numbers % width
    words = np.stack([made, made >> 63], axis=1)
    whole = pa.Array.from_buffers(array.type, len(array), [None, pa.py_buffer(words.tobytes())])
    return pc.if_else(array.is_valid(), whole, None) if array.null_count else whole


# -- times -------------------------------------------------------------------------------------------------------------


def _units(array: pa.Array, unit: str) -> pa.Array:
    """Whole units since 1970, in UTC."""
    count = "D" if pa.types.is_date(array.type) else array.type.unit
    times = _longs(array).view(f"M8[{count}]")
    made = pa.array(times.astype(f"M8[{unit}]").astype(np.int64).astype(np.int32))
    return pc.if_else(array.is_valid(), made, None) if array.null_count else made


_PLAIN: Final[dict[str, Transform]] = {
    "identity": _identity,
    "void": _void,
    "year": lambda array: _units(array, "Y"),
    "month": lambda array: _units(array, "M"),
    "day": lambda array: _units(array, "D").view(pa.date32()),
    "hour": lambda array: _units(array, "h"),
}
