"""The rows of files, with the offset after each; runs in the worker or in Spark's executors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.connectors.hdfs.source.progress import OFFSET_TYPE, Piece
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.errors import DataError
from headrace.plugins.interop.formats.format import VALUE, Format
from headrace.plugins.schema import Schema

log = logging.getLogger(__name__)

PROBLEM: Final = "problem"
"""The column that says why a file cannot be read, in a row of its own."""


PARTITION: Final = "kafka_partition"
"""The column of the partition that the name of a backup's file tells."""


@dataclass(frozen=True)
class Beside:
    """A file of keys or headers beside one of values."""

    column: str
    path: str
    format: Format
    schema: Schema | None


@dataclass(frozen=True)
class PieceToRead:
    """A piece of a file, with the rows left to read."""

    piece: Piece
    format: Format
    schema: Schema | None
    most_rows: int
    most_bytes: int
    """The rest beyond these limits is for the next plan."""
    problem: str | None = None
    """The reason why it cannot be read, if known."""
    partition: int | None = None
    """None: it tells none."""
    beside: tuple[Beside, ...] = ()
    """Row n of each belongs to its row n."""


@dataclass(frozen=True)
class FilesReader:
    """Reads pieces of files; a split without one has no rows."""

    store: Store
    pieces: tuple[PieceToRead | None, ...]

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """The rows of a piece. The last row of a file that is broken, changed or gone says so.

        Decided: that row is a failed record, because then `errors.tolerance` and the dead letters hold for files as
        they do for records; loses: a record's worth of log for each.
        """
        found = self.pieces[split]
        if found is None:
            return
        at = found.piece
        if found.problem is not None:
            yield _problem(found, at, found.problem)
            return
        try:
            for batch in self._batches(found):
                at = replace(at, rows=batch.column("source_offset")[-1]["rows"].as_py())
                yield batch
        except FileNotFoundError:
            if not at.rows and at.pieces == 1:
                log.warning("%s is gone before it was read", at.file)
            else:
                yield _problem(found, at, f"{at.file} is gone after {at.rows} of its rows were read")
        except DataError as error:
            yield _problem(found, at, f"{at.file} cannot be read after {at.rows} rows: {error}")

    def _batches(self, found: PieceToRead) -> Iterator[pa.RecordBatch]:
        piece, budget = found.piece, _Budget(found.most_rows, found.most_bytes)
        with self.store.open(piece.file) as file, ExitStack() as opened:
            beside = [self._beside(one, opened, piece) for one in found.beside]
            if (piece.rows or piece.pieces > 1) and file.size() != piece.size:
                raise DataError(f"it changed meanwhile, from {piece.size} to {file.size()} bytes")
            held: pa.RecordBatch | None = None
            at = piece
            for batch in _bounded(found.format.read(file, found.schema, piece.first + piece.rows), piece):
                if held is not None:
                    part = budget.taken(held)
                    at = replace(at, rows=at.rows + part.num_rows)
                    yield _rows(found, part, [one.take(part.num_rows) for one in beside], at)
                    if part.num_rows < held.num_rows or budget.is_spent:
                        return
                held = batch
            if held is not None:
                part = budget.taken(held)
                at = replace(at, rows=at.rows + part.num_rows, done=part.num_rows == held.num_rows)
                yield _rows(found, part, [one.take(part.num_rows) for one in beside], at)
            for one in beside if at.done else ():
                one.check_end()

    def _beside(self, one: Beside, opened: ExitStack, piece: Piece) -> _RowsBeside:
        try:
            file = opened.enter_context(self.store.open(one.path))
        except FileNotFoundError:
            raise DataError(f"{one.path}, which holds its {one.column}, is gone") from None
        return _RowsBeside(one, one.format.read(file, one.schema, piece.first + piece.rows))


@dataclass
class _RowsBeside:
    """The rows of a file of keys or headers, in step with those of the values."""

    of: Beside
    batches: Iterator[pa.RecordBatch]

    def __post_init__(self) -> None:
        self._left = pa.array([], arrow_type_of_schema(self.of.schema))

    def take(self, count: int) -> pa.Array:
        """The next rows. Errors: DataError if there are fewer."""
        parts, missing = [self._left], count - len(self._left)
        while missing > 0:
            batch = next(self.batches, None)
            if batch is None:
                raise DataError(f"{self.of.path}, which holds its {self.of.column}, has fewer rows")
            parts.append(batch.column(VALUE).cast(self._left.type))
            missing -= batch.num_rows
        rows = pa.concat_arrays(parts)
        self._left = rows.slice(count)
        return rows.slice(0, count)

    def check_end(self) -> None:
        """Errors: DataError if rows are left."""
        if len(self._left) or next(self.batches, None) is not None:
            raise DataError(f"{self.of.path}, which holds its {self.of.column}, has more rows")


@dataclass
class _Budget:
    rows: int
    bytes: int

    @property
    def is_spent(self) -> bool:
        return self.rows <= 0 or self.bytes <= 0

    def taken(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        part = batch.slice(0, self.rows)
        self.rows -= part.num_rows
        self.bytes -= part.nbytes
        return part


def _bounded(batches: Iterator[pa.RecordBatch], piece: Piece) -> Iterator[pa.RecordBatch]:
    """The batches up to the end of the piece."""
    if piece.upto < 0:
        yield from batches
        return
    left = piece.upto - piece.first - piece.rows
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows


def _rows(found: PieceToRead, batch: pa.RecordBatch, beside: list[pa.Array], after: Piece) -> pa.RecordBatch:
    """The rows with their offsets; the last row's is `after`."""
    count = batch.num_rows
    offsets = [_same(value, count) for value in after.stored().values()]
    offsets[1] = pa.array(np.arange(after.rows - count + 1, after.rows + 1))
    done = np.zeros(count, bool)
    done[-1] = after.done
    offsets[2] = pa.array(done)
    return _batch(found, batch.column(VALUE), pa.nulls(count, pa.string()), beside, offsets)


def _problem(found: PieceToRead, at: Piece, why: str) -> pa.RecordBatch:
    offsets = [_same(value, 1) for value in replace(at, done=True).stored().values()]
    beside = [pa.nulls(1, arrow_type_of_schema(one.schema)) for one in found.beside]
    return _batch(found, pa.nulls(1, arrow_type_of_schema(found.schema)), pa.array([why]), beside, offsets)


def _batch(
    found: PieceToRead, values: pa.Array, problems: pa.Array, beside: list[pa.Array], offsets: list[pa.Array]
) -> pa.RecordBatch:
    columns = {VALUE: values.cast(arrow_type_of_schema(found.schema)), PROBLEM: problems}
    columns |= {one.column: rows for one, rows in zip(found.beside, beside, strict=True)}
    if found.partition is not None:
        columns[PARTITION] = pa.repeat(pa.scalar(found.partition, pa.int32()), len(values))
    columns["source_offset"] = pa.StructArray.from_arrays(offsets, fields=list(OFFSET_TYPE))
    return pa.RecordBatch.from_pydict(columns)


def _same(value: str | int | bool, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)
