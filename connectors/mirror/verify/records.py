"""Compares records in Arrow batches in two ways: by a digest of a range, and by a fingerprint of each.

A digest depends on the order and on every byte, and not on the cuts into batches; it is the same in every process. A
fingerprint is a number of 64 bits for one record, for this process alone: equal records have equal ones, and two
different records have the same one so seldom that it is ignored.

Shape: batches have at least the columns `timestamp`, `headers`, `key` and `value` of `KAFKA_ROW`; null headers and an
empty list are the same.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Fingerprints = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

_MIX: Final = [np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)]


_STREAMS: Final = {
    "keys": ("key lengths", "keys"),
    "values": ("value lengths", "values"),
    "headers": ("header counts", "name lengths", "names", "content lengths", "contents"),
    "timestamps": ("timestamps",),
}
"""The columns, with the streams of bytes that their parts make."""

COLUMNS: Final = tuple(_STREAMS)


class RangeDigest:
    """The digest of a range of records, batch after batch."""

    def __init__(self, timestamps: bool = True) -> None:
        """Without `timestamps` they are left out, for ranges in which they cannot be equal."""
        self.count = 0
        self.bytes = 0
        self._timestamps = timestamps
        self._streams = {name: hashlib.blake2b(digest_size=16) for names in _STREAMS.values() for name in names}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next records."""
        self.count += batch.num_rows
        self._add_binary("key lengths", "keys", batch["key"])
        self._add_binary("value lengths", "values", batch["value"])
        if self._timestamps:
            self._streams["timestamps"].update(_numbers(batch["timestamp"], -1))
        headers = batch["headers"]
        self._streams["header counts"].update(_numbers(pc.list_value_length(headers), 0))
        each = headers.flatten()
        self._add_binary("name lengths", "names", pc.struct_field(each, "key"))
        self._add_binary("content lengths", "contents", pc.struct_field(each, "value"))

    def columns(self) -> dict[str, str]:
        """The digest of each column, in hexadecimal."""
        whole = {name: b"".join(self._streams[one].digest() for one in own) for name, own in _STREAMS.items()}
        return {name: hashlib.blake2b(data, digest_size=8).hexdigest() for name, data in whole.items()}

    def hex(self) -> str:
        """The digest of the range, in hexadecimal."""
        return hashlib.blake2b("".join(self.columns().values()).encode(), digest_size=16).hexdigest()

    def _add_binary(self, lengths: str, contents: str, column: pa.Array) -> None:
        """Lengths (null is -1) and contents are two streams, so that no cut into batches shows."""
        self._streams[lengths].update(_numbers(pc.binary_length(column), -1))
        dense = column.drop_null() if column.null_count else column
        if len(dense):
            content = _content(dense)
            self.bytes += content.size
            self._streams[contents].update(content)


def _numbers(column: pa.Array, null: int) -> bytes:
    filled = pc.fill_null(pc.cast(column, pa.int64()), null)
    return bytes(filled.to_numpy(zero_copy_only=False).tobytes())


def _content(dense: pa.Array) -> Any:
    """The values of a binary column without nulls, one after the other."""
    width = np.dtype(np.int64 if pa.types.is_large_binary(dense.type) else np.int32)
    offsets = np.frombuffer(dense.buffers()[1], width)[dense.offset : dense.offset + len(dense) + 1]
    return np.frombuffer(dense.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]


def fingerprints(batch: pa.RecordBatch, timestamps: bool = True) -> Fingerprints:
    """One number for each record; without `timestamps` they do not count."""
    headers = _hashes(batch["headers"].to_pylist(), repr)
    result = key_fingerprints(batch) * _MIX[0] + _hashes(batch["value"].to_pylist())
    result = (result ^ (result >> np.uint64(29))) * _MIX[1] + headers
    if timestamps:
        times = pc.fill_null(batch["timestamp"], -1).to_numpy(zero_copy_only=False).view(np.uint64)
        result = (result ^ (result >> np.uint64(31))) * _MIX[2] + times
    return result


def key_fingerprints(batch: pa.RecordBatch) -> Fingerprints:
    """One number for each record's key."""
    return _hashes(batch["key"].to_pylist())


def _hashes(values: list[Any], shown: Any = None) -> Fingerprints:
    """Python's own hash of each, called from C."""
    hashable = values if shown is None else [shown(value) if value else None for value in values]
    return np.fromiter(map(hash, hashable), np.int64, len(values)).view(np.uint64)
