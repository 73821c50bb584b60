"""The task of the Delta sink.

columns: Spark's expressions -> writer: Arrow, held for the interval -> commit: a version of each table
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column

from headrace.connectors.lake.delta.access import Access
from headrace.connectors.lake.delta.columns import SinkColumns
from headrace.connectors.lake.delta.held import Held, Some, join
from headrace.connectors.lake.delta.marks import Marks
from headrace.connectors.lake.delta.preview import TablePreview
from headrace.connectors.lake.delta.settings import delta_options
from headrace.connectors.lake.delta.shapes import TableShape
from headrace.connectors.lake.delta.tables import Change, Tables
from headrace.connectors.lake.delta.writer import RowWriter, Target, keep
from headrace.plugins.contracts import ArrowWriter, Place, SinkTask, TaskContext, TopicPartition
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import BufferingSink, Effect, PartitionedSink, PreviewedSink
from headrace.plugins.records import Records
from headrace.plugins.scratch import ScratchFolder, scratch_folder

log = logging.getLogger(__name__)

MOST_BYTES: Final = 64 << 20
"""Held rows that are committed before the interval is over."""
MOST_UPSERTS: Final = 1_000_000
"""Offsets of a job whose last row by key is looked for in memory."""
MOST_UPSERT_BYTES: Final = 256 << 20
"""The size of these rows, if they are as those before."""


class DeltaSinkTask(SinkTask, BufferingSink, PartitionedSink, PreviewedSink):
    """Writes the records of its partitions into Delta tables, each record once."""

    place = Place.WORKER_HOST
    _folder: ScratchFolder | None = None
    _since: float | None = None
    """The time at which the first held row came."""
    _row_bytes = 1.0
    _is_stale = False
    """True if the tables have to be looked at anew: partitions came, or a commit failed."""

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare for partitions without reaching for a table. Errors: ConfigError."""
        self._specify(config, context)
        self._name = f"{context.connector}-{context.task}-{uuid4().hex}"
        self._target = Target(Held(), self._shape)
        keep(self._name, self._target)

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to read tables. Errors: ConfigError."""
        self._specify(config, context)

    def _specify(self, config: Mapping[str, str], context: TaskContext) -> None:
        self._options, self._context = delta_options(config), context
        self._columns = SinkColumns(self._options)
        self._marks, self._mine = Marks(context.connector), set[TopicPartition]()
        self._tables = Tables(self._options, self._marks, Access.of(self._options, context.worker).check)

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield new tables and columns, and the rows. Errors: as a writer's."""
        return TablePreview(self._options, self._columns.layouts, self._tables).effects(batches)

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Take the partitions; return how far their only table has them. Errors: RetriableError, LakeError."""
        self._target.held.drop(partitions)  # of a former topic of that name
        self._marks.topic_ids.update(self._context.topic_ids({one.topic for one in partitions}))
        self._mine.update(partitions)
        self._is_stale = True
        return self._positions(partitions)

    def recover(self) -> Mapping[TopicPartition, int]:
        """Look into the tables after a failed job, and delete the files of its writers, which change no table."""
        self._is_stale = True
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        return self._positions(list(self._mine))

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Throw away the held rows of these partitions."""
        self._mine.difference_update(partitions)
        self._target.held.drop(partitions)

    def columns(self, records: Records) -> list[Column]:
        """The columns of `columns.SinkColumns`."""
        return self._columns.columns(records)

    def writer(self, attempt: str) -> ArrowWriter:
        """A writer of rows for the next commit. Errors: RetriableError."""
        if self._is_stale:
            self._is_stale = False
            self._tables.forget()
        if self._folder is None:
            self._folder = scratch_folder("delta")
        options = replace(self._options, storage={})  # no secret goes into a job
        shapes = dict(self._tables.shapes)
        ends = self._target.held.ends
        return RowWriter(self._name, options, list(self._columns.layouts), shapes, self._folder.name, ends)

    def commit(self, parts: Sequence[bytes]) -> Mapping[TopicPartition, int]:
        """Change the tables once it is time; return the offsets that are held. Errors: RetriableError, LakeError."""
        if answers := list(filter(None, parts)):  # a job's; what was held before it was thrown away
            held = Held()
            for answer in answers:
                join(held, answer, self._tables.shapes)
            self._row_bytes = held.row_bytes() or self._row_bytes
            self._commit(held)
            return {}
        held = self._target.held
        self._row_bytes = held.row_bytes() or self._row_bytes
        if held.reached and self._since is None:
            self._since = time.monotonic()
        if self.due_s() != 0 and held.bytes < MOST_BYTES:
            return {one: ends.first for one, ends in held.reached.items()}
        self._commit(held)
        self.drop()
        return {}

    def _commit(self, held: Held) -> None:
        try:
            for path, found in held.by_table():
                self._change(path, found, {one: held.reached[one].last + 1 for one in found})
        except BaseException:
            self._is_stale = True
            raise

    def _change(self, path: str, found: Mapping[TopicPartition, Some], ends: Mapping[TopicPartition, int]) -> None:
        shape = next(iter(found.values())).shape
        rows = [batch for some in found.values() for batch in some.batches]
        begins = {partition: some.begin for partition, some in found.items()}
        if not self._tables.commit(path, Change(shape, rows, begins, ends)):
            raise RetriableError(
                f"Another task has written records of {', '.join(map(str, found))} into {path}; what it lacks is read "
                "again"
            )
        self._tables.moved(path, ends)

    def _shape(self, path: str, layout: int | None) -> TableShape | None:
        if layout is None:
            return self._tables.there(path, list(self._mine))
        return self._tables.shape(path, layout, self._columns.layouts[layout], list(self._mine))

    def _positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The marks of the only table that each partition's records go to."""
        of = {one: self._options.table_of_partition(one.topic) for one in partitions}
        found = dict[TopicPartition, int]()
        for path in filter(None, dict.fromkeys(of.values())):
            found |= self._tables.marks(path, [one for one, table in of.items() if table == path])
        return found

    def due_s(self) -> float | None:
        """The seconds until the interval is over; None: there are no rows."""
        if self._since is None:
            return None
        return max(0.0, self._since + self._options.interval_s - time.monotonic())

    def drop(self) -> None:
        """Throw away the held rows."""
        self._target.held.drop()
        self._since = None

    def job_ranges(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """All offsets, for upserts so many as fit into memory; none before a small batch has met the tables."""
        if self._is_stale or not self._tables.shapes:
            return {}
        if not self._options.upserts or not ranges:
            return ranges
        rows = min(MOST_UPSERTS, int(MOST_UPSERT_BYTES / self._row_bytes))
        most = max(1, rows // len(ranges))
        return {one: (begin, min(end, begin + most)) for one, (begin, end) in ranges.items()}

    def stop(self) -> None:
        """Throw away what is held."""
        if hasattr(self, "_target"):
            self.drop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
