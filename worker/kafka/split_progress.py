"""Progress of a source's splits on their way to Kafka."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plugins.offsets import PartitionResult, Stop
from headrace.worker.kafka.distinct import distinct
from headrace.worker.outcome import Counts

log = logging.getLogger(__name__)


class SplitProgress(Counts):
    """Progress of one split, by the `source_offset` of its rows."""

    def __init__(self, rows_share_offsets: bool = False) -> None:
        """`rows_share_offsets`: rows with equal offsets count only together."""
        super().__init__()
        self._rows_share_offsets = rows_share_offsets
        self._before: pa.Scalar | None = None
        self._end: pa.Scalar | None = None
        self._last: pa.Scalar | None = None
        self._met: tuple[Stop, str] | None = None
        self._sure: tuple[int, pa.Scalar | None, pa.Scalar | None, Stop | None, str | None] = 0, None, None, None, None
        self._sure_left_out = 0, 0
        self.topics: set[str] = set()
        self.last_sent: pa.Scalar | None = None
        """`source_offset` of the last row noted by `note_places`."""
        self.places: set[tuple[str, int | None]] = set()
        """Topics and partitions noted by `note_places`: every pairing of a call's topics and partitions."""

    def take(self, rows: pa.RecordBatch, tolerate: bool) -> pa.RecordBatch:
        """Return the rows to send, without bad and dropped ones; unless `tolerate`, only those before the first bad."""
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
        """Note the topics and partitions of rows about to be sent."""
        if rows.num_rows:
            topics, partitions = (distinct(rows[name]) for name in ("topic", "partition"))
            self.places |= {(topic, partition) for topic in topics for partition in partitions}
            self.last_sent = rows["source_offset"][-1]

    def mark(self) -> None:
        """Settle all rows sent so far."""
        self._sure = self.written, self._before, self._last, self.stop, self.reason
        self._sure_left_out = self.dropped, self.bad

    def restart(self) -> None:
        """Go back to the mark: later rows may not have arrived, and are sent again one by one."""
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
        """End the resending; rows left out after the last one resent are passed, too."""
        if self.stop is None:
            self._pass_to_the_end()
            if self._met:
                self.stop, self.reason = self._met

    def retry(self, why: str) -> None:
        """End the split at the mark: all later rows come again, and so do those that were left out."""
        self.restart()
        self.dropped, self.bad = self._sure_left_out
        self.stop, self.reason = Stop.RETRY, why

    def end(self, why: str) -> None:
        """End the split; rows taken so far count."""
        if self.stop is None:
            self.stop, self.reason = Stop.RETRY, why
            self._met = self.stop, why

    def reached(self) -> PartitionResult:
        # Invariant 5: the offset of the last row passed; if offsets repeat, rows to come may share it.
        upto = self._before if self._rows_share_offsets and self.stop is not None else self._last
        return self.result(source_offset=None if upto is None else upto.as_py(), topics=tuple(sorted(self.topics)))

    def _pass(self, offsets: pa.Array) -> None:
        """Advance past rows with these offsets; where some repeat, `_before` is the last that differs from `_last`."""
        end = offsets[-1]
        if self._rows_share_offsets:
            low, high = 0, len(offsets) - 1  # equal offsets are adjacent: find the first that equals the last
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
