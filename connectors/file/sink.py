"""FileStreamSink: the values of records as lines of a file, or on standard output."""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column

from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.connectors.file.staging import StagedLines, StagingFolder
from headrace.connectors.file.writer import Appender, LineWriter, StandardOutputWriter, keep, shown
from headrace.plugins.contracts import (
    ArrowWriter,
    Connector,
    Place,
    SinkTask,
    TaskContext,
    TopicPartition,
)
from headrace.plugins.extensions import Effect, PartitionedSink, PreviewedSink, StagingSink
from headrace.plugins.java_text import value_text
from headrace.plugins.path_bounds import allowed_paths
from headrace.plugins.records import Records

SETTINGS: Final = Settings(
    Setting(
        "file",
        Type.STRING,
        None,
        importance=Importance.HIGH,
        documentation="The file that each record's value is appended to as a line; it is created where there is none. "
        "Without it, or where it is empty, lines go to standard output.",
    ),
)


class FileStreamSinkTask(SinkTask, PartitionedSink, StagingSink, PreviewedSink):
    """Appends to one file, or to standard output; several tasks may append to the same one, line by line."""

    place = Place.WORKER_HOST
    _appender: Appender | None = None
    _stage: StagingFolder | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Opens the file.

        Errors: ConfigError for a file outside of `file.allowed.paths`; FileError if it cannot be opened.
        """
        name: str | None = SETTINGS.parse(config)["file"]
        self._attempts: deque[str] = deque(maxlen=2)
        if not name:
            self.place = Place.WORKER_PROCESS
            return
        # Executors have another current directory.
        self._path = os.path.abspath(name)
        self._allowed = allowed_paths(context.worker)
        self._kept_as = f"{context.connector}-{context.task}-{uuid.uuid4()}"
        self._appender = Appender(self._path, self._allowed)
        self._appender.open()
        self._stage = StagingFolder.beside(self._path, f"{context.connector}-{context.task}", self._allowed)
        if self._stage is not None:
            self._stage.sweep()
        keep(self._kept_as, self._appender)

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Look for the file. Errors: as `start`."""
        name: str | None = SETTINGS.parse(config)["file"]
        self._previewed = Appender(os.path.abspath(name), allowed_paths(context.worker)) if name else None
        self._is_new = self._previewed is not None and not self._previewed.is_there()

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield the file, if it is new, and each line."""
        target = "standard output" if self._previewed is None else self._previewed.path
        if self._is_new:
            yield Effect("create", target)
        lines = (line for rows in batches for line in shown(rows.column("line")).to_pylist())
        for row, line in enumerate(lines):
            yield Effect("append", target, {"line": line}, row)

    @staticmethod
    def columns(records: Records) -> list[Column]:
        """One column `line`: the value as Java prints it."""
        return [value_text(records).alias("line")]

    def writer(self, attempt: str) -> ArrowWriter:
        """A writer to this file. A batch that is tried again is written again."""
        if self._appender is None:
            return StandardOutputWriter()
        return LineWriter(self._kept_as, self._path, self._allowed)

    def staging_writer(self, attempt: str) -> ArrowWriter | None:
        """A writer to a hidden file beside this one. Removes what batches before the last one left there."""
        if self._stage is None:
            return None
        self._attempts.append(attempt)
        self._stage.sweep(tuple(self._attempts))
        return StagedLines(self._stage, attempt)

    def commit(self, parts: Sequence[bytes]) -> None:
        """Appends the staged lines to the file. Errors: RetriableError with none of the last part left in the file."""
        for part in filter(None, parts):
            assert self._appender is not None
            self._appender.append_file(part.decode())

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Syncs the appended lines to the disk."""
        if self._appender is not None:
            self._appender.sync()

    def stop(self) -> None:
        """Syncs and closes the file."""
        if self._appender is not None:
            self._appender.sync()
            self._appender.close()
            self._appender = None
        if self._stage is not None:
            self._stage.sweep()


class FileStreamSinkConnector(Connector):
    """Plans as many equal tasks as allowed, which append to one file."""

    settings = SETTINGS
    version = "4.3.1"
    task_class = "org.apache.kafka.connect.file.FileStreamSinkTask"
    task = FileStreamSinkTask

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts all: Kafka's offsets are all that it has."""
        return True
