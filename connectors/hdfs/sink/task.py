"""The task of a sink of files.

    open: take the partitions' markers -> rows to files -> whole files are staged -> commit: final names, Hive

Rows that are not in whole files are held inline, or thrown away by a job: Kafka has them (`BufferingSink`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column

from headrace.connectors.hdfs.format_choice import format_of
from headrace.connectors.hdfs.hive.tables import HiveTables
from headrace.connectors.hdfs.partitioners.partitioner import partitioner_of
from headrace.connectors.hdfs.settings import SinkSettings, sink_settings, store_values
from headrace.connectors.hdfs.sink.columns import SinkColumns
from headrace.connectors.hdfs.sink.commit_marker import CommitMarker
from headrace.connectors.hdfs.sink.compaction import Compaction
from headrace.connectors.hdfs.sink.merge_parts import MergedParts, merge_parts
from headrace.connectors.hdfs.sink.names import Names
from headrace.connectors.hdfs.sink.newest_schemas import NewestSchemas
from headrace.connectors.hdfs.sink.parallel_uploads import each
from headrace.connectors.hdfs.sink.preview import FilePreview
from headrace.connectors.hdfs.sink.rotation import Rules
from headrace.connectors.hdfs.sink.side_files import SideFiles, SideFormat
from headrace.connectors.hdfs.sink.spec import FileSpec
from headrace.connectors.hdfs.sink.writer import Files, FilesWriter, WrittenPart, keep, parts_of
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.plugins.contracts import ArrowWriter, SinkTask, TaskContext, TopicPartition
from headrace.plugins.extensions import BufferingSink, Effect, Measured, PartitionedSink, PreviewedSink
from headrace.plugins.records import Records
from headrace.plugins.samples import Sample

log = logging.getLogger(__name__)


class FileSinkTask(SinkTask, BufferingSink, PartitionedSink, PreviewedSink, Measured):
    """Writes the records of its partitions to files, each offset in one of them."""

    _hive: HiveTables | None = None
    _compaction: Compaction | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare for partitions without reaching for the store. Errors: ConfigError."""
        settings = self._specify(config, context)
        self._files = Files(self._spec)
        self._name = f"{context.connector}-{context.task}-{uuid4().hex}"
        keep(self._name, self._files)
        self._markers: dict[TopicPartition, CommitMarker] = {}
        if settings.compact is not None:
            self._compaction = Compaction(self._spec, settings.compact)
        self._schemas, self._mine = NewestSchemas(self._spec), set[TopicPartition]()
        self._jobs_in_vain = self._found_gaps = False
        self._tried = set[tuple[TopicPartition, int]]()
        """The last beginnings of jobs that were to end files by their count."""

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to read the store. Errors: ConfigError."""
        self._specify(config, context)
        self._preview = FilePreview(self._spec, self._hive)

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield the files with their rows, and Hive's tables. Errors: as a writer's, and of the store."""
        return self._preview.effects(batches)

    def preview_notes(self) -> Sequence[str]:
        """Return what the files do not show."""
        return self._preview.notes

    def _specify(self, config: Mapping[str, str], context: TaskContext) -> SinkSettings:
        settings, values = sink_settings(config), store_values(config)
        store = store_of(StoreSettings.of(values, context.worker))
        form, partitioner = format_of(settings.format), partitioner_of(config)
        self._context, self._store, self.place = context, store, store.place
        self._spec = FileSpec(
            store=store,
            format=form,
            partitioner=partitioner,
            names=Names(settings.naming, form.extension),
            rules=Rules(settings.rotation),
            compatibility=settings.compatibility,
            tolerates=config.get("errors.tolerance", "none").lower() == "all",
            ignores_nulls=settings.ignores_nulls,
            beside=SideFiles(SideFormat.of(settings.keys), SideFormat.of(settings.headers)),
        )
        self._columns = SinkColumns(self._spec)
        if settings.hive is not None:
            reached, folder = StoreSettings.of(values, context.worker), self._spec.names.topic_folder
            self._hive = HiveTables(
                settings.hive, reached.hadoop, store, folder, form, partitioner.fields, reached.hosts
            )
        return settings

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Take the partitions over; return the ends of their files. Former owners commit nothing from now on.

        In a store without renames (S3) nobody owns them: left-over uploads are ended, and Kafka's offsets count.

        Errors: RetriableError, StoreError.
        """
        self._files.drop(partitions)
        self._mine.update(partitions)
        self._schemas.forget(partitions)
        self._schemas.learn(partitions)
        if not self._store.renames:
            self._abort_uploads(partitions)
            return {}
        ids = self._context.topic_ids({partition.topic for partition in partitions})
        taken = {partition: self._marker(partition) for partition in partitions}
        each(lambda one: taken[one].take(ids.get(one.topic)), taken)
        self._markers |= taken
        return self._positions(partitions)

    def recover(self) -> Mapping[TopicPartition, int]:
        """End the commits that a failed job has begun; return the ends of all partitions' files."""
        self._complete()
        return self._positions(list(self._markers))

    def columns(self, records: Records) -> list[Column]:
        """The columns of `columns.SinkColumns`."""
        return self._columns.columns(records)

    def writer(self, attempt: str) -> ArrowWriter:
        """A writer to files on the local disk. Errors: RetriableError while an earlier commit cannot be ended."""
        self._complete()
        markers = self._markers
        begins = {one: self._schemas.begin(one, markers[one].offset if one in markers else None) for one in self._mine}
        return FilesWriter(self._name, self._spec, begins)

    def commit(self, parts: Sequence[bytes]) -> Mapping[TopicPartition, int] | None:
        """Give staged files their final names."""
        by_partition = defaultdict[TopicPartition, list[WrittenPart]](list)
        for one in _each_of(parts):
            by_partition[one.partition].append(one)
        found = [merge_parts(parts) for parts in by_partition.values()]
        each(self._commit_all, found)
        self._jobs_in_vain = not any(part.done for one in found for part in one.whole)
        self._found_gaps = self._found_gaps or any(one.discarded for one in found)
        return {one.partition: one.held for one in found if one.held is not None}

    def discard(self, parts: Sequence[bytes]) -> None:
        """Delete the files of these parts, which no other batch will name."""
        for one in _each_of(parts):
            if (marker := self._markers.get(one.partition)) is not None:
                marker.discard(one.attempt)

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Let the markers pass records that are in no file, such as bad ones. Errors: RetriableError, StoreError."""
        for partition, offset in positions.items():
            marker = self._markers.get(partition)
            if marker is not None and marker.offset != offset:
                marker.move_on(offset)

    def due_s(self) -> float | None:
        """The seconds until the clock ends files; None: it does not."""
        return self._files.due_s()

    def drop(self) -> None:
        """Throw away the open files."""
        self._files.drop()

    def job_ranges(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """The offsets that fill whole files by count; all offsets if time or size may end files, too.

        Gaps of offsets, as in a compacted topic, or bad records may leave a range with less: nothing is tried twice.
        """
        settings, counted = self._spec.rules.settings, dict[TopicPartition, tuple[int, int]]()
        for partition, (begin, end) in ranges.items():
            size = settings.flush_size
            if whole := max(end - begin, min(size, ends[partition] - begin)) // size * size:
                counted[partition] = begin, begin + whole
        tried = {(partition, begin) for partition, (begin, _) in counted.items()}
        if not tried <= self._tried:
            self._tried = tried
            return ranges if self._ends_otherwise else counted
        return ranges if self._ends_otherwise and not self._jobs_in_vain else {}

    def job_step(self) -> int | None:
        """The count of a file's records if files begin at known offsets, else None.

        None without renames, too: a file would be seen too soon.
        """
        is_known = self._store.renames and not self._ends_otherwise and not self._found_gaps
        return self._spec.rules.settings.flush_size if is_known else None

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Throw away the open files of these partitions."""
        self._files.drop(partitions)
        self._schemas.forget(partitions)
        self._mine.difference_update(partitions)
        for partition in partitions:
            self._markers.pop(partition, None)
        if self._compaction is not None:
            self._compaction.forget(partitions)

    def stop(self) -> None:
        """Throw away the open files, and close the store."""
        if hasattr(self, "_files"):
            self._files.drop()
        if self._compaction is not None:
            self._compaction.close()
        if self._hive is not None:
            self._hive.close()
        if hasattr(self, "_store"):
            self._store.close()

    def samples(self) -> Iterable[Sample]:
        """The samples of Hive's tables and of small files."""
        labels = {"connector": self._context.connector, "task": str(self._context.task)}
        beside = [one for one in (self._hive, self._compaction) if one is not None]
        return [sample._replace(labels=labels) for one in beside for sample in one.samples()]

    @property
    def _ends_otherwise(self) -> bool:
        """True if time or size may end files, too."""
        rules = self._spec.rules.settings
        return bool(rules.rotate_interval_ms or rules.rotate_schedule_interval_ms or rules.rotate_bytes)

    def _abort_uploads(self, partitions: Sequence[TopicPartition]) -> None:
        """End the uploads of these partitions that a killed worker has begun: they cost money."""
        names = self._spec.names
        for topic in {partition.topic for partition in partitions}:
            mine = [partition for partition in partitions if partition.topic == topic]

            def is_mine(path: str, mine: Sequence[TopicPartition] = mine) -> bool:
                return any(names.offsets(path, partition) is not None for partition in mine)

            self._store.abort_uploads(names.topic_folder(topic), is_mine)

    def _marker(self, partition: TopicPartition) -> CommitMarker:
        return CommitMarker(self._store, partition, f"{self._context.connector}-{self._context.task}", self._spec.names)

    def _positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        known = {partition: self._markers[partition].offset for partition in partitions}
        return {partition: offset for partition, offset in known.items() if offset is not None}

    def _commit_all(self, found: MergedParts) -> None:
        for part in found.whole:
            if part.done is not None:
                self._commit(part, part.done)
        for part in found.discarded:
            self._markers[part.partition].discard(part.attempt)

    def _commit(self, part: WrittenPart, done: tuple[int, int]) -> None:
        newest = part.files[-1].layout
        if newest >= 0:
            self._schemas.committed(part.partition, self._spec.layouts[newest])
        marker = self._markers.get(part.partition)
        if marker is not None:
            first, last = done
            marker.commit(last + 1, part.attempt, [(file.path, file.final) for file in part.files], first)
            if self._compaction is not None:
                self._compaction.committed(marker, [file.final for file in part.files])
        log.debug("%d files of %s are committed", len(part.files), part.partition)
        if self._hive is not None:
            old = self._schemas.begin(part.partition, None).schema
            for file in part.files:
                schema = old if file.layout < 0 else self._spec.layouts[file.layout]
                self._hive.committed(file.topic, schema, [file.directory])

    def _complete(self) -> None:
        """End commits that have begun and then failed."""
        each(lambda marker: marker.resume(), [*self._markers.values()])


def _each_of(parts: Sequence[bytes]) -> Iterator[WrittenPart]:
    """The parts in the answers of writers. Some may have staged nothing."""
    for answer in filter(None, parts):
        yield from parts_of(answer)
