"""A spool folder's task: plans files in their order, and puts them away once their offsets are stored.

    look -> files that wait -> plan -> reader -> delivered: read to the end -> committed: put away -> forgotten

Each file is a source partition of its own. A plan has several small files, or a part of a large one. What is wrong with
a file is found by the plan after the reader ended before the bad place: it reads on from there, and meets it.

Decided: files are read one after the other, a large one by one Spark task, because records then keep the order of files
and of rows; loses: `tasks.max` alone lets several cores read.
Measured on 120 MB of typed CSV, in seconds of processor time to read and type all: 2.4; Spark's own reader 11.2 the
first time, 2.4 once it is warm.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.spool.cleanup import Policy
from headrace.connectors.spool.errors import BadFile, SpoolError
from headrace.connectors.spool.generation import with_schemas
from headrace.connectors.spool.listing import own_files
from headrace.connectors.spool.offsets import (
    FILE_NAME,
    FORGOTTEN,
    OFFSET_TYPE,
    FileOffset,
    is_of_another,
    partition_of,
)
from headrace.connectors.spool.options import SpoolOptions, options_of
from headrace.connectors.spool.reader import FACTS, KEY, MODIFIED, FilesReader, FileToRead, SpoolFile, row_type
from headrace.connectors.spool.settings import FIELD, FILE_TIME, Kind
from headrace.connectors.spool.text_stream import NOT_SERVED, is_compressed
from headrace.plugins.contracts import (
    ArrowReader,
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
from headrace.plugins.errors import DataError
from headrace.plugins.extensions import PreviewedSource, RowsOfSeveralTypes, SourceProgress
from headrace.plugins.interop.formats.format import Format
from headrace.plugins.path_bounds import allowed_paths, check_allowed, open_allowed
from headrace.plugins.records import Records, source_records
from headrace.plugins.schema import Schema

log = logging.getLogger(__name__)

MOST_FILES: Final = 256
"""The most files of a plan."""
_TOGETHER: Final = Limit(20_000, 4 << 20)
"""So much of several files is one plan, and no job: a job would read them side by side."""
_ROW_BYTES: Final = 100
_REST: Final = 9
"""A look at a large folder is followed by a pause of so many times its duration."""
_GROWTH: Final = 5
"""The growth of compressed files and columns in memory, roughly."""
_AT_ONCE: Final = 8
"""A compressed file is read in so many plans at most: each reads what is before again."""


class SpoolTask(SourceTask, RowsOfSeveralTypes, SourceProgress, PreviewedSource):
    """Reads the files of a folder, each once."""

    place = Place.WORKER_HOST
    offset_type = OFFSET_TYPE
    kind: ClassVar[Kind | None] = None
    """The format of its files; None: the config names it."""

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to plan. Errors: ConfigError; SpoolError if schemas have to be generated, and cannot be."""
        self._prepare(config, context)
        for name, path, mode in _folders(self._options):
            if not os.path.isdir(path) or not os.access(path, mode):
                can = " and ".join([*(["read"] if mode & os.R_OK else []), *(["change"] if mode & os.W_OK else [])])
                text = f"It is no folder that this worker can {can}."
                raise ConfigError(Problem(name, path, text, "Make it, or change its owner or mode."))
        self._is_preview = False

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to read without putting files away. Errors: as `start`."""
        self._prepare(config, context)

    def _prepare(self, config: Mapping[str, str], context: TaskContext) -> None:
        self._allowed = allowed_paths(context.worker)
        options = options_of(config, self.kind, own_files(context.worker))
        for _, path, _ in _folders(options):
            check_allowed(path, self._allowed)
        self._options = with_schemas(options, self._allowed)
        self._is_preview = True
        self._waiting: dict[str, SpoolFile] = {}
        self._asked: list[SpoolFile] = []
        self._forgetting: list[str] = []
        """The files whose offsets the next plan is given, and those that it forgets."""
        self._look_at = 0.0
        self._read: dict[str, SpoolFile] = {}
        """Files that were read to their ends, whose offsets are not stored yet."""
        self._put_away: list[SpoolFile] = []
        """Files that are to be put away now."""
        self._left: dict[str, str] = {}
        """The identities of files that were read and stay in the folder."""
        self._gone: list[str] = []
        """Files that were put away, whose offsets are to be forgotten."""
        self._changing: set[str] = set()
        self._tried: dict[str, tuple[str, int]] = {}
        """The place in each file where the last plan began."""
        self._chosen: list[FileToRead | None] = []
        self._schemas: list[Schema | None] = [self._options.value]

    def topics(self) -> Sequence[str]:
        """Return the one topic."""
        return (self._options.topic,)

    def partitions(self) -> Sequence[SourcePartition]:
        """Return the files that wait, and those to be forgotten; none until files are looked for again.

        Errors: RetriableError if the folder cannot be read, or a file that was read cannot be put away.
        """
        self._finish()
        if not self._waiting and not self._gone:
            self._look()
        self._asked = list(islice(self._waiting.values(), MOST_FILES))
        self._gone = [name for name in self._gone if name not in self._waiting]
        self._forgetting = self._gone[:MOST_FILES]
        return [partition_of(name) for name in (*(file.name for file in self._asked), *self._forgetting)]

    def _look(self) -> None:
        began = time.monotonic()
        if began < self._look_at:
            return
        found = self._options.listing.files(self._changing)
        here = {file.name: file.identity for file in found}
        self._left = {name: identity for name, identity in self._left.items() if here.get(name) == identity}
        new = [file for file in found if file.name not in self._read and file.name not in self._left]
        self._waiting = {file.name: file for file in new}
        self._changing -= here.keys()
        if not new:
            ended, pause_s = time.monotonic(), self._options.pause_s
            self._look_at = ended + (max(pause_s, _REST * (ended - began)) if pause_s else 0)

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Plan several small files, or a part of a large one, and what is to be forgotten.

        Errors: RetriableError; SpoolError for a file that cannot be read, with `halt.on.error`.
        """
        chosen: list[FileToRead] = []
        ended: list[FileToRead] = []
        rows = size = 0
        for file, stored in zip(self._asked, after, strict=False):
            try:
                one = self._next(file, stored, limit)
                if one is None:
                    continue
                if chosen and self._was_planned(one):
                    break  # the reader left it: it is the next plan's first, or each plan would open all again
                if self._is_at_end(one):
                    ended.append(one)
                    continue
            except BadFile as error:
                if chosen:
                    break  # its turn comes behind them
                self._fail(file, error)
                continue
            more_rows, more_bytes = self._estimated(one)
            if chosen and not _fits(rows + more_rows, size + more_bytes, limit):
                break
            chosen.append(one)
            rows, size = rows + more_rows, size + more_bytes
        self._tried = {one.file.name: (one.file.identity, one.at.records) for one in chosen}
        self._finish()
        splits = [*map(self._split, chosen), *map(_end, ended), *map(_forgotten, self._forgetting)]
        self._chosen = [*chosen, *[None] * (len(splits) - len(chosen))]
        return Plan(tuple(splits), rows, size) if splits else None

    def _next(self, listed: SpoolFile, stored: SourceOffset | None, limit: Limit) -> FileToRead | None:
        """Return what to read of a file; None if it is gone, changed since it was found, or was read before.

        Errors: BadFile; RetriableError.
        """
        try:
            file = SpoolFile.at(listed.name, listed.path)
        except FileNotFoundError:
            self._drop(listed)
            return None
        except OSError as error:
            raise RetriableError(f"{listed.path} cannot be read: {error}") from error
        if file.identity != listed.identity:
            self._changing.add(file.name)
            self._drop(listed)
            return None
        at = FileOffset.after(stored, file.identity)
        if at.done:
            self._put_away.append(file)
            self._drop(listed)
            return None
        if is_of_another(stored, file.identity):
            log.info("%s is another file than the one of this name that was read before: all of it is read", file.path)
        value = self._value_of(file, at)
        most_bytes = max(1, limit.bytes, self._size(file) // _AT_ONCE if self._reads_again(file) else 0)
        return FileToRead(
            file=file,
            at=at,
            format=self._options.format,
            value=value,
            key=self._options.key,
            charset=self._options.charset,
            allowed=self._allowed,
            most_rows=max(1, limit.rows),
            most_bytes=most_bytes,
            has_facts=self._options.has_facts,
        )

    def _value_of(self, file: SpoolFile, at: FileOffset) -> Schema | None:
        """Return the schema of values, of Avro and Parquet that of the file. Errors: BadFile."""
        if file.name.lower().endswith(NOT_SERVED):
            raise BadFile(f"files of {NOT_SERVED[0]} cannot be decompressed: use gzip, bzip2, lz4 or zstd")
        if not isinstance(self._options.format, Format):
            return self._options.value
        try:
            with os.fdopen(open_allowed(file.path, os.O_RDONLY | os.O_CLOEXEC, self._allowed), "rb") as opened:
                value = self._options.format.schema_of(pa.PythonFile(opened, "r"))
        except DataError as error:
            raise BadFile(str(error), at.records) from error
        except OSError as error:
            raise RetriableError(f"{file.path} cannot be read: {error}") from error
        if value not in self._schemas:
            self._schemas.append(value)
        return value

    def _was_planned(self, one: FileToRead) -> bool:
        """True if the last plan began at this place, too."""
        return self._tried.get(one.file.name) == (one.file.identity, one.at.records)

    def _is_at_end(self, one: FileToRead) -> bool:
        """True for a file without rows behind the place where the last plan began, too. Errors: BadFile."""
        if not self._was_planned(one):
            return False
        with contextlib.closing(one.rows()) as rows, contextlib.suppress(FileNotFoundError):
            return next(rows, None) is None
        return False

    def _drop(self, file: SpoolFile) -> None:
        """Let a file wait no more."""
        self._waiting.pop(file.name, None)

    def _fail(self, file: SpoolFile, error: BadFile) -> None:
        """Move a file to the folder of errors. Errors: SpoolError, with `halt.on.error`; RetriableError."""
        text = f"{file.path} cannot be read: {error} (in record {error.record + 1})"
        if self._is_preview:
            raise SpoolError(text)
        moved = self._options.cleanup.fail(file)
        self._drop(file)
        self._gone.append(file.name)
        text = (
            f"{text}. It is now {moved}. The records before are in {self._options.topic}: mend the file, take them out "
            "if they must not come twice, and move it back."
        )
        if self._options.halts:
            raise SpoolError(f"{text} Then restart the task. With halt.on.error=false it would have gone on.")
        log.error("%s", text)

    def _size(self, file: SpoolFile) -> int:
        """Return the size of a file's contents, roughly."""
        is_larger = is_compressed(file.name) or self._options.kind is Kind.PARQUET
        return file.size * (_GROWTH if is_larger else 1)

    def _reads_again(self, file: SpoolFile) -> bool:
        """True if what stands before an offset has to be read again."""
        return is_compressed(file.name) or self._options.kind is Kind.AVRO

    def _estimated(self, one: FileToRead) -> tuple[int, int]:
        """Return the rows and bytes left of a file, roughly."""
        size = self._size(one.file)
        if self._options.kind is Kind.BINARY:
            return 1, size
        left = max(0, size - (one.at.position or one.at.records * _ROW_BYTES))
        return left // _ROW_BYTES + 1, left

    def _split(self, one: FileToRead) -> Split:
        return Split(partition_of(one.file.name), one.at.stored(), None, str(self._schemas.index(one.value)))

    def reader(self, plan: Plan) -> ArrowReader:
        """Return a reader of the planned files."""
        return FilesReader(tuple(self._chosen))

    def row_type_of(self, shape: str) -> pa.Schema:
        """Return the columns of rows; a split without rows has no shape and gets any."""
        return row_type(self._schemas[int(shape or 0)], self._options.key, self._options.has_facts)

    def records_of(self, frame: DataFrame, shape: str) -> Records:
        """Make each row a record."""
        options, nothing = self._options, F.lit(None)
        timestamp = nothing
        if options.timestamp_mode == FILE_TIME:
            timestamp = F.col(MODIFIED)
        elif options.timestamp_mode == FIELD:
            timestamp = F.unix_millis(F.col("value").getField(options.timestamp_field))
        return source_records(
            frame,
            F.lit(options.topic),
            F.col("value"),
            self._schemas[int(shape or 0)],
            key=None if options.key is None else F.col(KEY),
            key_schema=options.key,
            timestamp=timestamp,
            headers=_headers() if options.has_facts else None,
        )

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Note which files were read to their ends, and which are about to be forgotten."""
        for one in reached:
            name, offset = (one.source_partition or {}).get(FILE_NAME), one.source_offset or {}
            if _is_forgotten(offset):
                self._gone = [gone for gone in self._gone if gone != name]
            elif offset.get("_done"):
                file = self._waiting.get(name or "")
                if file is not None and file.identity == offset["_of"]:
                    self._read[file.name] = file
                    self._drop(file)

    def offsets_reached(self, reached: PartitionResult) -> Sequence[tuple[SourcePartition, SourceOffset | None]]:
        """Return the offset to store; None removes that of a file that has left the folder."""
        if reached.source_partition is None or reached.source_offset is None:
            return ()
        gone = _is_forgotten(reached.source_offset)
        return ((reached.source_partition, None if gone else reached.source_offset),)

    def committed(self, reached: Sequence[PartitionResult]) -> None:
        """Put away the files whose last offset is stored. Errors: RetriableError."""
        for one in reached:
            name, offset = (one.source_partition or {}).get(FILE_NAME, ""), one.source_offset or {}
            file = self._read.get(name)
            if file is not None and offset.get("_done") and file.identity == offset["_of"]:
                del self._read[name]
                self._put_away.append(file)
        self._finish()

    def _finish(self) -> None:
        while self._put_away:
            file = self._put_away[0]
            if not self._is_preview and self._options.cleanup.finish(file):
                self._gone.append(file.name)
            else:
                self._left[file.name] = file.identity
            self._put_away.pop(0)


def _folders(options: SpoolOptions) -> Iterator[tuple[str, str, int]]:
    """The settings that name folders, these folders, and what has to be allowed in them."""
    moves = options.cleanup.policy is not Policy.NONE
    yield "input.path", options.listing.folder, os.R_OK | os.X_OK | (os.W_OK if moves else 0)
    yield "error.path", options.cleanup.failed, os.W_OK | os.X_OK
    if options.cleanup.finished is not None:
        yield "finished.path", options.cleanup.finished, os.W_OK | os.X_OK


def _fits(rows: int, size: int, limit: Limit) -> bool:
    return rows <= min(limit.rows, _TOGETHER.rows) and size <= min(limit.bytes, _TOGETHER.bytes)


def _end(one: FileToRead) -> Split:
    return Split(partition_of(one.file.name), one.at.stored(), None, offset_if_empty=one.at.ended().stored())


def _forgotten(name: str) -> Split:
    return Split(partition_of(name), None, None, offset_if_empty=FORGOTTEN)


def _is_forgotten(offset: SourceOffset) -> bool:
    return bool(offset.get("_of") == FORGOTTEN["_of"])


def _headers() -> Column:
    """The facts of a row's file, as SimpleHeaderConverter writes them."""
    facts = F.col(FACTS)
    texts = {
        "file.name": facts["name"],
        "file.name.without.extension": facts["name_without_extension"],
        "file.path": facts["path"],
        "file.parent.dir.name": facts["parent"],
        "file.length": facts["length"],
        "file.offset": F.col("source_offset")["offset"].cast("string"),
        "file.last.modified": facts["modified"],
        "file.relative.path": facts["relative_path"],
    }
    pairs = [F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in texts.items()]
    return F.array(*pairs)
