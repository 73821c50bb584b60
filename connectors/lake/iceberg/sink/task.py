"""The task of the Iceberg sink.

    open: read the marks of the tables -> rows to files, held over batches -> commit: upload, snapshots with marks

Rows of several partitions share files, so a conflict or a rebalance throws away all held rows: Kafka has them
(`BufferingSink`).

Decided: the files of jobs are on the worker's own disk, and on a Spark cluster all batches are inline, because only the
driver's JVM uploads and commits; loses: a cluster's cores.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.compact_settings import CompactSettings
from headrace.connectors.lake.iceberg.files.files import Files, FilesSpec
from headrace.connectors.lake.iceberg.files.writer import FilesWriter, keep, part_of
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.parts import LakePart, TableCommit
from headrace.connectors.lake.iceberg.sink.columns import SinkColumns
from headrace.connectors.lake.iceberg.sink.early_deletes import WithoutEarlyDeletes
from headrace.connectors.lake.iceberg.sink.known_tables import KnownTables
from headrace.connectors.lake.iceberg.sink.preview import LakePreview
from headrace.connectors.lake.iceberg.sink.routing import TableRoutes
from headrace.connectors.lake.iceberg.sink.settings import SinkOptions, sink_options
from headrace.plugins.contracts import ArrowWriter, Place, SinkTask, TaskContext, TopicPartition
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import BufferingSink, Effect, Measured, PartitionedSink, PreviewedSink
from headrace.plugins.records import Records
from headrace.plugins.samples import Sample
from headrace.plugins.scratch import ScratchFolder, local_disk, scratch_folder

log = logging.getLogger(__name__)


class IcebergSinkTask(SinkTask, BufferingSink, PartitionedSink, PreviewedSink, Measured):
    """Writes the records of its partitions to tables, each offset once."""

    place = Place.WORKER_HOST
    _catalog: JvmCatalog | None = None
    _folder: ScratchFolder | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare for partitions without reaching for the catalog. Errors: ConfigError."""
        options, catalog = self._specify(config, context)
        self._ids: dict[str, str] = {}
        self._mine = set[TopicPartition]()
        self._is_behind = False
        self._tables = KnownTables(catalog, options, self._columns, lambda: self._ids)
        with local_disk("rows of tables"):
            self._folder = scratch_folder("lake")
        self._files = Files(self._spec, self._tables, self._folder.name)
        self._name = f"{context.connector}-{context.task}-{uuid4().hex}"
        keep(self._name, self._files)

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to read the catalog. Errors: ConfigError."""
        options, catalog = self._specify(config, context)
        self._preview = LakePreview(catalog, options, self._columns, self._spec)

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield new and changed tables, and what becomes of each row. Errors: as a writer's, and of the catalog."""
        return self._preview.effects(batches)

    def preview_notes(self) -> Sequence[str]:
        """Return what the effects do not show."""
        return self._preview.notes

    def _specify(self, config: Mapping[str, str], context: TaskContext) -> tuple[SinkOptions, JvmCatalog]:
        options = self._options = sink_options(config)
        self._context, self._columns = context, SinkColumns(options)
        self._spec = FilesSpec(
            routes=TableRoutes(options),
            interval_s=options.interval_s,
            tolerates=config.get("errors.tolerance", "none").lower() == "all",
            ignore_case=options.ignores_case,
            evolves=options.evolves,
            layouts=self._columns.layouts,
            key_layouts=self._columns.key_layouts,
        )
        settings = CatalogSettings.of(config, context.worker)
        compact = CompactSettings.of(config)
        self._catalog = JvmCatalog(
            settings, context.connector, context.task, options.branch, compact, context.interrupted_by
        )
        return options, self._catalog

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Take the partitions; return the marks if there is one table. Errors: RetriableError, LakeError.

        With several tables Kafka's offsets count, and rows that a table has already are left out of it.
        """
        self._restart()
        self._mine.update(partitions)
        topics = {partition.topic for partition in self._mine}
        told = self._context.topic_ids(topics)
        self._ids = {topic: told.get(topic, topic) for topic in topics}
        return self._positions(partitions)

    def recover(self) -> Mapping[TopicPartition, int]:
        """Read the marks after a job that failed: its commit may have succeeded all the same. Delete its files."""
        self._files.drop()
        self._forget()
        assert self._folder is not None
        for folder in Path(self._folder.name).iterdir():
            shutil.rmtree(folder, ignore_errors=True)
        return self._positions(list(self._mine))

    def columns(self, records: Records) -> list[Column]:
        """The columns of `columns.SinkColumns`."""
        return self._columns.columns(records)

    def writer(self, attempt: str) -> ArrowWriter:
        """A writer to files on the local disk. Errors: RetriableError if held rows were thrown away."""
        if self._is_behind:
            self._is_behind = False
            raise RetriableError("Rows that were held for a commit are read again, after a rebalance")
        assert self._folder is not None
        writer = FilesWriter(self._name, self._spec, self._folder.name, self._tables.known)
        return WithoutEarlyDeletes(writer) if self._are_missing() else writer

    def _are_missing(self) -> bool:
        """True if no table is there yet, and none can be made by a delete. Errors: those of the catalog."""
        of = self._options
        return of.upserts and of.creates and bool(of.tables) and all(map(self._tables.is_missing, of.tables))

    def commit(self, parts: Sequence[bytes]) -> Mapping[TopicPartition, int]:
        """Commit the files; return the first offsets that are held. Errors: RetriableError, LakeError."""
        found = [part_of(part) for part in parts if part]
        done = {one: last + 1 for part in found for one, (_, last) in part.done.items()}
        commits = [self._commit_of(table, found, done) for table in dict.fromkeys(_tables(found))]
        if commits:
            self._commit(commits)
            _remove_folders(commits)
        return {one: first for part in found for one, first in part.held.items()}

    def due_s(self) -> float | None:
        """The seconds until the commit interval is over; None: nothing is held."""
        return 0.0 if self._is_behind else self._files.due_s()

    def drop(self) -> None:
        """Throw away the held rows."""
        self._files.drop()

    def job_ranges(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """All ranges: a job commits all that it reads."""
        return ranges

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up these partitions, and throw away the held rows of all: they are in common files."""
        self._mine.difference_update(partitions)
        self._restart()

    def stop(self) -> None:
        """Throw away the held rows, and close the catalog."""
        if self._folder is not None:
            self._files.drop()
            self._folder.cleanup()
        if self._catalog is not None:
            self._catalog.close()

    def samples(self) -> Iterable[Sample]:
        """Return the samples of the tables' maintenance."""
        labels = {"connector": self._context.connector, "task": str(self._context.task)}
        return [] if self._catalog is None else [one._replace(labels=labels) for one in self._catalog.samples()]

    def _restart(self) -> None:
        """Begin anew with the tables; held rows of partitions that stay are read again."""
        # Partitions may go and come, and `open` may be tried again, before the worker asks for a writer.
        self._is_behind = bool(self._mine) and (self._is_behind or self._files.due_s() is not None)
        self._files.drop()
        self._forget()

    def _forget(self) -> None:
        self._tables.forget()
        self._files.forget()

    def _positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        tables = self._options.tables
        if len(tables) != 1:
            return {}
        marks = self._tables.marks(tables[0])
        return {partition: marks[partition] for partition in partitions if partition in marks}

    def _commit_of(self, table: str, found: Sequence[LakePart], done: Mapping[TopicPartition, int]) -> TableCommit:
        parts = tuple(one for part in found for one in part.tables if one.table == table)
        marks = self._tables.marks(table)
        begins = {partition: marks.get(partition) for partition in done}
        return TableCommit(table, parts, begins, {p: max(end, marks.get(p, end)) for p, end in done.items()})

    def _commit(self, commits: Sequence[TableCommit]) -> None:
        try:
            moved = self._catalog_of().commit(commits, self._ids)
        except BaseException:
            self._forget()  # some tables may have been changed
            raise
        for one in commits:
            if moved[one.table]:
                self._tables.committed(one.table, one.positions)
                log.debug("Table %s has the offsets before %s", one.table, one.positions)
        self._files.forget()
        if lost := [one for one in commits if not moved[one.table]]:
            self._forget()
            self._check_not_back(lost)
            names = ", ".join(one.table for one in lost)
            raise RetriableError(f"Another task has moved the offsets in {names}; rows are read again from there")

    def _check_not_back(self, lost: Sequence[TableCommit]) -> None:
        """Refuse to go on behind a rollback: rows before the held ones are no longer in the table."""
        for one in lost:
            marks = self._tables.marks(one.table)
            back = [p for p, begin in one.begins.items() if begin is not None and marks.get(p, 0) < begin]
            if back:
                raise LakeError(
                    f"Table {one.table} was rolled back or replaced: its offsets of {', '.join(map(str, back))} are "
                    "lower than before. Restart the task: with one table it then reads from there; with several, set "
                    "the connector's offsets first"
                )

    def _catalog_of(self) -> JvmCatalog:
        assert self._catalog is not None
        return self._catalog


def _remove_folders(commits: Sequence[TableCommit]) -> None:
    """Remove the folders of files that are uploaded, unless others are in them."""
    files = (file for one in commits for part in one.parts for file in part.files)
    for folder in {os.path.dirname(file.local) for file in files}:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _tables(found: Sequence[LakePart]) -> Iterator[str]:
    return (table.table for part in found for table in part.tables)
