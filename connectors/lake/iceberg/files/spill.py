"""Rows with keys on the local disk, each with its place in the order of arrival; the newest wait in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from headrace.connectors.lake.iceberg.files.keys import ORDER, Keys
from headrace.connectors.lake.iceberg.files.reopened_file import ReopenedFile
from headrace.connectors.lake.iceberg.files.rows import Placed

_BATCH_ROWS: Final = 65_536


class Spill:
    """Rows of the same columns."""

    def __init__(self, columns: pa.Schema, keys: Keys, folder: str) -> None:
        self.columns, self.keys = columns, keys
        self.rows, self.buffered_bytes, self.bytes = 0, 0, 0
        self._local = os.path.join(folder, f"{uuid4().hex}.arrow")
        self._waiting: list[Placed] = []
        self._file = ReopenedFile(self._local)
        self._writer: Any = None

    def add(self, rows: Placed) -> None:
        """Take rows with their places in the order of arrival."""
        if len(rows.rows):
            self._waiting.append(rows)
            self.rows += len(rows.rows)
            self.buffered_bytes += rows.rows.nbytes

    def flush(self) -> None:
        """Move the rows to the disk, but for those that a later one with their key replaces. Errors: OSError."""
        if not self._waiting:
            return
        rows = pa.Table.from_batches([one.rows for one in self._waiting], self.columns)
        order = np.concatenate([one.places for one in self._waiting])
        last = self.keys.last(self.keys.flat(rows, order))[ORDER].to_numpy()
        if len(last) < len(order):
            wins = np.zeros(int(order.max()) + 1 - int(order.min()), bool)
            wins[last - order.min()] = True
            kept = np.flatnonzero(wins[order - order.min()])
            self.rows -= len(order) - len(kept)
            rows, order = rows.take(pa.array(kept)), order[kept]
        whole = pa.Table.from_arrays([pa.array(order), *rows.columns], schema=self._written)
        if self._writer is None:
            self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), self._written)
        self._writer.write_table(whole, max_chunksize=_BATCH_ROWS)
        self._file.release()
        self.bytes += rows.nbytes
        self._waiting, self.buffered_bytes = [], 0

    def batches(self) -> Iterator[Placed]:
        """Yield all rows; nothing is taken afterwards. Columns are read once they are used."""
        if self._writer is not None:
            self._writer.close()
            self._file.release()
            with pa.memory_map(self._local) as mapped:
                reader = pa.ipc.open_file(mapped)
                for number in range(reader.num_record_batches):
                    batch = reader.get_batch(number)
                    rows = pa.RecordBatch.from_arrays(batch.columns[1:], schema=self.columns)
                    yield Placed(rows, batch.column(0).to_numpy())
        yield from self._waiting

    def drop(self) -> None:
        """Let go of all rows, and delete their file."""
        if self._writer is not None:
            with contextlib.suppress(OSError, pa.ArrowException):  # its last bytes may find no room on the disk
                self._writer.close()
            self._file.release()
            if os.path.exists(self._local):
                os.unlink(self._local)
        self._waiting, self.rows, self.buffered_bytes, self.bytes = [], 0, 0, 0

    @property
    def _written(self) -> pa.Schema:
        return pa.schema([pa.field(ORDER, pa.int64()), *self.columns])
