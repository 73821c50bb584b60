"""The bytes between a schema's name and a message: the indexes of the message's type, as zigzag varints."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plugins.contracts import DataError


def indexes_of_bytes(data: bytes) -> list[int]:
    """The indexes that these bytes begin with. Errors: DataError."""
    return _read(data)[0]


def head_length(data: bytes) -> int:
    """The length of the indexes that these bytes begin with. Errors: DataError."""
    return _read(data)[1]


def indexes_after(indexes: Sequence[int]) -> bytes:
    """The bytes of these indexes."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(map(_varint, [len(indexes), *indexes]))


def _read(data: bytes) -> tuple[list[int], int]:
    count, at = _number(data, 0)
    found: list[int] = []
    for _ in range(count):
        index, at = _number(data, at)
        found.append(index)
    return found or [0], at


def _number(data: bytes, at: int) -> tuple[int, int]:
    bits = 0
    for place in range(5):
        if at + place >= len(data):
            break
        byte = data[at + place]
        bits |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), at + place + 1
    raise DataError("The bytes end within the indexes of their message")


def _varint(number: int) -> bytes:
    bits, made = number << 1, bytearray()
    while bits > 0x7F:
        made.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*made, bits])
