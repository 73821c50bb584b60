"""The order in which Java's HashMap lists texts."""

from __future__ import annotations

from collections.abc import Iterable

_FEWEST = 16
_LOAD = 0.75


def hash_ordered(keys: Iterable[str]) -> list[str]:
    """Return the distinct texts in the order of a HashMap to which they were added one by one.

    A HashMap that sorts one of its buckets as a tree, which takes eight texts of nearly equal hash codes, has another.
    """
    distinct = list(dict.fromkeys(keys))
    size = _FEWEST
    while len(distinct) > size * _LOAD:
        size *= 2
    return sorted(distinct, key=lambda text: _spread(text) & (size - 1))


def _spread(text: str) -> int:
    """Return Java's hash code of a text, its upper half mixed into the lower."""
    code = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(data), 2):
        code = (31 * code + (data[place] << 8 | data[place + 1])) & 0xFFFFFFFF
    return code ^ (code >> 16)
