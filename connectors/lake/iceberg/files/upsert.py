"""The rows of a table with keys: held on the local disk, deduplicated at the end.

    add -> `spill` -> finish: the last row of each key as data files, all keys as equality deletes

An equality delete does not touch rows of its own commit, so that each key has one row at most there. The deletes are of
the table's partitions if all columns that these are made of are keys, else they are of all partitions.

Decided: also a table that is empty gets the deletes, because another writer may fill it before the commit; loses: the
writing of a file that no reader applies to anything.

Decided: the keys of a commit are in memory while it ends, because Arrow then finds the last row of each exactly; loses:
memory, which `_MOST_ROWS` bounds inline, and a job's size in a job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.connectors.lake.iceberg.files.append import FileKind, PartitionedFiles
from headrace.connectors.lake.iceberg.files.keys import ORDER
from headrace.connectors.lake.iceberg.files.parquet_file import ParquetOptions
from headrace.connectors.lake.iceberg.files.partitions import Partitioning
from headrace.connectors.lake.iceberg.files.rows import Conformed, Placed
from headrace.connectors.lake.iceberg.files.spill import Spill
from headrace.connectors.lake.iceberg.files.table_files import TableFiles, data_files
from headrace.connectors.lake.iceberg.files.targets import Table
from headrace.connectors.lake.iceberg.parts import ALL_PARTITIONS, Content, WrittenFile

_MOST_ROWS: Final = 5_000_000
_MOST_BYTES: Final = 2 << 30
"""So many held rows, or bytes of them, make a commit due."""
_WRITTEN_BYTES: Final = 32 << 20
"""The memory of rows that are written at the end."""


@dataclass(frozen=True)
class _Generation:
    """The rows that came while the table's schema was the same."""

    table: Table
    rows: Spill
    deletes: Spill

    @classmethod
    def of(cls, table: Table, folder: str) -> _Generation:
        assert table.keys is not None, "as for all tables with keys"
        keys = table.keys
        return cls(table, Spill(table.columns, keys, folder), Spill(keys.columns, keys, folder))

    @property
    def spills(self) -> tuple[Spill, Spill]:
        return self.rows, self.deletes


class UpsertedFiles(TableFiles):
    """Rows that replace those with their keys, and deletes."""

    def __init__(self, table: Table, folder: str) -> None:
        super().__init__(table, folder)
        data_files(table), self._deletes(table)  # refuses what it cannot write before it takes anything
        self._generations = [_Generation.of(table, folder)]
        self._count = 0

    def learn(self, table: Table) -> None:
        """Take rows for the table as it is now."""
        former, self.table = self.table, table
        if not former.columns.equals(table.columns, check_metadata=True) or former.target.keys != table.target.keys:
            self._generations.append(_Generation.of(table, self.folder))

    def add(self, rows: Conformed) -> None:
        """Take rows and deletes."""
        newest, begin = self._generations[-1], self._count
        for spill, some in zip(newest.spills, (rows.rows, rows.deletes), strict=True):
            spill.add(Placed(some.rows, some.places + begin))
            self._count = max(self._count, begin + int(some.places.max(initial=-1)) + 1)

    @property
    def _spills(self) -> list[Spill]:
        return [spill for one in self._generations for spill in one.spills]

    @property
    def buffered_bytes(self) -> int:
        """The bytes of rows in memory."""
        return sum(spill.buffered_bytes for spill in self._spills)

    @property
    def is_full(self) -> bool:
        """True if a commit is due, however young the rows are."""
        spills = self._spills
        return sum(one.rows for one in spills) >= _MOST_ROWS or sum(one.bytes for one in spills) >= _MOST_BYTES

    def flush(self) -> None:
        """Move all rows to the disk."""
        for spill in self._spills:
            spill.flush()

    def finish(self) -> tuple[WrittenFile, ...]:
        """Write the last row of each key, and the keys as deletes."""
        keys = self.table.keys
        assert keys is not None, "as for all tables with keys"
        all_keys = pa.concat_tables(
            [spill.keys.flat(some.rows, some.places) for spill in self._spills for some in spill.batches()],
            promote_options="permissive",
        )
        last = keys.last(all_keys)
        wins = np.zeros(self._count, bool)
        wins[last[ORDER].to_numpy()] = True
        written = [file for one in self._generations for file in self._data(one, wins)]
        if len(last):
            deletes = PartitionedFiles(self._deletes(self.table), self.folder)
            for batch in keys.nested(last).to_batches(max_chunksize=len(last)):
                deletes.add(batch)
            written += deletes.finish()
        self.drop()
        return tuple(written)

    def drop(self) -> None:
        """Let go of all rows."""
        for spill in self._spills:
            spill.drop()

    def _data(self, of: _Generation, wins: np.ndarray) -> list[WrittenFile]:
        files = PartitionedFiles(data_files(of.table), self.folder)
        for some in of.rows.batches():
            kept = some.without(~wins)
            if len(kept.rows):
                files.add(kept.rows)
            if files.buffered_bytes > _WRITTEN_BYTES:
                files.flush()
        return files.finish()

    @staticmethod
    def _deletes(table: Table) -> FileKind:
        """The kind of a table's delete files."""
        state, keys = table.target.state, table.keys
        assert keys is not None, "as for all tables with keys"
        options = ParquetOptions.of(state.properties, is_delete=True)
        made = FileKind(keys.columns, Partitioning(()), ALL_PARTITIONS, options, Content.EQUALITY_DELETES, keys.ids)
        if not state.other_specs and all(
            one.source_id in keys.ids for one in state.spec.fields if one.transform != "void"
        ):
            return replace(made, partitioning=Partitioning.of(state.spec, keys.struct), spec_id=state.spec.id)
        return made if state.unpartitioned_spec is None else replace(made, spec_id=state.unpartitioned_spec)
