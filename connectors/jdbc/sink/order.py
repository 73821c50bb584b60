"""Orders a batch's rows into groups that are written together, with the same result as one by one.

Rows of one layout go together. A key's rows of several layouts must keep their order: each change of the layout among
the rows of a key begins another wave, and the waves go one after the other. Most keys are once in a batch, so most
batches have one wave, however its layouts alternate. A row that a later row of its key deletes need not be written: a
key that comes and goes many times has two waves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

_ALIKE: Final = {"ẞ": "S", "Æ": "AE", "Œ": "OE", "Ø": "O", "Ð": "D", "Đ": "D", "Ł": "L", "Þ": "TH", "Ħ": "H"}
"""Letters that a collation may equate with others."""


def numbered(columns: Sequence[pa.Array], rows: int) -> Numbers:
    """Number the rows, from 0 without gaps: equal numbers for rows that are equal in all these columns.

    Null equals null.
    """
    numbers: Numbers = np.zeros(rows, np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        numbers = numbers * max(1, len(encoded.dictionary)) + codes
        if len(columns) > 1:
            numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    return numbers


def waves(keys: Numbers, layouts: Numbers) -> Numbers:
    """The wave of each row: the changes of layout before it among the rows of its key."""
    if not len(keys):
        return keys
    order = np.argsort(keys, kind="stable")
    key, layout = keys[order], layouts[order]
    same_key = key[1:] == key[:-1]
    changed = np.concatenate([[False], same_key & (layout[1:] != layout[:-1])])
    count = np.cumsum(changed)
    at_first = np.maximum.accumulate(np.where(np.concatenate([[True], ~same_key]), count, 0))
    wave = np.empty_like(count)
    wave[order] = count - at_first
    return wave.astype(np.int64)


def not_deleted(keys: Numbers, deletes: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Numbers:
    """The indices of the rows that no later row of their key deletes, in order."""
    last = np.full(int(keys.max()) + 1 if len(keys) else 0, -1, np.int64)
    last[keys[deletes]] = np.flatnonzero(deletes)
    return np.flatnonzero(np.arange(len(keys)) >= last[keys]).astype(np.int64)


def last_of_each(keys: Numbers) -> Numbers:
    """The indices of the last row of each key, in order; `keys` may leave numbers out."""
    last = np.full(int(keys.max()) + 1 if len(keys) else 0, -1, np.int64)
    # NumPy keeps the last value of an index that comes several times.
    last[keys] = np.arange(len(keys))
    return np.sort(last[last >= 0])


def by_key(rows: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """The rows sorted by these columns: an index is walked once, and two writers of the same rows do not deadlock."""
    return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in columns]))


def exact_bytes(column: pa.Array) -> pa.Array:
    """The values as bytes."""
    return column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())


def rough_bytes(column: pa.Array) -> pa.Array:
    """The values as bytes, equal if a database may ignore their differences in case, accents or endings."""
    if not pa.types.is_string(column.type):
        return exact_bytes(column)
    plain = pc.utf8_upper(column)
    if not pc.all(pc.string_is_ascii(plain)).as_py():
        plain = pc.replace_substring_regex(pc.utf8_normalize(plain, "NFKD"), r"[\p{M}\p{C}]+", "")
        for letter, alike in _ALIKE.items():
            plain = pc.replace_substring(plain, letter, alike)
        plain = pc.utf8_upper(plain)
    else:  # the same as among others
        plain = pc.replace_substring_regex(plain, "[[:cntrl:]]+", "")
    plain = pc.replace_substring_regex(plain, "S+", "S")  # as ß is to some
    return exact_bytes(pc.utf8_rtrim_whitespace(plain))
