"""The open files of one Kafka partition: rows go to them, rotations end them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.hdfs.sink.rotation import Rotation
from headrace.connectors.hdfs.sink.spec import Begin, FileSpec
from headrace.plugins.errors import DataError
from headrace.plugins.interop.formats.compatibility import SchemaAction, decide
from headrace.plugins.interop.formats.format import FileWriter
from headrace.plugins.offsets import TopicPartition


@dataclass
class SideFile:
    """A file of keys or headers beside a file of values."""

    kind: str
    column: str
    extension: str
    writer: FileWriter

    def path(self, main: str, extension: str) -> str:
        """Its path beside the file `main`, which ends with `extension`."""
        return f"{main.removesuffix(extension)}.{self.kind}{self.extension}"


@dataclass
class OpenFile:
    """A file on the local disk that is being written."""

    topic: str
    directory: str
    writer: FileWriter
    first: int
    last: int
    layout: int
    beside: list[SideFile]

    @property
    def writers(self) -> list[FileWriter]:
        """Its own writer and those of the files beside it."""
        return [self.writer, *(one.writer for one in self.beside)]


class EndedBy(StrEnum):
    """The cause that ended files; of time, size and the like by the settings that bound them."""

    COUNT = "flush.size"
    SIZE = "rotate.bytes"
    TIME = "rotate.interval.ms"
    CLOCK = "the clock"
    DIRECTORY = "another directory"
    SCHEMA = "another schema"


@dataclass(frozen=True)
class ClosedFile:
    """A whole file on the local disk."""

    local: str
    path: str
    """Its final path in the store."""
    topic: str
    directory: str
    layout: int
    """The number of its schema; -1: the schema of the files before this process began."""
    offsets: tuple[int, int]
    """The first and the last."""
    ended_by: EndedBy | None
    """None: it is still open, and closed only to be looked at."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """The final paths of the files beside it, by their paths on the local disk."""

    @property
    def locals(self) -> list[str]:
        """Its path on the local disk and those of the files beside it."""
        return [self.local, *self.beside]


class RefusedRecord(NamedTuple):
    """A record that cannot be written."""

    offset: int
    why: str


@dataclass
class PartitionFiles:
    """The uncommitted files of one partition."""

    spec: FileSpec
    of: TopicPartition
    folder: str
    """The folder of this process, on the local disk."""
    begin: Begin
    closed: list[ClosedFile] = field(default_factory=list)
    done: tuple[int, int] | None = None
    """The first and last offset of the closed files."""
    _files: dict[tuple[str, Any], OpenFile] = field(default_factory=dict)
    _rotation: Rotation | None = None
    _directory: Any = None
    """The directory of the last record, if another one ends the files."""

    def __post_init__(self) -> None:
        self.next = self.begin.offset
        self._schema, self._is_new = self.begin.schema, self.begin.is_new
        self._layout, self._key = -1, -1

    # -- rows ----------------------------------------------------------------------------------------------------------

    def add(self, rows: pa.RecordBatch) -> list[RefusedRecord]:
        """Take rows of this partition in the order of their offsets; skips those that were taken already.

        Returns the rows that cannot be written. Errors: DataError for these, unless they are tolerated; OSError of the
        local disk.
        """
        offsets = rows["offset"].to_numpy()
        if self.next is not None and offsets[0] < self.next:
            rows = rows.slice(int(np.searchsorted(offsets, self.next)))
        refused: list[RefusedRecord] = []
        begin = 0
        for end in _runs(rows) if len(rows) else ():
            self._add(rows.slice(begin, end - begin), rows["layout"][begin].as_py(), refused)
            begin = end
        if len(rows):
            self.next = rows["offset"][-1].as_py() + 1
        return refused

    def _add(self, rows: pa.RecordBatch, layout: int, refused: list[RefusedRecord]) -> None:
        schema = self.spec.layouts[layout]
        try:
            if self._is_new or decide(self._schema, schema, self.spec.compatibility) is SchemaAction.ROTATE:
                self.end(EndedBy.SCHEMA)
                self._schema, self._is_new, self._layout = schema, False, layout
            values = rows[f"value_{layout}"]
            if schema is not None and self._schema is not None and schema != self._schema:
                values = self.spec.format.project(values, schema, self._schema)
        except DataError as error:
            if not self.spec.tolerates:
                raise
            if len(rows) == 1:
                refused.append(RefusedRecord(rows["offset"][0].as_py(), str(error)))
                return
            half = len(rows) // 2
            self._add(rows.slice(0, half), layout, refused)
            self._add(rows.slice(half), layout, refused)
            return
        key = rows["key_layout"][0].as_py() if self.spec.beside.keys is not None else -1
        if key != self._key:
            self.end(EndedBy.SCHEMA)
            self._key = key
        columns = {name: rows[name] for name in rows.schema.names if not name.startswith("value_")}
        whole = pa.RecordBatch.from_pydict({**columns, "value": values})
        while len(whole):
            whole = whole.slice(self._some(whole))

    def _some(self, rows: pa.RecordBatch) -> int:
        """Write the first rows, up to an end; return their count."""
        now, settings = self.spec.clock(), self.spec.rules.settings
        times = rows["time"].to_numpy(zero_copy_only=False) if "time" in rows.schema.names else None
        self.end_if_due(now)
        rotation = self._rotation
        if rotation is None:
            first = None if times is None else int(times[0])
            rotation = self._rotation = self.spec.rules.begin(rows["offset"][0].as_py(), first, now)
        room, ends = self.spec.rules.room(rotation, times)
        ended_by = EndedBy.TIME if ends else None
        if settings.on_partition_change and times is not None:
            room, ended_by = self._same_directory(rows["directory"], room, ended_by)
        some = rows.slice(0, room)
        if len(some):
            self._write(some)
            rotation.count += len(some)
        is_large = settings.rotate_bytes is not None and self._largest() >= settings.rotate_bytes
        if rotation.count >= settings.flush_size:
            self.end(EndedBy.COUNT)
        elif is_large:
            self.end(EndedBy.SIZE)
        elif ended_by is not None and len(some) < len(rows):
            self.end(ended_by)
        return len(some)

    def _same_directory(self, directories: pa.Array, room: int, ended_by: EndedBy | None) -> tuple[int, EndedBy | None]:
        """Reduce the room to the rows of one directory."""
        current = self._directory if self._files else directories[0].as_py()
        other = pc.index(pc.equal(directories, current), False).as_py()
        self._directory = current
        return (other, EndedBy.DIRECTORY) if 0 <= other < room else (room, ended_by)

    def _write(self, rows: pa.RecordBatch) -> None:
        for topic, directory, some in _by_file(rows):
            self._append(self._file(topic, directory, some["offset"][0].as_py()), some)

    def _append(self, file: OpenFile, rows: pa.RecordBatch) -> None:
        file.writer.write(rows["value"])
        for one in file.beside:
            one.writer.write(rows[one.column])
        file.last = rows["offset"][-1].as_py()

    def _file(self, topic: str, directory: Any, first: int) -> OpenFile:
        found = self._files.get((topic, directory))
        if found is None:
            text = self.spec.partitioner.paths(pa.array([directory]))[0].as_py()
            writer = self.spec.format.file(os.path.join(self.folder, uuid4().hex), self._schema)
            found = OpenFile(topic, text, writer, first, first, self._layout, list(self._side_files()))
            self._files[topic, directory] = found
        return found

    def _side_files(self) -> Iterator[SideFile]:
        for kind, column, form, schema in self.spec.beside.formats(self._key):
            yield SideFile(kind, column, form.extension, form.file(os.path.join(self.folder, uuid4().hex), schema))

    # -- ends ----------------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int | None:
        """The first offset in open files; None if no file is open."""
        return None if self._rotation is None else self._rotation.first

    @property
    def writers(self) -> Iterator[FileWriter]:
        """The writers of its open files."""
        return (writer for file in self._files.values() for writer in file.writers)

    def due_s(self) -> float | None:
        """The seconds until the clock ends the open files; None: it does not."""
        if self._rotation is None or self._rotation.ends_at is None:
            return None
        return max(0, self._rotation.ends_at - self.spec.clock()) / 1000

    def end_if_due(self, now: int) -> None:
        """End the open files if they are due."""
        if self._rotation is not None and self._rotation.ends_at is not None and now >= self._rotation.ends_at:
            self.end(EndedBy.CLOCK)

    def end(self, by: EndedBy | None) -> None:
        """End and close the open files; `by` as in `ClosedFile.ended_by`. Errors: OSError."""
        if self._rotation is None:
            return
        last = max(file.last for file in self._files.values())
        for file in self._files.values():
            for writer in file.writers:
                writer.close()
            path = self.spec.names.file(file.topic, file.directory, self.of, file.first, file.last)
            offsets = file.first, file.last
            beside = {one.writer.local: one.path(path, self.spec.format.extension) for one in file.beside}
            self.closed.append(
                ClosedFile(file.writer.local, path, file.topic, file.directory, file.layout, offsets, by, beside)
            )
        self.done = (self._rotation.first if self.done is None else self.done[0]), last
        self._files, self._rotation = {}, None

    def take_closed(self) -> list[ClosedFile]:
        """Hand the closed files over to the caller."""
        closed, self.closed = self.closed, []
        return closed

    def take_done(self) -> tuple[int, int] | None:
        """The first and last offset of all files that were closed since the last call."""
        done, self.done = self.done, None
        return done

    def drop(self) -> None:
        """Let go of all files."""
        writers = list(self.writers)
        for writer in writers:
            writer.abort()
        for local in [*(writer.local for writer in writers), *(path for one in self.closed for path in one.locals)]:
            if os.path.exists(local):
                os.unlink(local)
        self._files, self._rotation, self.closed, self.done = {}, None, [], None

    def _largest(self) -> int:
        return max((writer.bytes_written for writer in self.writers), default=0)


def _runs(rows: pa.RecordBatch) -> list[int]:
    """The index of the end of each run of rows with equal schemas of values and keys."""
    columns = [rows[name].to_numpy() for name in ("layout", "key_layout") if name in rows.schema.names]
    changes = np.logical_or.reduce([np.diff(numbers) != 0 for numbers in columns])
    return [int(end) for end in (*(np.flatnonzero(changes) + 1), len(rows))]


def _by_file(rows: pa.RecordBatch) -> Iterator[tuple[str, Any, pa.RecordBatch]]:
    """Rows by topic and directory, in order within each."""
    topics, directories = rows["topic"].dictionary_encode(), rows["directory"].dictionary_encode()
    if len(topics.dictionary) == len(directories.dictionary) == 1:
        yield topics.dictionary[0].as_py(), directories.dictionary[0].as_py(), rows
        return
    codes = topics.indices.to_numpy() * len(directories.dictionary) + directories.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ordered, begin = rows.take(pa.array(order)), 0
    for end in [*(np.flatnonzero(np.diff(codes[order])) + 1), len(order)]:
        topic, directory = divmod(int(codes[order[begin]]), len(directories.dictionary))
        yield (
            topics.dictionary[topic].as_py(),
            directories.dictionary[directory].as_py(),
            ordered.slice(begin, end - begin),
        )
        begin = int(end)
