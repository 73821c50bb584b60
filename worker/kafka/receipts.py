"""Receipts for each record of a batch: its place in Kafka, for sources with `Deliveries.ALL`.

Records are numbered as they are sent; each delivery report returns the number (librdkafka's opaque).
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
_NOWHERE: Final = -1
_COLUMNS: Final = ["source_offset", "topic", "partition", "offset", "timestamp"]


class _Sent(NamedTuple):
    """Rows of one split; `first` is the number of the first row."""

    first: int
    rows: pa.RecordBatch


class _Arrived(NamedTuple):
    """Records that arrived in one partition together."""

    topic: str
    partition: int
    numbers: Numbers
    offsets: Numbers
    timestamps: Numbers
    by_broker: bool
    """True if the topic stores the time of arrival (LogAppendTime)."""


class Receipts:
    """Records of a batch that were sent and that arrived; for the producer's thread only."""

    def __init__(self) -> None:
        self._next = 0
        self._calls: list[int] = []
        self._sent: list[_Sent] = []
        self._marked = 0
        self._arrived: list[_Arrived] = []

    def clear(self) -> None:
        """Forget the batch; all its records have been reported."""
        self._next = self._marked = 0
        for known in (self._calls, self._sent, self._arrived):
            known.clear()

    def sending(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Note the rows to be sent next; returns them so that all or none have a timestamp."""
        stamps = rows["timestamp"]
        if 0 < stamps.null_count < len(rows):
            stamps = stamps.fill_null(int(time.time() * 1000))
            rows = rows.set_column(rows.schema.names.index("timestamp"), "timestamp", stamps)
        if rows.num_rows:
            self._sent.append(_Sent(self._next, rows.select(["source_offset", "split", "timestamp"])))
        return rows

    def numbers(self, count: int) -> npt.NDArray[np.uint64]:
        """Return the numbers of the next `count` records."""
        return np.arange(self._next, self._next + count, dtype=np.uint64)

    def sent(self, count: int) -> None:
        """Note that the producer took `count` records; numbering goes on after them."""
        if count:
            self._calls.append(self._next)
            self._next += count

    def mark(self) -> None:
        """Settle all rows sent so far."""
        self._marked = len(self._sent)

    def restart(self) -> None:
        """Go back to the mark: later rows, even those that arrived, are sent again one by one."""
        del self._sent[self._marked :]

    def arrived(
        self,
        topic: str,
        partition: int,
        numbers: Numbers,
        offsets: Numbers,
        timestamp: Callable[[int], tuple[int, bool]],
    ) -> None:
        """Note records that arrived in one partition together.

        Offsets count up from the first; a negative first offset means that they are unknown.
        `timestamp(index)`, called for some records only, returns the timestamp, and True if the broker set it.
        """
        if offsets[0] < 0:
            offsets = np.full(len(offsets), _NOWHERE, np.int64)
        # Records without a timestamp share that of the call that sent them, so one look-up a call is enough.
        first, by_broker = timestamp(0)
        stamps = np.full(len(numbers), first, np.int64)
        if not by_broker and bisect_right(self._calls, numbers[0]) != bisect_right(self._calls, numbers[-1]):
            calls = np.searchsorted(np.array(self._calls), numbers, "right")
            _, begins, of = np.unique(calls, return_index=True, return_inverse=True)
            stamps = np.array([timestamp(int(index))[0] for index in begins], np.int64)[of]
        self._arrived.append(_Arrived(topic, partition, numbers, offsets, stamps, by_broker))

    def of(self, split: int) -> pa.RecordBatch | None:
        """Return the split's rows that arrived, shaped as `PartitionResult.acknowledged`; None if no row was sent."""
        topics = sorted({one.topic for one in self._arrived})
        names = pa.array(topics, pa.string())
        in_topic = np.full(self._next, _NOWHERE, np.int32)
        partitions, by_broker = np.zeros(self._next, np.int32), np.zeros(self._next, bool)
        offsets, timestamps = np.zeros(self._next, np.int64), np.zeros(self._next, np.int64)
        for one in self._arrived:
            at = one.numbers
            in_topic[at], partitions[at], by_broker[at] = topics.index(one.topic), one.partition, one.by_broker
            offsets[at], timestamps[at] = one.offsets, one.timestamps
        found = []
        for first, rows in self._sent:
            if rows["split"][0].as_py() != split:
                continue
            known = slice(first, first + len(rows))
            stamps = timestamps[known]
            if rows["timestamp"].null_count == 0:
                stamps = np.where(by_broker[known], stamps, rows["timestamp"].to_numpy())
            is_there = in_topic[known] != _NOWHERE
            numbers = (column[known][is_there] for column in (in_topic, partitions, offsets))
            columns = [rows["source_offset"].filter(pa.array(is_there)), *map(pa.array, (*numbers, stamps[is_there]))]
            columns[1] = names.take(columns[1])
            found.append(pa.RecordBatch.from_arrays(columns, names=_COLUMNS))
        return pa.concat_batches(found) if found else None
