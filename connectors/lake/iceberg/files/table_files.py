"""The uncommitted rows of one table; `AppendedFiles` here, `upsert.UpsertedFiles` for tables with keys."""

from __future__ import annotations

from abc import ABC, abstractmethod

from headrace.connectors.lake.iceberg.files.append import FileKind, PartitionedFiles
from headrace.connectors.lake.iceberg.files.parquet_file import ParquetOptions
from headrace.connectors.lake.iceberg.files.partitions import Partitioning
from headrace.connectors.lake.iceberg.files.rows import Conformed
from headrace.connectors.lake.iceberg.files.targets import Table
from headrace.connectors.lake.iceberg.parts import WrittenFile


class TableFiles(ABC):
    """The uncommitted rows of one table."""

    def __init__(self, table: Table, folder: str) -> None:
        self.folder = folder
        self.table = table

    @abstractmethod
    def learn(self, table: Table) -> None:
        """Take rows for the table as it is now. Errors: OSError, LakeError."""

    @abstractmethod
    def add(self, rows: Conformed) -> None:
        """Take rows that were conformed to the table."""

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """The bytes of rows in memory."""

    @property
    def open_files(self) -> int:
        """The count of unfinished data files."""
        return 0

    @property
    def is_full(self) -> bool:
        """True if a commit is due, however young the rows are."""
        return False

    @abstractmethod
    def flush(self) -> None:
        """Write rows in memory to the disk, or a good part of them. Errors: OSError, LakeError."""

    @abstractmethod
    def finish(self) -> tuple[WrittenFile, ...]:
        """Complete the files; nothing is taken afterwards. Errors: as `flush`."""

    @abstractmethod
    def drop(self) -> None:
        """Let go of all rows. The folder's owner deletes the files."""


def data_files(table: Table) -> FileKind:
    """Return the kind of a table's data files. Errors: LakeError."""
    state = table.target.state
    partitioning = Partitioning.of(state.spec, state.schema)
    return FileKind(table.columns, partitioning, state.spec.id, ParquetOptions.of(state.properties))


class AppendedFiles(TableFiles):
    """Rows that are appended."""

    def __init__(self, table: Table, folder: str) -> None:
        super().__init__(table, folder)
        self._files = PartitionedFiles(data_files(table), folder)
        self._ended: list[WrittenFile] = []

    def learn(self, table: Table) -> None:
        """Take rows for the table as it is now; files of another schema or spec end."""
        former, self.table = self._files.kind, table
        kind = data_files(table)
        if former.spec_id != kind.spec_id or not former.columns.equals(kind.columns, check_metadata=True):
            self._ended += self._files.finish()
            self._files = PartitionedFiles(kind, self.folder)

    def add(self, rows: Conformed) -> None:
        """Take rows; there are no deletes."""
        self._files.add(rows.rows.rows)

    @property
    def buffered_bytes(self) -> int:
        """The bytes of rows in memory."""
        return self._files.buffered_bytes

    @property
    def open_files(self) -> int:
        """The count of unfinished data files."""
        return self._files.open_files

    def flush(self) -> None:
        """Write half of the rows at least."""
        self._files.flush()

    def finish(self) -> tuple[WrittenFile, ...]:
        """Complete the files."""
        return (*self._ended, *self._files.finish())

    def drop(self) -> None:
        """Let go of all rows."""
        self._files.drop()
