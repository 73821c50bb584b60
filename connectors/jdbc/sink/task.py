"""The task of a JDBC sink: writes the records of its partitions into the tables of one database."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column

from headrace.connectors.jdbc.contract.sink_options import InsertMode
from headrace.connectors.jdbc.database.connection import Database, DatabaseError
from headrace.connectors.jdbc.sink import settings as sink_settings
from headrace.connectors.jdbc.sink.columns import SinkColumns
from headrace.connectors.jdbc.sink.offset_table import Fence
from headrace.connectors.jdbc.sink.preview import SinkPreview
from headrace.connectors.jdbc.sink.transactions import Sink
from headrace.connectors.jdbc.sink.writer import SinkWriter, offsets_of
from headrace.plugins.contracts import ArrowWriter, Place, SinkTask, TaskContext, TopicPartition
from headrace.plugins.extensions import Effect, PartitionedSink, PreviewedSink
from headrace.plugins.records import Records

log = logging.getLogger(__name__)

_PREVIEW_LOGIN_S = 10
"""Somebody waits for a preview."""


class JdbcSinkTask(SinkTask, PartitionedSink, PreviewedSink):
    """Writes records into tables; with `offsets.table` each has its effect exactly once."""

    def __init__(self) -> None:
        self._closing = contextlib.ExitStack()

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares for partitions without connecting to the database.

        Errors: ConfigError; ValueError for a database that this worker does not allow or know.
        """
        options = sink_settings.options(config)
        database = Database.of(config, context.worker, stopping=context.stopping, interrupted_by=context.interrupted_by)
        self._context, self._must_be_once = context, options.offsets_wanted
        self._fences: dict[TopicPartition, Fence] = {}
        self._columns = SinkColumns(options, database.dialect.sink_sql(options).form)
        name = f"{context.connector}-{context.task}-{uuid.uuid4()}"
        self._sink = Sink(name, database, options, self._columns.layouts, self._fences)
        self._sink.keep()
        self._closing.callback(database.close)
        if database.dialect.is_file:
            self.place = Place.WORKER_HOST
        self._stay_where_rows_repeat()

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares to ask the database, in transactions that only read. Errors: as `start`."""
        options = sink_settings.options(config)
        database = Database.of(
            {**config, "connection.attempts": "1"},
            context.worker,
            creates=False,
            reads_only=True,
            login_seconds=_PREVIEW_LOGIN_S,
            stopping=context.stopping,
            interrupted_by=context.interrupted_by,
        )
        self._closing.callback(database.close)
        self._columns = SinkColumns(options, database.dialect.sink_sql(options).form)
        self._preview = SinkPreview(database, options, self._columns.layouts)

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yields DDL and statements. Errors: RecordsFailed, DatabaseAway, DatabaseError."""
        return self._preview.effects(batches)

    def preview_notes(self) -> Sequence[str]:
        """What the statements do not show."""
        return self._preview.notes

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Fences the former owners of these partitions off; returns the positions in the offsets table.

        Errors: DatabaseAway, DatabaseError.
        """
        offsets = self._sink.offsets
        if offsets is None or not partitions:
            return {}
        ids = self._context.topic_ids({partition.topic for partition in partitions})
        with self._sink.database.connect():
            pass  # a refused login says nothing about the table
        try:
            offsets.create()
            taken = offsets.take(partitions, ids)
        except DatabaseError as error:
            if self._must_be_once:
                raise
            log.warning("Records may be written more than once: their offsets cannot be kept with them. %s", error)
            self._sink.forgo_offsets()
            self._stay_where_rows_repeat()
            return {}
        self._must_be_once = True
        self._forget(partitions)
        self._fences.update(taken)
        self._sink.written.update({one: fence.offset for one, fence in taken.items() if fence.offset is not None})
        return _next(taken)

    def recover(self) -> Mapping[TopicPartition, int]:
        """As `open` for all partitions that no other task has taken: fences the failed batch's writers off."""
        offsets = self._sink.offsets
        if offsets is None or not self._fences:
            return {}
        self._fences.update(offsets.take(self._fences, held=self._fences))
        return _next(self._fences)

    def _stay_where_rows_repeat(self) -> None:
        """Keeps inserts without stored offsets inline.

        Decided: a failure inline is one transaction, while a failed job repeats partitions that did not fail, whose
        rows are there already and refuse to be inserted again; loses: the executors' cores.
        """
        if self._sink.offsets is None and self._sink.options.insert_mode is InsertMode.INSERT:
            self.place = Place.WORKER_PROCESS

    def columns(self, records: Records) -> list[Column]:
        """The columns for the tables, and the number of each row's layout."""
        return self._columns.columns(records)

    def writer(self, attempt: str) -> ArrowWriter:
        """A writer into the tables."""
        return SinkWriter(self._sink)

    def commit(self, parts: Sequence[bytes]) -> None:
        """Remembers the offsets that the writers have stored, while the partitions are this task's."""
        for part in parts:
            for partition, reached in offsets_of(part).items():
                fence = self._fences.get(partition)
                if reached.offset is not None and fence is not None and fence.epoch == reached.epoch:
                    self._sink.written[partition] = reached.offset

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Stores these positions in the table, too, so that Kafka's are ahead only of a restored database."""
        if self._sink.offsets is not None:
            self._sink.offsets.reach(self._fences, positions, self._sink.written)

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forgets these partitions."""
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._fences.pop(partition, None)
            self._sink.written.pop(partition, None)

    def stop(self) -> None:
        """Closes all connections."""
        self._closing.close()


def _next(taken: Mapping[TopicPartition, Fence]) -> dict[TopicPartition, int]:
    return {partition: fence.offset + 1 for partition, fence in taken.items() if fence.offset is not None}
