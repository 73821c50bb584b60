"""FileStreamSource: the lines of a file, or of standard input, into a topic."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import NonEmpty
from headrace.connectors.file.follow import FollowedFile
from headrace.connectors.file.offsets import FILENAME, FileOffset, check_offsets
from headrace.connectors.file.reader import OFFSET, ROW, FileReader
from headrace.connectors.file.standard_input import STANDARD_INPUT, StandardInput, StandardInputReader
from headrace.connectors.file.watch import FileWatch
from headrace.plugins.contracts import (
    ArrowReader,
    Connector,
    Limit,
    PartitionResult,
    Place,
    Plan,
    RetriableError,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.extensions import PacedSource, PreviewedSource, SourceProgress
from headrace.plugins.path_bounds import allowed_paths, check_allowed
from headrace.plugins.records import Records, source_records
from headrace.plugins.schema import STRING

SETTINGS: Final = Settings(
    Setting(
        "file",
        Type.STRING,
        None,
        importance=Importance.HIGH,
        documentation="The file whose lines are read, and which is followed as it grows, is cut or replaced. Without "
        "it, or where it is empty, standard input is read.",
    ),
    Setting(
        "topic",
        Type.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="The topic that each line becomes a record of.",
    ),
    Setting(
        "batch.size",
        Type.INT,
        2000,
        importance=Importance.LOW,
        documentation="Kept for configurations written for Apache's connector, where it bounds the records of one "
        "poll. It bounds nothing here: the worker bounds each batch by rows and by bytes.",
    ),
)


class FileStreamSourceTask(SourceTask, PacedSource, SourceProgress, PreviewedSource):
    """Reads one file, or standard input, from its stored offset on."""

    place = Place.WORKER_HOST
    coalesces = True
    row_type = ROW
    offset_type = OFFSET
    standard_input: ClassVar[StandardInput] = STANDARD_INPUT
    _file: FollowedFile | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares to plan; a missing file is waited for.

        Errors: ConfigError for wrong settings and a file outside of `file.allowed.paths`.
        """
        settings = SETTINGS.parse(config)
        self._topic: str = settings["topic"]
        self._name: str | None = settings["file"] or None
        self._base: int | None = None
        if self._name is None:
            self.place = Place.WORKER_PROCESS
            self.standard_input.claim(self, context.connector)
            return
        allowed = allowed_paths(context.worker)
        # Executors have another current directory.
        path = os.path.abspath(self._name)
        check_allowed(path, allowed)
        self._file = FollowedFile(path, allowed, FileWatch(path, context.wake))

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`, for a file: a read of standard input takes its lines."""
        if not SETTINGS.parse(config)["file"]:
            raise NotImplementedError("A read of standard input takes its lines from the connector")
        self.start(config, context)

    def topics(self) -> Sequence[str]:
        """The one topic."""
        return (self._topic,)

    def partitions(self) -> Sequence[SourcePartition]:
        """The file by its name as configured; null for standard input."""
        return [{FILENAME: self._name}]

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """The complete lines after the stored offset, up to the limit; one line at least."""
        if self._file is None:
            return self._plan_standard_input(after[0], limit)
        file, stored = self._file, FileOffset.of(after[0])
        try:
            plan = self._plan_file(file, stored, limit)
            if plan is None and file.watched_anew():
                plan = self._plan_file(file, stored, limit)
        except OSError as e:
            raise RetriableError(f"{file.path} cannot be read: {e}") from e
        if plan is not None:
            file.watch.found()
        return plan

    @property
    def tells_of_news(self) -> bool:
        """True if the file is watched."""
        return self._file is not None and self._file.is_watched

    def _plan_file(self, file: FollowedFile, stored: FileOffset, limit: Limit) -> Plan | None:
        at = file.resume(stored)
        if at is None:
            return None
        file.watch_if_at_rest()
        end = file.next_end(at, limit)
        if end is None and (turned := file.rotated(at)):
            at, rest = turned
            end = (rest, 1) if rest is not None else file.next_end(at, limit)
        if end is None:
            return None
        upto, rows = end
        # The line's number is known only to the reader of the rows.
        bound = FileOffset(upto, None, at.generation, file.head(upto))
        split = Split(self.partitions()[0], at.stored(), bound.stored())
        return Plan((split,), rows, upto - at.position, caught_up=file.is_all(upto))

    def _plan_standard_input(self, stored: SourceOffset | None, limit: Limit) -> Plan | None:
        line = (stored or {}).get("line") or 0
        if self._base is None:
            self._base = line - self.standard_input.released
        self.standard_input.release(line - self._base)
        data = self.standard_input.lines(limit.rows, limit.bytes)
        if not data:
            return None
        self._taken = StandardInputReader(data, line)
        rows = max(1, data.count(b"\n"))
        after = {"position": None, "line": line}
        return Plan((Split(self.partitions()[0], after, None),), rows, len(data))

    def reader(self, plan: Plan) -> ArrowReader:
        """A reader of the planned lines and no others."""
        if self._file is None:
            return self._taken
        ranges = tuple((FileOffset.of(split.after), FileOffset.of(split.upto).position) for split in plan.splits)
        return FileReader(self._file.opened, ranges)

    @staticmethod
    def records(frame: DataFrame) -> Records:
        """Each line is the value of a record, with the schema of a required string."""
        return source_records(frame, F.col("topic"), F.col("value"), STRING)

    def committed(self, reached: Sequence[PartitionResult]) -> None:
        """Releases the lines of standard input that are stored."""
        for one in reached:
            if self._base is not None and one.source_offset is not None:
                self.standard_input.release((one.source_offset.get("line") or 0) - self._base)

    def stop(self) -> None:
        """Closes the file; leaves standard input to the next task."""
        if self._file is not None:
            self._file.close()
        self.standard_input.leave(self)


class FileStreamSourceConnector(Connector):
    """One task that reads one file."""

    settings = SETTINGS
    version = "4.3.1"
    task_class = "org.apache.kafka.connect.file.FileStreamSourceTask"
    task = FileStreamSourceTask

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """True for a file: what is read from standard input does not come again."""
        return bool(config.get("file"))

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts positions in a file, and null. Errors: FileError with Apache's text."""
        return check_offsets(config, offsets)
