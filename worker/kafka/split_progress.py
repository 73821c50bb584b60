"""The progress of a source's splits on their way to Kafka."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plugins.offsets import PartitionResult, Stop
from headrace.worker.kafka.distinct import distinct
from headrace.worker.outcome import Progress

log = logging.getLogger(__name__)


class SplitProgress(Progress):
    """How far one split got, by the `source_offset` of its rows."""

    def __init__(self, rows_share_offsets: bool = False) -> None:
        """`rows_share_offsets`: rows with equal offsets count only together."""
        super().__init__()
        self._rows_share_offsets = rows_share_offsets
        self._before: pa.Scalar | None = None
        self._end: pa.Scalar | None = None
        self._last: pa.Scalar | None = None
        self._met: tuple[Stop, str] | None = None
        self._sure: tuple[int, pa.Scalar | None, pa.Scalar | None, Stop | None, str | None] = 0, None, None, None, None
        self.topics: set[str] = set()
        self.last_sent: pa.Scalar | None = None
        """The offset of the last row that `note_places` was called with."""
        self.places: set[tuple[str, int | None]] = set()
        """The Kafka partitions that such rows went to, at least two where there were more."""

    def take(self, rows: pa.RecordBatch, tolerate: bool) -> pa.RecordBatch:
        """The rows to send: up to the first bad one (or without the bad ones), and without the dropped ones."""
        if rows["error"].null_count < len(rows):
            bad = rows["error"].is_valid()
            if not tolerate:
                first = pc.index(bad, True).as_py()
                error = rows["error"][first].as_py()
                self._met = Stop.FATAL, f"{error['stage']} ({error['class']}): {error['message']}"
                self.stop, self.reason = self._met
                rows, bad = rows.slice(0, first), None
        else:
            bad = None
        if rows.num_rows:
            self._pass(rows["source_offset"])
            self._end = self._last
        if bad is not None:
            self.bad += bad.true_count
            rows = rows.filter(pc.invert(bad))
        if dropped := rows["drop"].true_count:
            self.dropped += dropped
            rows = rows.filter(pc.invert(rows["drop"]))
        self.written += rows.num_rows
        self.topics.update(distinct(rows["topic"]))
        return rows

    def note_places(self, rows: pa.RecordBatch) -> None:
        """Note where rows go that are sent."""
        if rows.num_rows:
            topics, partitions = (distinct(rows[name]) for name in ("topic", "partition"))
            self.places |= {(topic, partition) for topic in topics for partition in partitions}
            self.last_sent = rows["source_offset"][-1]

    def mark(self) -> None:
        """Mark all rows sent so far as settled, for good."""
        self._sure = self.written, self._before, self._last, self.stop, self.reason

    def restart(self) -> None:
        """Go back to the mark: rows sent since then may not have arrived, and come again one by one."""
        self.written, self._before, self._last, self.stop, self.reason = self._sure

    def sent(self, row: pa.RecordBatch) -> None:
        self.written += row.num_rows
        self._pass(row["source_offset"])

    def refuse(self, row: pa.RecordBatch, why: str, tolerate: bool) -> None:
        if tolerate:
            log.warning("Left out: %s", why)
            self.bad += 1
            self._pass(row["source_offset"])
        else:
            self.stop, self.reason = Stop.FATAL, why

    def settled(self) -> None:
        """End the resending: rows that were left out after the last of them are passed, too."""
        if self.stop is None:
            self._pass_to_the_end()
            if self._met:
                self.stop, self.reason = self._met

    def retry(self, why: str) -> None:
        self.restart()
        self.stop, self.reason = Stop.RETRY, why

    def end(self, why: str) -> None:
        """End the split after the rows taken so far, which count."""
        if self.stop is None:
            self.stop, self.reason = Stop.RETRY, why
            self._met = self.stop, why

    def reached(self) -> PartitionResult:
        # Invariant 5: the offset is that of the last row passed; where offsets repeat, rows to come may have it, too.
        upto = self._before if self._rows_share_offsets and self.stop is not None else self._last
        return self.result(source_offset=None if upto is None else upto.as_py(), topics=tuple(sorted(self.topics)))

    def _pass(self, offsets: pa.Array) -> None:
        """Rows with these offsets are passed; where some repeat, `_before` is the last that differs from `_last`."""
        end = offsets[-1]
        if self._rows_share_offsets:
            low, high = 0, len(offsets) - 1  # equal ones stand side by side: those of the end begin somewhere here
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if offsets[middle] == end else (middle + 1, high)
            if low > 0:
                self._before = offsets[low - 1]
            elif self._last is not None and self._last != end:
                self._before = self._last
        self._last = end

    def _pass_to_the_end(self) -> None:
        if self._end is not None and self._last != self._end:
            self._before, self._last = self._last, self._end
