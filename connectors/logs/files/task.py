"""A task of LogFiles: each plan reads parts of some logs."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.config.settings import ConfigError
from headrace.connectors.logs.files.contents import Unusable
from headrace.connectors.logs.files.envelopes import Format
from headrace.connectors.logs.files.looking import Logs
from headrace.connectors.logs.files.offsets import PATH, POSITION, TYPE, LogOffset
from headrace.connectors.logs.files.reader import ROW, LogReader, Part
from headrace.connectors.logs.files.settings import LogFilesSettings
from headrace.plugins.contracts import (
    ArrowReader,
    Limit,
    PartitionResult,
    Place,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.extensions import PacedSource, PreviewedSource, SourceProgress
from headrace.plugins.interop.java.json_members import schemaless
from headrace.plugins.path_bounds import allowed_paths
from headrace.plugins.records import Records, error, source_records
from headrace.plugins.schema import OPTIONAL_STRING, STRING, TIMESTAMP, Field, Schema, SchemaType

_LINE: Final = Schema(
    SchemaType.STRUCT,
    name="headrace.connectors.logs.LogLine",
    fields=(
        Field("message", STRING),
        Field("timestamp", Schema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1)),
        Field("stream", OPTIONAL_STRING),
        Field("path", STRING),
        Field("position", Schema(SchemaType.INT64)),
        Field("host", STRING),
    ),
)
_MEAN_BYTES: Final = 128
_UNUSABLE_S: Final = 10.0

log = logging.getLogger(__name__)


class LogFilesSourceTask(SourceTask, PacedSource, SourceProgress, PreviewedSource):
    """Reads some of the connector's logs, each from its stored offset on."""

    place = Place.WORKER_HOST
    coalesces = True
    rows_share_offsets = True
    row_type = ROW
    offset_type = TYPE

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares to plan. Errors: ConfigError."""
        self._settings = settings = LogFilesSettings.of(config)
        self._class = config.get("connector.class", "")
        self._host = socket.gethostname()
        # Files found at the first look of all are read from their end; a mark says that this look is over.
        self._mark: SourcePartition = {PATH: settings.paths[0] + "#start"}
        is_first = settings.start_at == "end" and context.stored_offsets([self._mark])[0] is None
        allowed = allowed_paths(context.worker)

        def has_offset(path: str) -> bool:
            return context.stored_offsets([{PATH: path}])[0] is not None

        self._logs = Logs(settings, context.task, allowed, has_offset, context.wake, is_first)
        self._chosen: list[str] = []
        self._parts: list[Part | None] = []
        self._unusable: dict[str, float] = {}
        self._is_marked = not is_first

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`: files are only read."""
        self.start(config, context)

    def topics(self) -> Sequence[str]:
        """The one topic."""
        return (self._settings.topic,)

    def partitions(self) -> Sequence[SourcePartition]:
        """The logs that may have something to read."""
        now = time.monotonic()
        self._chosen = [path for path in self._logs.look() if now >= self._unusable.get(path, 0.0)]
        mark = [] if self._is_marked else [self._mark]
        return [*({PATH: path} for path in self._chosen), *mark]

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """The complete events after these offsets, within the limit; one at least. Errors: RetriableError."""
        splits: list[Split] = []
        parts: list[Part] = []
        rest = limit
        for path, stored in zip(self._chosen, after, strict=False):
            if rest.bytes <= 0 or rest.rows <= 0:
                break
            part = self._part(path, LogOffset.of(stored), rest)
            if part is None:
                continue
            size = part.upto - part.after.position
            rest = Limit(rest.rows - max(1, size // _MEAN_BYTES), rest.bytes - size)
            bound = {POSITION: part.upto, "closed": part.closed}
            begin = part.after.stored() if not size else None
            splits.append(Split({PATH: path}, part.after.stored(), bound, offset_if_empty=begin))
            parts.append(part)
        if not splits and not self._is_marked:
            splits.append(Split(self._mark, None, None, offset_if_empty=LogOffset().stored()))
        self._parts = [*parts, *(None for _ in splits[len(parts) :])]
        self._logs.found(nothing=not splits)
        self._logs.bound_open({part.path for part in parts})
        if not splits:
            return None
        size = sum(part.upto - part.after.position for part in parts)
        return Plan(tuple(splits), max(1, size // _MEAN_BYTES), size)

    def _part(self, path: str, stored: LogOffset | None, limit: Limit) -> Part | None:
        state = self._logs.state(path)
        one = self._logs.followed[path]
        try:
            part = one.plan(stored, limit)
        except (Unusable, ConfigError, OSError) as e:
            one.close()
            if path not in self._unusable:
                log.warning("%s is not read, and tried again every %d s: %s", path, _UNUSABLE_S, e)
            self._unusable[path] = time.monotonic() + _UNUSABLE_S
            return None
        self._unusable.pop(path, None)
        if part is None:
            self._logs.settle(path, state)
        return part

    @property
    def tells_of_news(self) -> bool:
        """True if all directories are watched."""
        return self._logs.is_watched

    def reader(self, plan: Plan) -> ArrowReader:
        """A reader of the planned parts."""
        return LogReader(tuple(self._parts), self._settings.reading)

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Notes that the mark is stored."""
        self._is_marked = self._is_marked or any(one.source_partition == self._mark for one in reached)

    def records(self, frame: DataFrame) -> Records:
        """Each event is the value of a record."""
        settings = self._settings
        value, schema = F.col("value"), STRING
        path, position, host = F.col("path"), F.col("position"), F.lit(self._host)
        if settings.value == "struct":
            logged = F.timestamp_millis(F.col("logged"))
            members = (value, logged, F.col("stream"), path, position, host)
            value = F.struct(*(one.alias(field.name) for one, field in zip(members, _LINE.fields, strict=True)))
            schema = _LINE
        key = {"path": path, "host": host, "none": None}[settings.key]
        headers = F.array(_header("path", path), _header("position", position), _header("host", host))
        made = source_records(
            frame,
            F.lit(settings.topic),
            schemaless(value) if settings.reading.format is Format.JSON and schema is STRING else value,
            None if settings.reading.format is Format.JSON and schema is STRING else schema,
            "value",
            key=key,
            key_schema=None if key is None else STRING,
            timestamp=F.col("logged"),
            headers=headers if settings.has_headers else None,
        )
        if settings.reading.format is not Format.JSON or schema is not STRING:
            return replace(made, frame=made.frame.drop("value"))
        line = F.col("value")
        unread = F.col("value_0").isNull() & (F.trim(line) != "null")
        why = F.when(unread, F.concat(F.lit("The line is no JSON: "), F.left(line, F.lit(100))))
        failed = error("TASK_POLL", self._class, why)
        return replace(made, frame=made.frame.withColumn("error", failed).drop("value"))

    def stop(self) -> None:
        """Closes the files."""
        if hasattr(self, "_logs"):
            self._logs.close()


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(f"log.{name}").alias("key"), value.cast("string").cast("binary").alias("value"))
