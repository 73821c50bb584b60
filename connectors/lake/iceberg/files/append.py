"""The data files of one table, by partition: rows wait in memory until they are worth a row group.

    add -> memory -> flush: grouped by partition -> Parquet files of the target size

Decided: rows are grouped when they are flushed, all that wait at once, and small partitions wait on, because each group
costs the same however few its rows; loses: nothing known.

Decided: if too many files are open, the one that was begun first ends, because each takes some 9 KB a column; loses:
the size of files in a table of thousands of partitions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from headrace.connectors.lake.iceberg.files.parquet_file import ParquetFile, ParquetOptions
from headrace.connectors.lake.iceberg.files.partitions import Partitioning, Values
from headrace.connectors.lake.iceberg.parts import Content, WrittenFile

_WORTH_BYTES: Final = 4 << 20
"""The memory of a partition's rows that are always worth a row group."""
_MOST_COLUMNS: Final = 40_000
"""The most columns of all open files of a table."""


@dataclass(frozen=True)
class FileKind:
    """The common traits of the files of one table."""

    columns: pa.Schema
    partitioning: Partitioning
    spec_id: int
    options: ParquetOptions
    content: Content = Content.DATA
    equality_ids: tuple[int, ...] = ()


class PartitionedFiles:
    """The files of one kind that are in the making."""

    def __init__(self, kind: FileKind, folder: str) -> None:
        self.kind = kind
        self.buffered_bytes = 0
        self._folder = folder
        self._waiting: list[pa.RecordBatch] = []
        self._open: dict[Values, ParquetFile] = {}
        self._closed: list[WrittenFile] = []

    @property
    def open_files(self) -> int:
        """The count of unfinished files."""
        return len(self._open)

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows of the kind's columns."""
        if len(rows):
            self._waiting.append(rows)
            self.buffered_bytes += rows.nbytes

    def flush(self) -> None:
        """Write half of the waiting rows or more, the largest partitions first. Errors: OSError, LakeError."""
        self._write(self.buffered_bytes // 2)

    def finish(self) -> list[WrittenFile]:
        """Write all rows, and return the whole files. Errors: as `flush`."""
        self._write(0, is_last=True)
        for values in list(self._open):
            self._end(values)
        closed, self._closed = self._closed, []
        return closed

    def drop(self) -> None:
        """Throw all away."""
        for file in self._open.values():
            file.abort()
        for one in self._closed:
            if os.path.exists(one.local):
                os.unlink(one.local)
        self._open, self._closed, self._waiting, self.buffered_bytes = {}, [], [], 0

    def _write(self, keep_bytes: int, is_last: bool = False) -> None:
        """Write the waiting rows but for so many bytes of small partitions; the last rows of a file end it."""
        if not self._waiting:
            return
        groups = self.kind.partitioning.grouped(pa.Table.from_batches(self._waiting, self.kind.columns))
        left, row_bytes = self.buffered_bytes, self.buffered_bytes / len(groups.rows)
        self._waiting, self.buffered_bytes, kept = [], 0, list[np.ndarray]()
        for values, begin, end in sorted(groups, key=lambda one: one[1] - one[2]):
            size = int((end - begin) * row_bytes)
            if left <= keep_bytes and size < _WORTH_BYTES:
                kept.append(np.arange(begin, end))
            else:
                left -= size
                self._append(values, groups.rows.slice(begin, end - begin), size)
                if is_last and values in self._open:
                    self._end(values)
        if kept:
            for batch in groups.rows.take(pa.array(np.concatenate(kept))).combine_chunks().to_batches():
                self.add(batch)

    def _append(self, values: Values, rows: pa.Table, size: int) -> None:
        """Write rows of one partition, in pieces after which its file may be large enough."""
        pieces = max(1, -(-size // min(self.kind.options.row_group_bytes, self.kind.options.target_bytes)))
        step = -(-len(rows) // pieces)
        for begin in range(0, len(rows), step):
            file = self._open.get(values)
            if file is None:
                local = os.path.join(self._folder, f"{uuid4().hex}.parquet")
                if self._open and (len(self._open) + 1) * len(self.kind.columns) > _MOST_COLUMNS:
                    self._end(next(iter(self._open)))
                file = self._open[values] = ParquetFile(local, self.kind.columns, self.kind.options)
            file.write(rows.slice(begin, step))
            if file.bytes >= self.kind.options.target_bytes:
                self._end(values)

    def _end(self, values: Values) -> None:
        file = self._open.pop(values)
        file.close()
        kind = self.kind
        self._closed.append(WrittenFile(file.local, kind.content, file.rows, kind.spec_id, values, kind.equality_ids))
