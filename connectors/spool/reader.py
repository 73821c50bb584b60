"""The rows of planned files, with the offset after each; runs in the worker or in Spark's executors."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from headrace.connectors.spool.errors import BadFile, Unreadable
from headrace.connectors.spool.offsets import OFFSET_TYPE, FileOffset, identity_of
from headrace.connectors.spool.text_records import MAX_RECORD_BYTES, Found, Run, TextRecords
from headrace.connectors.spool.text_stream import TextStream
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.interop.formats.format import VALUE, Format
from headrace.plugins.path_bounds import open_allowed
from headrace.plugins.schema import Schema

log = logging.getLogger(__name__)

KEY: Final = "key"
FACTS: Final = "facts"
FACTS_TYPE: Final = pa.struct(
    [
        (name, pa.string())
        for name in ("name", "name_without_extension", "path", "parent", "length", "modified", "relative_path")
    ]
)
MODIFIED: Final = "modified_ms"


class RowFormat(Protocol):
    """A format of texts whose records follow each other; picklable."""

    def begin(self, records: TextRecords) -> tuple[str, ...]:
        """Pass over what stands before the first record; return the names of columns, if there are any."""

    def find(self, data: bytes, closed: bool) -> Found:
        """Find records, as `Finder`."""

    def parse(self, data: bytes, ends: Any, names: Sequence[str]) -> tuple[Any, Any]:
        """Return the values and keys of records. Errors: Unreadable if one of them does not fit."""


class WholeFile:
    """The format of files that are one value each."""


@dataclass(frozen=True)
class SpoolFile:
    """A file in the folder as it was found, or as its task opened it."""

    name: str
    """Its path below the folder; its source partition."""
    path: str
    size: int
    modified_ns: int
    identity: str

    @classmethod
    def at(cls, name: str, path: str) -> SpoolFile:
        """Look at a file. Errors: OSError."""
        return cls.of(name, path, os.stat(path))

    @classmethod
    def of(cls, name: str, path: str, status: os.stat_result) -> SpoolFile:
        """Return a file by its status."""
        return cls(name, path, status.st_size, status.st_mtime_ns, identity_of(status))

    @property
    def modified_ms(self) -> int:
        """The time of its last change."""
        return self.modified_ns // 1_000_000


@dataclass(frozen=True)
class FileToRead:
    """A file, the place where to begin, and how much of it to read."""

    file: SpoolFile
    at: FileOffset
    format: RowFormat | Format | WholeFile
    value: Schema | None
    key: Schema | None
    charset: str | None
    allowed: tuple[str, ...]
    most_rows: int
    most_bytes: int
    """The rest beyond these limits is for the next plan."""
    has_facts: bool = True

    def rows(self) -> Generator[pa.RecordBatch]:
        """Yield the rows, the last one marked if it ends the file.

        Errors: BadFile behind the rows before the bad place; FileNotFoundError, RetriableError.
        """
        held: pa.RecordBatch | None = None
        rows, size = self.most_rows, self.most_bytes
        batches = self._read()
        while True:
            try:
                batch = next(batches, None)
            except BadFile:
                if held is not None:
                    yield held
                raise
            if batch is None:
                break
            if held is not None:
                yield held
            held = batch.slice(0, rows)
            rows, size = rows - held.num_rows, size - held.nbytes
            is_spent = rows <= 0 or size <= 0
            if is_spent and (held.num_rows < batch.num_rows or self._more(batches)):
                yield held
                return
        if held is not None:
            yield _ended(held)

    def _more(self, batches: Iterator[pa.RecordBatch]) -> bool:
        """True if rows follow; a bad place counts as one, and is met again by the next plan."""
        try:
            return next(batches, None) is not None
        except BadFile:
            return True

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            descriptor = open_allowed(self.file.path, os.O_RDONLY | os.O_CLOEXEC, self.allowed)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise RetriableError(f"{self.file.path} cannot be read: {error}") from error
        if identity_of(os.fstat(descriptor)) != self.file.identity:
            os.close(descriptor)
            raise RetriableError(f"{self.file.path} is another file than the one that was planned")
        if isinstance(self.format, Format):
            yield from self._read_values(descriptor, self.format)
            return
        stream = TextStream(descriptor, self.file.name, self.charset)
        try:
            if isinstance(self.format, WholeFile):
                yield from self._read_whole(stream)
            else:
                yield from self._read_records(TextRecords(stream), self.format)
            if stream.has_grown(self.file.size):
                raise RetriableError(f"{self.file.path} is written to while it is read")
        finally:
            stream.close()

    def _read_whole(self, stream: TextStream) -> Iterator[pa.RecordBatch]:
        data = bytearray()
        while piece := stream.read(MAX_RECORD_BYTES):
            data += piece
            if len(data) > MAX_RECORD_BYTES:
                raise BadFile(f"it is longer than {MAX_RECORD_BYTES} bytes, which no Kafka record holds", 0)
        if not self.at.records:
            yield self._batch(pa.array([bytes(data)], pa.binary()), pa.nulls(1), np.array([1]), np.array([len(data)]))

    def _read_values(self, descriptor: int, reads: Format) -> Iterator[pa.RecordBatch]:
        count = self.at.records
        with os.fdopen(descriptor, "rb") as file:
            try:
                for batch in reads.read(pa.PythonFile(file, "r"), self.value, count):
                    after = np.arange(count + 1, count + batch.num_rows + 1)
                    count += batch.num_rows
                    values = batch.column(VALUE)
                    yield self._batch(values, pa.nulls(len(values)), after, np.zeros(len(values), np.int64))
            except DataError as error:
                raise BadFile(str(error), count) from error

    def _read_records(self, records: TextRecords, reads: RowFormat) -> Iterator[pa.RecordBatch]:
        count = self.at.records
        try:
            names = reads.begin(records)
            count = self._pass_to_begin(records, reads)
            while (run := records.run(reads.find)) is not None:
                values, keys, good, problem = _parsed(reads, run, names)
                if good:
                    after = np.arange(count + 1, count + good + 1)
                    yield self._batch(values, keys, after, run.ends[:good] + run.begin)
                    count += good
                if problem is not None:
                    raise BadFile(problem)
        except BadFile as error:
            raise BadFile(str(error), count) from error

    def _pass_to_begin(self, records: TextRecords, reads: RowFormat) -> int:
        """Go to the first record to read; return the number of those before it."""
        if self.at.position:
            records.pass_to(self.at.position)
        elif self.at.position is None:
            left = self.at.records
            while left > 0 and (run := records.run(reads.find, left)) is not None:
                left -= len(run.ends)
        return self.at.records

    def _batch(self, values: Any, keys: Any, after: Any, positions: Any) -> pa.RecordBatch:
        count = len(values)
        key_type = pa.null() if self.key is None else arrow_type_of_schema(self.key)
        offsets = pa.StructArray.from_arrays(
            [
                pa.array(after, pa.int64()),
                pa.array(positions, pa.int64()),
                _same(self.file.identity, count),
                _same(False, count),
            ],
            fields=list(OFFSET_TYPE),
        )
        columns = {
            "value": values.cast(arrow_type_of_schema(self.value)),
            MODIFIED: _same(self.file.modified_ms, count),
            "source_offset": offsets,
        }
        if self.key is not None:
            columns[KEY] = keys.cast(key_type)
        if self.has_facts:
            facts = [_same(text, count) for text in _facts(self.file)]
            columns[FACTS] = pa.StructArray.from_arrays(facts, fields=list(FACTS_TYPE))
        names = row_type(self.value, self.key, self.has_facts).names
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in (*names, "source_offset")], [*names, "source_offset"]
        )


def row_type(value: Schema | None, key: Schema | None, has_facts: bool) -> pa.Schema:
    """Return the columns of rows."""
    columns: list[tuple[str, pa.DataType]] = [("value", arrow_type_of_schema(value)), (MODIFIED, pa.int64())]
    if key is not None:
        columns.append((KEY, arrow_type_of_schema(key)))
    if has_facts:
        columns.append((FACTS, FACTS_TYPE))
    return pa.schema(columns)


@dataclass
class FilesReader:
    """Reads planned files; a split without one has no rows.

    After a file that was not read to its end, and beyond the limits, those behind it are left for a later plan: files
    keep their order, and many that are small only while they are compressed fit into memory.
    """

    files: tuple[FileToRead | None, ...]
    _rows: int = field(default=0, init=False)
    _bytes: int = field(default=0, init=False)
    _is_over: bool = field(default=False, init=False)

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file up to the first bad place, which the task finds when it plans again."""
        found = self.files[split]
        if found is None or self._is_over:
            return
        is_at_end = True
        try:
            for batch in found.rows():
                self._rows, self._bytes = self._rows + batch.num_rows, self._bytes + batch.nbytes
                is_at_end = batch.column("source_offset")[-1]["_done"].as_py()
                yield batch
            self._is_over = not is_at_end or self._rows >= found.most_rows or self._bytes >= found.most_bytes
        except BadFile as error:
            self._is_over = True
            log.debug("%s cannot be read on after %d records: %s", found.file.path, error.record, error)
        except FileNotFoundError:
            self._is_over = True
            log.warning("%s is gone; it was there when files were looked for", found.file.path)


def _parsed(reads: RowFormat, run: Run, names: Sequence[str]) -> tuple[Any, Any, int, str | None]:
    """The values and keys of the records before the first bad one, their number, and what is wrong with that one."""
    try:
        return *reads.parse(run.data, run.ends, names), len(run.ends), None
    except Unreadable as error:
        if len(run.ends) == 1:
            return None, None, 0, str(error)
    good, bad, made = 0, len(run.ends), (None, None)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            made = reads.parse(run.data[: run.ends[middle - 1]], run.ends[:middle], names)
            good = middle
        except Unreadable:
            bad = middle
    begin = run.ends[good - 1] if good else 0
    try:
        reads.parse(run.data[begin : run.ends[good]], run.ends[good : good + 1] - begin, names)
    except Unreadable as error:
        return *made, good, str(error)
    raise BadFile("its records cannot be told apart")


def _ended(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch whose last row ends the file."""
    number = batch.schema.get_field_index("source_offset")
    offsets = batch.column(number)
    done = np.zeros(len(offsets), bool)
    done[-1] = True
    parts = [offsets.field(one) for one in range(3)]
    made = pa.StructArray.from_arrays([*parts, pa.array(done)], fields=list(OFFSET_TYPE))
    return batch.set_column(number, "source_offset", made)


def _facts(file: SpoolFile) -> list[str]:
    name = os.path.basename(file.path)
    parent = os.path.basename(os.path.dirname(file.path))
    modified = np.datetime_as_string(np.datetime64(file.modified_ms, "ms"), unit="ms") + "Z"
    return [name, os.path.splitext(name)[0], file.path, parent, str(file.size), str(modified), file.name]


def _same(value: str | int | bool, count: int) -> Any:
    return pa.repeat(pa.scalar(value), count)
