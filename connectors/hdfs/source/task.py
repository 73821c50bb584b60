"""A file source's task: each plan reads some files, or goes on with those that were begun.

Decided: one task for all files, because Spark reads the splits of a plan side by side within it; loses: no second
worker helps to read a backlog.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.connectors.hdfs import beside
from headrace.connectors.hdfs.format_settings import FileFormat
from headrace.connectors.hdfs.source import settings as source_settings
from headrace.connectors.hdfs.source.backup import Destination
from headrace.connectors.hdfs.source.inspection import Inspected, Inspection, Shape
from headrace.connectors.hdfs.source.listing import Listing
from headrace.connectors.hdfs.source.progress import OFFSET_TYPE, SLOT, Piece, Progress
from headrace.connectors.hdfs.source.reader import PARTITION, PROBLEM, Beside, FilesReader, PieceToRead
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Entry
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.contracts import (
    ArrowReader,
    Limit,
    PartitionResult,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.extensions import PreviewedSource, RowsOfSeveralTypes, SourceProgress
from headrace.plugins.interop.java.json_members import schemaless
from headrace.plugins.records import Records, error, source_records

MOST_FILES: Final = 64
"""The most files of a plan."""
_AT_ONCE: Final = 8
"""A file that is not Parquet is read in so many plans at most: each reads the rows before again."""
_LOOKED_THROUGH: Final = 10_000
"""The most waiting files that are looked through for the next one of each partition."""
_STAGE: Final = "TASK_POLL"
_NO_HEADERS: Final = "The row of headers beside it is not as S3Sink writes it: the file belongs to something else"
_NO_JSON: Final = "The line is no JSON: "


@dataclass(frozen=True)
class _Chosen:
    """A piece that a plan reads, and its slot."""

    slot: int
    piece: Piece
    found: Inspected


class FileSourceTask(SourceTask, RowsOfSeveralTypes, SourceProgress, PreviewedSource):
    """Reads files below a path, each once."""

    offset_type = OFFSET_TYPE

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares to plan. Errors: ConfigError."""
        self._settings = source_settings.source_settings(config)
        self._class = config.get("connector.class", "")
        self._store = store_of(StoreSettings.of(source_settings.parse(config), context.worker))
        self.place = self._store.place
        self._listing = Listing(self._store, self._settings)
        self._inspection = Inspection(self._listing)
        self._progress = Progress()
        self._waiting: deque[Entry] = deque()
        self._looked: float | None = None
        self._idle_until = 0.0
        self._shapes: list[Shape] = []
        self._chosen: list[_Chosen] = []

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`: files are only read."""
        self.start(config, context)

    def topics(self) -> Sequence[str]:
        """The topics of the files planned so far; before that the configured one, if any."""
        return list(dict.fromkeys(shape.topic for shape in self._shapes)) or list(filter(None, [self._settings.topic]))

    def partitions(self) -> Sequence[SourcePartition]:
        """The slots, and after a start the segments of read files; none until files are looked for again."""
        return [] if time.monotonic() < self._idle_until else self._progress.partitions()

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Plans the pieces of begun files, then those of new files, within the limit; one piece at least.

        Errors: RetriableError, StoreError.
        """
        if not after or not self._progress.update(after):
            return None
        self._limit, self._chosen = limit, list(self._choice(limit))
        splits = [self._split(one) for one in self._chosen]
        if (noted := self._progress.note(min(len(splits) + 1, MOST_FILES))) is not None:
            splits.append(noted)
        if not splits:
            self._idle_until = (self._looked or 0) + self._settings.poll_interval_ms / 1000
            return None
        sizes = [self._inspection.estimated(one.found, one.piece) for one in self._chosen]
        return Plan(tuple(splits), sum(rows for rows, _ in sizes), sum(size for _, size in sizes))

    def _choice(self, limit: Limit) -> Iterator[_Chosen]:
        """The next pieces: those that were begun, the other pieces of begun files, new files."""
        opened = self._progress.open()[:MOST_FILES]
        unfinished = [(file, self._progress.of(file)[0][1].size) for file in self._progress.unfinished()]
        new = [(entry.path, entry.size) for entry in self._new_files(limit)] if len(opened) < MOST_FILES else []
        sizes = {piece.file: piece.size for _, piece in opened} | dict(unfinished) | dict(new)
        found = self._inspection.inspect(sizes)
        if gone := sizes.keys() - found.keys():
            self._waiting = deque(entry for entry in self._waiting if entry.path not in gone)
        taken = size = 0
        for slot, piece in opened:
            taken, size = taken + 1, size + piece.size // piece.pieces
            yield _Chosen(slot, piece, found.get(piece.file) or self._gone(piece.file))
        free = iter(self._progress.free())
        for file, whole in (*unfinished, *new):
            for piece in self._new_pieces(file, whole, found.get(file)):
                is_enough = taken >= MOST_FILES or (taken > 0 and size >= limit.bytes)
                if is_enough or (empty := next(free, None)) is None:
                    return
                taken, size = taken + 1, size + piece.size // piece.pieces
                yield _Chosen(empty, piece, found[file])

    def _new_pieces(self, file: str, size: int, found: Inspected | None) -> list[Piece]:
        """The pieces of a file that are in no slot; none of a file that is gone."""
        if found is None:
            return []
        known = self._progress.bounds(file)
        return [Piece(file, size, *bounds, len(found.bounds)) for bounds in found.bounds if bounds not in known]

    def _gone(self, file: str) -> Inspected:
        """A begun file that cannot be inspected now: its reader finds out why."""
        kind, to = self._listing.format_of(file), self._listing.destination_of(file)
        problem = f"{file} is gone after some of its rows were read"
        return Inspected(to or Destination(file), kind or FileFormat.TEXT, None, problem=problem)

    def _new_files(self, limit: Limit) -> list[Entry]:
        """Files that were not begun, as many as a plan takes."""
        self._pass_known()
        if not self._waiting:
            self._look()
        chosen: list[Entry] = []
        size = 0
        opened = self._progress.open() if self._settings.restores else ()
        begun = {self._listing.destination_of(piece.file) for _, piece in opened}
        for entry in islice(self._waiting, _LOOKED_THROUGH):
            if len(chosen) >= MOST_FILES or size >= limit.bytes:
                break
            if not self._progress.is_known(entry.path) and self._is_next(entry, begun):
                chosen.append(entry)
                size += entry.size
        return chosen

    def _is_next(self, entry: Entry, begun: set[Destination | None]) -> bool:
        """False if an earlier file of its partition is being read: records come in order."""
        if not self._settings.restores:
            return True
        to = self._listing.destination_of(entry.path)
        is_next = to not in begun
        begun.add(to)
        return is_next

    def _pass_known(self) -> None:
        """Drops known files from the front of the queue: files are begun in their order."""
        while self._waiting and self._progress.is_known(self._waiting[0].path):
            self._waiting.popleft()

    def _look(self) -> None:
        now = time.monotonic()
        if self._looked is not None and now - self._looked < self._settings.poll_interval_ms / 1000:
            return
        self._waiting = deque(self._listing.files(self._progress.is_known, int(time.time() * 1000)))
        self._looked = time.monotonic()

    def _split(self, one: _Chosen) -> Split:
        shape = one.found.shape
        if shape not in self._shapes:
            self._shapes.append(shape)
        done = replace(one.piece, done=True).stored()
        number = str(self._shapes.index(shape))
        return Split({SLOT: one.slot}, one.piece.stored(), None, number, offset_if_empty=done)

    def reader(self, plan: Plan) -> ArrowReader:
        """A reader of the planned pieces."""
        count = max(1, len(self._chosen))
        pieces: list[PieceToRead | None] = [self._to_read(one, count) for one in self._chosen]
        pieces += [None] * (len(plan.splits) - len(pieces))
        return FilesReader(self._store, tuple(pieces))

    def _to_read(self, one: _Chosen, count: int) -> PieceToRead:
        reads = self._inspection.format(one.found.kind)
        least = 0 if one.found.kind is FileFormat.PARQUET else one.piece.size // _AT_ONCE
        rows, size = max(1, self._limit.rows // count), max(self._limit.bytes // count, least, 1)
        found, form = one.found, self._inspection.format
        sides = tuple(Beside(side.column, side.path, form(side.kind), side.schema) for side in found.beside)
        return PieceToRead(one.piece, reads, found.schema, rows, size, found.problem, found.to.partition, sides)

    def _shape(self, shape: str) -> Shape:
        """The shape of this number; a split without rows has no shape and gets any."""
        return self._shapes[int(shape)] if shape else Shape("", FileFormat.TEXT, None)

    def row_type_of(self, shape: str) -> pa.Schema:
        """The value, the reason why a file could not be read, keys and headers, the partition."""
        found = self._shape(shape)
        columns = [("value", arrow_type_of_schema(found.schema)), (PROBLEM, pa.string())]
        columns += [(column, arrow_type_of_schema(schema)) for column, _, schema in found.beside]
        return pa.schema([*columns, *([(PARTITION, pa.int32())] if self._settings.restores else [])])

    def records_of(self, frame: DataFrame, shape: str) -> Records:
        """Each row is a value; a line of JSON is a value without schema."""
        found, problem = self._shape(shape), F.col(PROBLEM)
        value, unread = _read("value", found.kind)
        problem = F.coalesce(unread, problem)
        given: dict[str, Any] = {}
        for column, kind, schema in found.beside:
            if column == beside.HEADERS:
                headers = beside.read_headers(kind, F.col(column))
                problem = F.coalesce(problem, F.when(headers.isNull() & F.col(column).isNotNull(), F.lit(_NO_HEADERS)))
                given["headers"] = headers
                continue
            key, unread = _read(column, kind)
            problem = F.coalesce(problem, unread)
            given |= beside.read_key(kind, key, schema)
        if self._settings.restores:
            given["partition"] = F.col(PARTITION)
        told = frame.withColumn(PROBLEM, problem)
        made = source_records(told, F.lit(found.topic), value, found.schema, PROBLEM, **given)
        failed = error(_STAGE, self._class, F.col(PROBLEM))
        return made.with_frame(made.frame.withColumn("error", failed).drop(PROBLEM))

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Notes which offsets are about to be stored."""
        self._progress.delivered(reached)

    def stop(self) -> None:
        """Closes the store."""
        if hasattr(self, "_store"):
            self._store.close()


def _read(column: str, kind: FileFormat) -> tuple[Column, Column]:
    """The values of a column, and the reason why one cannot be read: a line of JSON is a value without schema."""
    line = F.col(column)
    if kind is not FileFormat.JSON:
        return line, F.lit(None).cast("string")
    value = schemaless(line)
    unread = value.isNull() & (F.trim(line) != "null")
    return value, F.when(unread, F.concat(F.lit(_NO_JSON), F.left(line, F.lit(100))))
