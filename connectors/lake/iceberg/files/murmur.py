"""Murmur3 (x86, 32 bits, seed 0) of whole arrays, which Iceberg's buckets are made of."""

from __future__ import annotations

from typing import Final

import numpy as np

_C1: Final = np.uint32(0xCC9E2D51)
_C2: Final = np.uint32(0x1B873593)
_N: Final = np.uint32(0xE6546B64)
_FIVE: Final = np.uint32(5)


def hash_longs(values: np.ndarray) -> np.ndarray:
    """Return the hashes of 64-bit numbers, as int32."""
    words = np.ascontiguousarray(values, np.int64).view(np.uint32).reshape(-1, 2)
    made = np.zeros(len(words), np.uint32)
    for number in (0, 1):
        made = _mixed_in(made, words[:, number])
    return _finished(made, np.uint32(8))


def hash_bytes(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the hashes of texts in UTF-8 or of binary values, as int32; `offsets` has one more than there are."""
    begins, sizes = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    made, blocks = np.zeros(len(sizes), np.uint32), sizes // 4
    rows = np.arange(len(sizes))
    for number in range(int(blocks.max(initial=0))):
        rows = rows[blocks[rows] > number]
        made[rows] = _mixed_in(made[rows], _word(padded, begins[rows] + 4 * number))
    rest = sizes % 4
    tails = np.flatnonzero(rest)
    words = _word(padded, begins[tails] + 4 * blocks[tails]) & _MASKS[rest[tails]]
    made[tails] ^= _scrambled(words)
    return _finished(made, sizes.astype(np.uint32))


_MASKS: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)


def _word(data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The little-endian words at these places."""
    made = np.zeros(len(places), np.uint32)
    for number in range(4):
        made |= data[places + number].astype(np.uint32) << np.uint32(8 * number)
    return made


def _rotated(words: np.ndarray, bits: int) -> np.ndarray:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


def _scrambled(words: np.ndarray) -> np.ndarray:
    return _rotated(words * _C1, 15) * _C2


def _mixed_in(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _rotated(hashes ^ _scrambled(words), 13) * _FIVE + _N


def _finished(hashes: np.ndarray, sizes: np.ndarray | np.uint32) -> np.ndarray:
    made = hashes ^ sizes
    made ^= made >> np.uint32(16)
    made *= np.uint32(0x85EBCA6B)
    made ^= made >> np.uint32(13)
    made *= np.uint32(0xC2B2AE35)
    made ^= made >> np.uint32(16)
    return made.view(np.int32)
