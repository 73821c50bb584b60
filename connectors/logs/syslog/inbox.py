"""Messages that have arrived and are not durable in Kafka yet; bounded in bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

_OVERHEAD_BYTES: Final = 64
"""Of a message, beside its own bytes."""

_SMALL_BYTES: Final = 1 << 16
_MOST_LOOSE: Final = 100
"""The most small batches that follow each other: one of a single message takes 2 KiB more than the message."""

ARRIVED: Final = pa.schema([("data", pa.binary()), ("remote", pa.string()), ("received", pa.int64())])
"""Units of `received`: milliseconds since 1970."""


@dataclass
class Counts:
    """Counts of messages by what became of them, for metrics."""

    received: int = 0
    dropped: int = 0
    truncated: int = 0
    refused: int = 0
    """Connections that were refused or broken off."""


@dataclass
class Inbox:
    """Keeps messages in the order of their arrival until they are released; any thread may call."""

    most_bytes: int
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: deque[tuple[int, pa.RecordBatch]] = deque()
        """Each with the number of its first message."""
        self._next = 0
        self._bytes = 0
        self._loose = 0
        """Small batches at the end; some may be released already."""

    @property
    def has_room(self) -> bool:
        """False if no more may be put in."""
        return self._bytes < self.most_bytes

    def put(self, messages: Sequence[bytes], remotes: Sequence[str], received_ms: int) -> None:
        """Adds messages."""
        count = len(messages)
        columns = [pa.array(messages, pa.binary()), pa.array(remotes, pa.string())]
        batch = pa.record_batch([*columns, pa.repeat(pa.scalar(received_ms), count)], schema=ARRIVED)
        with self._lock:
            self._batches.append((self._next, batch))
            self._next += count
            self._bytes += _size(batch)
            self.counts.received += count
            self._join(batch)

    def _join(self, batch: pa.RecordBatch) -> None:
        """Joins the last batches if this one is one more of many small ones."""
        self._loose = self._loose + 1 if batch.nbytes < _SMALL_BYTES else 0
        if self._loose < _MOST_LOOSE:
            return
        loose = [self._batches.pop() for _ in range(min(self._loose, len(self._batches)))][::-1]
        self._batches.append((loose[0][0], pa.concat_batches([one for _, one in loose])))
        self._bytes += _size(self._batches[-1][1]) - sum(_size(one) for _, one in loose)
        self._loose = 0

    def release(self, number: int) -> None:
        """Forgets the messages before this number."""
        with self._lock:
            while self._batches and self._batches[0][0] < number:
                first, batch = self._batches.popleft()
                self._bytes -= _size(batch)
                rest = batch.slice(number - first)
                if rest.num_rows:
                    self._batches.appendleft((number, rest))
                    self._bytes += _size(rest)

    def messages(self, rows: int, most_bytes: int) -> pa.RecordBatch | None:
        """The next messages within these limits, one at least; they stay until they are released."""
        taken: list[pa.RecordBatch] = []
        with self._lock:
            for _, batch in self._batches:
                if taken and (rows <= 0 or most_bytes <= 0):
                    break
                part = _within(batch, rows, most_bytes)
                taken.append(part)
                rows, most_bytes = rows - part.num_rows, most_bytes - part.nbytes
                if part.num_rows < batch.num_rows:
                    break
        return pa.Table.from_batches(taken).combine_chunks().to_batches()[0] if taken else None


def _within(batch: pa.RecordBatch, rows: int, most_bytes: int) -> pa.RecordBatch:
    part = batch.slice(0, max(1, rows))
    while part.num_rows > 1 and part.nbytes > most_bytes:
        part = part.slice(0, max(1, part.num_rows * most_bytes // part.nbytes))
    return part


def _size(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes) + _OVERHEAD_BYTES * int(batch.num_rows)
