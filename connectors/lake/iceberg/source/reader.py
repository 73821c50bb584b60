"""The rows of local copies of a table's files, with the offset after each; runs in the worker or in its executors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.schemas import Struct
from headrace.connectors.lake.iceberg.source.columns import rows_of
from headrace.connectors.lake.iceberg.source.positions import OFFSET_TYPE, Position
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.errors import DataError
from headrace.plugins.schema import Schema

VALUE: Final = "value"
_BATCH_ROWS: Final = 8192
_BATCH_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Piece:
    """The rest of a file."""

    local: Path
    path: str
    begin: Position
    """Its first row to read."""
    after: Position
    """The position after its last row."""


@dataclass(frozen=True)
class TableRows:
    """The rows of one table that a plan reads."""

    table: str
    schema: Struct
    connect: Schema
    defaults: frozenset[int]
    pieces: tuple[Piece, ...]
    most_rows: int
    most_bytes: int
    """The rest beyond these limits is for the next plan."""


@dataclass(frozen=True)
class TablesReader:
    """Reads the tables of a plan, one for each split."""

    tables: tuple[TableRows, ...]

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table, up to the plan's limit. Errors: LakeError for a file that cannot be read."""
        rows = self.tables[split]
        budget = _Budget(rows.most_rows, rows.most_bytes)
        for piece in rows.pieces:
            try:
                yield from _batches(rows, piece, budget)
            except (DataError, pa.ArrowException, FileNotFoundError) as error:
                raise LakeError(
                    f"Table {rows.table}: the file {piece.path} cannot be read: {error}. Rewrite it by Iceberg "
                    "(rewrite_data_files) and begin anew, or PATCH the connector's offsets to go on after it."
                ) from error
            if budget.is_spent:
                return


@dataclass
class _Budget:
    """Rows and bytes that a plan may still read."""

    rows: int
    bytes: int

    @property
    def is_spent(self) -> bool:
        return self.rows <= 0 or self.bytes <= 0

    def taken(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the first rows that fit; at least one unless it is spent."""
        if self.is_spent:
            return batch.slice(0, 0)
        fitting = max(1, batch.num_rows * self.bytes // max(1, batch.nbytes))
        part = batch.slice(0, min(fitting, self.rows))
        self.rows, self.bytes = self.rows - part.num_rows, self.bytes - part.nbytes
        return part


def _batches(rows: TableRows, piece: Piece, budget: _Budget) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece; the last one's offset is that of the next file."""
    to = arrow_type_of_schema(rows.connect)
    with pq.ParquetFile(piece.local) as file:
        total, at = file.metadata.num_rows, piece.begin.row
        for batch in _raw(file, at):
            part = budget.taken(batch)
            if not part.num_rows:
                return
            at += part.num_rows
            value = rows_of(part, rows.schema, to, rows.defaults)
            last = piece.after if at == total else replace(piece.begin, row=at)
            offsets = _offsets(piece.begin, at, part.num_rows, last)
            yield pa.RecordBatch.from_arrays([value, offsets], [VALUE, "source_offset"])
            if part.num_rows < batch.num_rows:
                return


def _raw(file: pq.ParquetFile, skip: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file after the first `skip`; row groups before them are not read."""
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        if skip >= group.num_rows:
            skip -= group.num_rows
            continue
        size = max(1, group.total_byte_size // group.num_rows)
        count = max(1, min(_BATCH_ROWS, _BATCH_BYTES // size))
        for batch in file.iter_batches(count, row_groups=[number], use_threads=False):
            part, skip = batch.slice(skip), max(0, skip - batch.num_rows)
            if part.num_rows:
                yield part


def _offsets(begin: Position, end: int, count: int, last: Position) -> pa.StructArray:
    """Return the offsets after rows up to `end`; the last one is `last`."""
    same, other = replace(begin, row=end).stored(), last.stored()
    columns = []
    for field in OFFSET_TYPE:
        if field.name == "row":
            numbers = np.arange(end - count + 1, end + 1)
            numbers[-1] = last.row
            columns.append(pa.array(numbers, field.type))
            continue
        kept = pa.repeat(pa.scalar(same[field.name], field.type), count - 1)
        columns.append(pa.concat_arrays([kept, pa.array([other[field.name]], field.type)]))
    return pa.StructArray.from_arrays(columns, fields=list(OFFSET_TYPE))
