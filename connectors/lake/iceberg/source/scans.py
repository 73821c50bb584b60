"""Asks a table for its snapshots, their files, and local copies of these."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.source.columns import has_ids
from headrace.connectors.lake.iceberg.source.positions import ROOT
from headrace.connectors.lake.iceberg.tables import TableState
from headrace.plugins.errors import RetriableError

_PARQUET: Final = "PARQUET"


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a table."""

    id: int
    timestamp: int
    """Units: milliseconds since 1970."""
    operation: str
    """`append`, `replace`, `overwrite` or `delete`."""


@dataclass(frozen=True)
class History:
    """A branch from a snapshot on."""

    uuid: str
    schema_id: int
    head: int
    is_reached: bool
    """False if the branch does not lead back to that snapshot."""
    is_known: bool
    """False if that snapshot has expired."""
    defaults: frozenset[int]
    """The ids of columns whose value in files without them is not null."""
    snapshots: tuple[Snapshot, ...]
    """The snapshots after it, the oldest first."""


@dataclass(frozen=True)
class TableFile:
    """A data file of a table."""

    path: str
    records: int
    """Before deletes."""
    size: int


class Scans:
    """The tables of one task."""

    def __init__(self, catalog: JvmCatalog, settings: CatalogSettings, folder: Path) -> None:
        self._catalog, self._settings, self._folder = catalog, settings, folder
        self._copies: dict[tuple[str, int, str], Path | None] = {}
        self._count = 0

    def load(self, table: str) -> TableState:
        """Return the table. Errors: LakeError, RetriableError, as for all methods."""
        found = self._catalog.load(table)
        if found is None:
            raise LakeError(f"There is no table {table} in the catalog. Create it, or correct iceberg.tables.")
        return found

    def history(self, table: str, after: int = ROOT) -> History:
        """Return the snapshots after this one."""
        told = self._catalog.ask(table, "snapshots", after=after)
        snapshots = tuple(Snapshot(one["id"], one["timestamp"], one["operation"]) for one in told.pop("snapshots"))
        return History(**{**told, "defaults": frozenset(told["defaults"])}, snapshots=snapshots)

    def files(self, table: str, snapshot: int, whole: bool) -> tuple[TableFile, ...]:
        """Return the files that a snapshot has or, unless `whole`, added, in the order of their paths."""
        told = self._catalog.ask(table, "files", snapshot=snapshot, whole=whole)
        if not told["is_known"]:
            raise expired(table, snapshot)
        for one in told["files"]:
            if one["format"] != _PARQUET:
                raise LakeError(
                    f"Table {table}: the file {one['path']} is {one['format']}, and only Parquet is read. Rewrite it "
                    "(rewrite_data_files with write.format.default=parquet), or begin after it (start.from)."
                )
        for path in (*(one["path"] for one in told["files"]), *told["deletes"]):
            self._settings.check_places(table, {"file": path})
        return tuple(TableFile(one["path"], one["records"], one["size"]) for one in told["files"])

    def copy(self, table: str, snapshot: int, whole: bool, file: TableFile) -> Path | None:
        """Return a local copy of a file of `files`, without rows that are deleted in its snapshot; None if all are.

        A file without ids is brought to the table's columns if the table maps its names (schema.name-mapping.default).
        """
        key = (table, snapshot, file.path)
        if key not in self._copies:
            self._count += 1
            to = self._folder / f"{self._count}.parquet"
            try:
                of = {"snapshot": snapshot, "whole": whole, "path": file.path, "to": str(to)}
                told = self._catalog.ask(table, "copy", **of)
                if told.get("is_mapped") and to.exists() and not has_ids(pq.read_schema(to)):
                    told = self._catalog.ask(table, "copy", **of, by_name=True)
            except (LakeError, RetriableError):
                to.unlink(missing_ok=True)
                raise
            if not told["is_known"]:
                raise expired(table, snapshot)
            self._copies[key] = to if to.exists() else None
        return self._copies[key]

    def keep(self, table: str, snapshot: int, files: Collection[TableFile]) -> None:
        """Delete all copies of a table's files but these."""
        kept = {(table, snapshot, file.path) for file in files}
        for key in [key for key in self._copies if key[0] == table and key not in kept]:
            if (copy := self._copies.pop(key)) is not None:
                os.unlink(copy)

    def close(self) -> None:
        """Close the catalog."""
        self._catalog.close()


def expired(table: str, snapshot: int) -> LakeError:
    """Return the error for a table whose history does not lead on from a snapshot."""
    return LakeError(
        f"Table {table}: snapshot {snapshot}, which the source has not read to its end or has to go on from, has "
        "expired, so that rows could be missed. Stop the connector and DELETE its offsets to begin anew by start.from, "
        'or PATCH them to {"snapshot": ID} to go on after a snapshot that is there; let snapshots live longer than the '
        "connector may stand still (history.expire.max-snapshot-age-ms)."
    )


def left(table: str, snapshot: int, branch: str) -> LakeError:
    """Return the error for a branch that has left a snapshot, such as by a rollback."""
    return LakeError(
        f"Table {table}: snapshot {snapshot}, up to which it was read, is no longer in the history of branch {branch}: "
        "the table was rolled back, and what was read since cannot be taken back. Stop the connector and PATCH its "
        'offsets to {"snapshot": ID} to go on after a snapshot of the branch, or DELETE them to begin anew.'
    )
