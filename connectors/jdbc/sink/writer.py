"""Writes a batch's rows in chunks, each of them one transaction (`transactions`).

In a job a writer has the rows of one Kafka partition in order, so a committed chunk stays committed whatever happens to
the rest; the next chunk is collected while the database works. Inline a batch is smaller than a chunk, and without
stored offsets always one transaction: rows that a bisection tries again must not be written already.

Decided: the writer commits, and no stage outlives its transaction, because then a chunk's rows are merged while Spark
decodes the next ones, and locks are held for a second; a stage in UNLOGGED tables that the worker merges at the end
would do both one after the other. Loses: one partition is one stream, however many cores there are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.jdbc.database.connection import DatabaseError
from headrace.connectors.jdbc.sink.offset_table import Fence
from headrace.connectors.jdbc.sink.transactions import Sink
from headrace.plugins.contracts import RecordFailure, RecordsFailed, RetriableError, TopicPartition

CHUNK_ROWS: Final = 100_000
CHUNK_BYTES: Final = 48 << 20
"""The limits of one transaction."""


@dataclass
class SinkWriter:
    """Writes the rows of one batch, or of one partition of it."""

    sink: Sink
    _pending: list[pa.RecordBatch] = field(default_factory=list)
    _size: tuple[int, int] = (0, 0)
    _worker: ThreadPoolExecutor | None = None
    _running: Future[None] | None = None
    _ends: dict[TopicPartition, int] = field(default_factory=dict)

    def write(self, rows: pa.RecordBatch) -> None:
        """Collects rows, and writes a chunk once there are enough.

        Errors: RecordsFailed for rows that cannot be written; as `Sink.write`, also for earlier rows.
        """
        failures = self._failures(rows)
        self._pending.append(rows.filter(rows["refused"].is_null()) if failures else rows)
        self._size = self._size[0] + len(rows), self._size[1] + rows.nbytes
        is_enough = self._size[0] >= CHUNK_ROWS or self._size[1] >= CHUNK_BYTES
        if is_enough and not (self.sink.is_here and self.sink.offsets is None):
            self._write_aside()
        if failures:
            raise RecordsFailed(failures[0].message, failures)

    def finish(self) -> bytes:
        """Writes the remaining rows; returns the offsets that are stored now, for `offsets_of`.

        Errors: as `Sink.write`.
        """
        self._wait()
        self._write(self._taken())
        self._close()
        epochs = self.sink.fences
        return json.dumps([[*place, epochs[place].epoch, offset] for place, offset in self._ends.items()]).encode()

    def abort(self) -> None:
        """Ends without writing the remaining rows; committed chunks stay."""
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        return {"sink": self.sink}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _failures(self, rows: pa.RecordBatch) -> list[RecordFailure]:
        """The rows that cannot be written, told at once, so that their dead letters come before the rows after them.

        With `errors.tolerance=none` no row after such a record may be written, and in a job it cannot be reported: the
        batch fails, and is bisected inline.
        """
        refused = rows["refused"]
        if refused.null_count == len(rows):
            return []
        wrong = pc.indices_nonzero(refused.is_valid()).to_pylist()
        if self.sink.is_here and self.sink.options.tolerates:
            return [RecordFailure(row, refused[row].as_py()) for row in wrong]
        if self._may_write_parts:
            self._pending.append(rows.slice(0, wrong[0]))
            self._wait()
            self._write(self._taken())
        raise RecordsFailed(refused[wrong[0]].as_py())

    @property
    def _may_write_parts(self) -> bool:
        """True if a part of the rows may be written: in a job, with stored offsets, as none is then written twice."""
        return not self.sink.is_here and self.sink.offsets is not None

    def _taken(self) -> pa.RecordBatch | None:
        pending, self._pending, self._size = self._pending, [], (0, 0)
        return together(pending)

    def _write_aside(self) -> None:
        """Starts writing a chunk while the next one is collected."""
        self._wait()
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="jdbc-sink")
        self._running = self._worker.submit(self._write, self._taken())

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def _write(self, rows: pa.RecordBatch | None) -> None:
        """Writes rows. In a job: all before the first bad record, and errors that are fatal inline are retriable."""
        if rows is None:
            return
        try:
            self._ends |= self.sink.write(rows)
        except DatabaseError as error:
            if self.sink.is_here:
                raise
            raise RetriableError(str(error)) from error
        except RecordsFailed:
            if not self._may_write_parts or len(rows) == 1:
                raise
            half = len(rows) // 2
            self._write(rows.slice(0, half))
            self._write(rows.slice(half))

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
        if not self.sink.is_here:
            self.sink.database.close()


def offsets_of(part: bytes) -> dict[TopicPartition, Fence]:
    """The last offsets that a writer has stored, with their epochs, from the result of its `finish`."""
    return {TopicPartition(topic, number): Fence(epoch, offset) for topic, number, epoch, offset in json.loads(part)}


def together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """The rows of all batches as one; None if there are none."""
    batches = [rows for rows in batches if len(rows)]
    if any(rows.schema != batches[0].schema for rows in batches):  # from several expressions
        tables = [pa.Table.from_batches([rows]) for rows in batches]
        return pa.concat_tables(tables, promote_options="default").combine_chunks().to_batches()[0]
    return pa.concat_batches(batches) if batches else None
