"""Rows that wait for a commit: in this process, or in files for the worker's process."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import pyarrow as pa

from headrace.connectors.lake.delta.shapes import TableShape
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition


class Reached(NamedTuple):
    """The first and last offset taken of a partition, with those of records that are in no table."""

    first: int
    last: int


class Of(NamedTuple):
    """The table and the partition that some rows are of."""

    path: str
    partition: TopicPartition


@dataclass
class Some:
    """Rows of one partition for one table."""

    shape: TableShape
    begin: int | None
    """The table's mark before them; None: it had none."""
    batches: list[pa.RecordBatch] = field(default_factory=list)


class Holding(Protocol):
    """A place for rows."""

    def add(self, shape: TableShape, partition: TopicPartition, rows: pa.RecordBatch) -> None:
        """Take rows. Errors: RetriableError if they have to come again, with all that are held."""

    def take(self, reached: Mapping[TopicPartition, Reached]) -> None:
        """Note that these offsets are taken."""


@dataclass
class Held:
    """Rows in this process, and the offsets that they reach."""

    rows: dict[Of, Some] = field(default_factory=dict)
    reached: dict[TopicPartition, Reached] = field(default_factory=dict)
    bytes: int = 0

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The offset after the last one taken of each partition."""
        return {one: last + 1 for one, (_, last) in self.reached.items()}

    def add(self, shape: TableShape, partition: TopicPartition, rows: pa.RecordBatch) -> None:
        """Take rows. Errors: RetriableError if the table's columns have changed since the rows before them."""
        begin = shape.marks.get(partition)
        some = self.rows.setdefault(Of(shape.path, partition), Some(shape, begin))
        if some.shape.columns != shape.columns:
            raise RetriableError(f"The columns of {shape.path} have changed; records since its last commit come again")
        some.batches.append(rows)
        self.bytes += rows.nbytes

    def take(self, reached: Mapping[TopicPartition, Reached]) -> None:
        """Note that these offsets are taken."""
        for one, (first, last) in reached.items():
            before = self.reached.get(one, Reached(first, last))
            self.reached[one] = Reached(min(first, before.first), max(last, before.last))

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Throw away what there is of these partitions; None: of all."""
        gone = self.reached if partitions is None else partitions
        self.rows = {of: some for of, some in self.rows.items() if partitions is not None and of.partition not in gone}
        self.reached = {one: ends for one, ends in self.reached.items() if one not in gone}
        self.bytes = sum(batch.nbytes for some in self.rows.values() for batch in some.batches)

    def row_bytes(self) -> float:
        """Return the mean size of a row; 0 without rows."""
        batches = [batch for some in self.rows.values() for batch in some.batches]
        size: int = sum(batch.nbytes for batch in batches)
        count: int = sum(batch.num_rows for batch in batches)
        return size / max(1, count)

    def by_table(self) -> Iterator[tuple[str, dict[TopicPartition, Some]]]:
        """Yield each table's rows by partition, in the order of paths."""
        for path in sorted({of.path for of in self.rows}):
            yield path, {of.partition: some for of, some in self.rows.items() if of.path == path}


@dataclass
class Spilled:
    """Rows that a job's writer leaves for its task, in a file for each table and partition in this folder."""

    folder: str
    _files: dict[Of, tuple[str, int | None, Any, Any]] = field(default_factory=dict)
    _reached: Held = field(default_factory=Held)

    def add(self, shape: TableShape, partition: TopicPartition, rows: pa.RecordBatch) -> None:
        """Write rows."""
        of = Of(shape.path, partition)
        with local_disk(self.folder):
            if of not in self._files:
                name = str(Path(self.folder, f"{uuid4().hex}.arrow"))
                file = pa.OSFile(name, "wb")
                self._files[of] = name, shape.marks.get(partition), file, pa.ipc.new_stream(file, rows.schema)
            self._files[of][-1].write_batch(rows)

    def take(self, reached: Mapping[TopicPartition, Reached]) -> None:
        """Note that these offsets are taken."""
        self._reached.take(reached)

    def finish(self) -> bytes:
        """Return the answer that `join` takes. Errors: RetriableError."""
        with local_disk(self.folder):
            for *_, file, writer in self._files.values():
                writer.close()
                file.close()
        files = [[of.path, *of.partition, name, begin] for of, (name, begin, *_) in self._files.items()]
        return json.dumps([files, [[*one, *ends] for one, ends in self._reached.reached.items()]]).encode()

    def abort(self) -> None:
        """Close the files, and delete them. Errors are none of the batch's."""
        for name, _, file, _ in self._files.values():
            with suppress(OSError):
                file.close()
                Path(name).unlink(missing_ok=True)


def join(held: Held, answer: bytes, shapes: Mapping[str, TableShape]) -> None:
    """Add the rows of a job's writer, mapped to memory, and delete its files. Errors: RetriableError."""
    files, reached = json.loads(answer)
    for path, topic, number, name, begin in files:
        with local_disk(name):
            batches = list(pa.ipc.open_stream(pa.memory_map(name)))
            Path(name).unlink()
        held.rows[Of(path, TopicPartition(topic, number))] = Some(shapes[path], begin, batches)
    held.take({TopicPartition(topic, number): Reached(first, last) for topic, number, first, last in reached})


@contextmanager
def local_disk(path: str) -> Iterator[None]:
    """Raise errors of the local disk as RetriableError."""
    try:
        yield
    except OSError as error:
        raise RetriableError(
            f"Could not use {path}, where the rows of Spark jobs are collected: {error}. Make room there, or let "
            "TMPDIR name another folder; it is tried again."
        ) from error
