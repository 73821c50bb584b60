"""One transaction of a sink: rows into their tables, and the offsets of what is written.

    tables ready → begin → lock offsets → rows in their order → store offsets → commit

With an offsets table each record has its effect exactly once, without one at least once.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any, Final
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import RowLayout
from headrace.connectors.jdbc.database.connection import Database, DatabaseError, begun
from headrace.connectors.jdbc.sink.chunk_parts import ChunkParts
from headrace.connectors.jdbc.sink.evolution import Tables
from headrace.connectors.jdbc.sink.failures import RolledBack, TableChanged, classifying
from headrace.connectors.jdbc.sink.offset_table import Fence, OffsetTable
from headrace.connectors.jdbc.sink.staging import load
from headrace.plugins.backoff import Backoff
from headrace.plugins.contracts import RecordsFailed, RetriableError, TopicPartition

_DEADLOCKS: Final = 6
"""The most rollbacks in a row that end deadlocks."""
_LOOK_AGAIN_S: Final = 10.0
_BACKOFF: Final = Backoff(0.1, 10.0)
"""The worker's pauses before a retry."""
_LIVE: Final[WeakValueDictionary[str, Sink]] = WeakValueDictionary()
"""The sinks of the tasks in this process, by their names."""


class Sink:
    """One task's transactions in its database. Unpickled in its own process it is the same object, else a new one."""

    def __init__(
        self,
        name: str,
        database: Database,
        options: SinkOptions,
        layouts: dict[int, RowLayout],
        fences: dict[TopicPartition, Fence],
        written: dict[TopicPartition, int] | None = None,
    ) -> None:
        self.name = name
        self.database = database
        self.options = options
        self.layouts = layouts
        self.fences = fences
        self.written = {} if written is None else written
        """The last offsets that are known to be stored."""
        self.sql = database.dialect.sink_sql(options)
        self.tables = Tables(database, self.sql)
        self.parts = ChunkParts(layouts, options, self.tables)
        table = options.offsets_table
        self.offsets = OffsetTable(database, database.dialect.table_id(table), options.connector) if table else None
        self._failures = 0
        self._counts_from = 0.0
        self._looked = 0.0

    @property
    def is_here(self) -> bool:
        """True for the task's own object, in its worker."""
        return _LIVE.get(self.name) is self

    def keep(self) -> None:
        """Makes writers in this process write through this sink, as long as its task holds it."""
        _LIVE[self.name] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _found, (self.name, self.database, self.options, self.layouts, self.fences, self.written)

    def write(self, rows: pa.RecordBatch) -> dict[TopicPartition, int]:
        """Writes these rows and their offsets; returns the offsets stored now.

        Errors: RecordsFailed, with nothing written; RetriableError, perhaps with everything written; DatabaseError.
        """
        try:
            ends = self._write_at_last(rows)
        except RecordsFailed:
            self._look_again()
            raise
        except RetriableError as error:
            if isinstance(error, TableChanged):
                self.tables.forget()
            self._count_failure()
            if self.is_here and self.options.max_retries is not None and self._failures > self.options.max_retries:
                raise DatabaseError(f"{error} (given up after max.retries={self.options.max_retries})") from error
            raise
        self._failures = 0
        self.written |= ends  # the next chunk may find a database that has lost this one
        return ends

    def _count_failure(self) -> None:
        """Counts a failure. Those of a bisection, which makes no pauses, count as one."""
        now = time.monotonic()
        if not self._failures or now >= self._counts_from:
            self._failures += 1
            self._counts_from = now + _BACKOFF.pause(self._failures)

    def _look_again(self) -> None:
        """Has tables that refuse records described again, now and then: they may have been altered."""
        if time.monotonic() - self._looked > _LOOK_AGAIN_S:
            self._looked = time.monotonic()
            self.tables.forget()

    def forgo_offsets(self) -> None:
        """Writes at least once from now on."""
        self.offsets = None
        self.options = replace(self.options, offsets_table=None)

    def _write_at_last(self, rows: pa.RecordBatch) -> dict[TopicPartition, int]:
        """Writes, and tries again after a deadlock with a task that writes the same rows in another order."""
        for turn in range(_DEADLOCKS):
            try:
                with classifying(self.database):
                    return self._write(rows)
            except RolledBack:
                if turn == _DEADLOCKS - 1:
                    raise
                time.sleep(random.uniform(0, 0.02 * 2**turn))
        raise AssertionError("the last turn returns or raises")

    def _write(self, rows: pa.RecordBatch) -> dict[TopicPartition, int]:
        self.parts.prepare(rows)
        # The commit's errors are classified, too: it may check constraints.
        with self.database.connect() as connection, classifying(self.database), begun(connection):
            if self.offsets is None:
                self._load(connection, rows)
                return {}
            ends, rows = self._not_stored_yet(connection, rows)
            self._load(connection, rows)
            # Invariant 5: the last rows' offsets become durable with the rows, in one transaction.
            self.offsets.store(connection, ends)
        return ends

    # -- exactly once --------------------------------------------------------------------------------------------------

    def _not_stored_yet(
        self, connection: Connection, rows: pa.RecordBatch
    ) -> tuple[dict[TopicPartition, int], pa.RecordBatch]:
        """The last offset of each partition with these rows, and the rows not written yet.

        Errors: FencedError; DatabaseError for records from before the offset that the task found stored at its start,
        and for a database that has lost written records.
        """
        assert self.offsets is not None
        spans = _spans(rows)
        stored, ends = self.offsets.lock(connection, spans), {}
        for partition, (first, last) in spans.items():
            fence, now = self.fences.get(partition), stored.get(partition)
            if fence is None:
                raise self.offsets.fenced(partition)
            self.offsets.check_fence(partition, fence, None if now is None else now.epoch)
            assert now is not None
            self.offsets.check_kept(partition, self.written.get(partition), now.offset)
            if fence.offset is not None and first <= fence.offset:
                raise DatabaseError(
                    f"{self.options.offsets_table} has {partition.topic}-{partition.partition} written up to offset "
                    f"{fence.offset}, but record {first} comes: if the topic was deleted and made again, stop the "
                    "connector and reset its offsets (DELETE /connectors/<name>/offsets)"
                )
            ends[partition] = last if now.offset is None else max(last, now.offset)
            if now.offset is not None and first <= now.offset:
                rows = rows.filter(pc.invert(_upto(rows, partition, now.offset)))
        return ends, rows

    def _load(self, connection: Connection, rows: pa.RecordBatch) -> None:
        used: set[str | None] = set()
        for kind, part in self.parts.ordered(rows):
            # Layouts of the same columns share a stage.
            load(connection, self.sql, kind.target, kind.layout, part, again=kind.target.stage in used)
            used.add(kind.target.stage)


def _found(name: str, *made_of: Any) -> Sink:
    return _LIVE.get(name) or Sink(name, *made_of)


def _spans(rows: pa.RecordBatch) -> dict[TopicPartition, tuple[int, int]]:
    origin = pa.Table.from_batches([rows.select(["origin_topic", "origin_partition", "origin_offset"])])
    grouped = origin.group_by(["origin_topic", "origin_partition"]).aggregate(
        [("origin_offset", "min"), ("origin_offset", "max")]
    )
    return {
        TopicPartition(row["origin_topic"], row["origin_partition"]): (
            row["origin_offset_min"],
            row["origin_offset_max"],
        )
        for row in grouped.to_pylist()
    }


def _upto(rows: pa.RecordBatch, partition: TopicPartition, offset: int) -> pa.Array:
    of_it = pc.and_(
        pc.equal(rows["origin_topic"], partition.topic), pc.equal(rows["origin_partition"], partition.partition)
    )
    return pc.and_(of_it, pc.less_equal(rows["origin_offset"], offset))
