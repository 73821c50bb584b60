"""Tables of Iceberg as other people's readers see them: Iceberg's own library, pyiceberg and DuckDB's extension.

DuckDB's extension is only for the release of DuckDB that it was built with, so both are installed apart.
"""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from tests.files_below import files_below
from tests.integration.iceberg_rest_server import IcebergRestServer

Row = dict[str, Any]

_DUCKDB: Final = ("duckdb==1.5.5", "duckdb-extension-avro==1.5.5", "duckdb-extension-iceberg==1.5.5")
_QUERY: Final = """
import sys, duckdb, duckdb_extension_avro, duckdb_extension_iceberg
connection = duckdb.connect()
for package, name in ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg")):
    connection.execute(f"LOAD '{package.__path__[0]}/extensions/v{duckdb.__version__}/{name}.duckdb_extension'")
connection.execute("SET TimeZone = 'UTC'")
connection.execute(f"COPY (SELECT * FROM iceberg_scan('{sys.argv[1]}')) TO '{sys.argv[2]}' (FORMAT parquet)")
"""


class DuckDb:
    """DuckDB with its Iceberg extension, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *_DUCKDB]
        _run(command, {"PATH": "/usr/bin:/bin"})

    def rows(self, metadata: str, order: str) -> list[Row]:
        """The rows of the table with this metadata file, in the order of a column."""
        answer = self._folder / f"{uuid.uuid4()}.parquet"
        location = urlsplit(metadata).path
        _run([sys.executable, "-S", "-c", _QUERY, location, str(answer)], {"PYTHONPATH": str(self._folder)})
        found = _rows(pq.read_table(answer), order)
        answer.unlink()
        return found


class LakeTable:
    """A table of any catalog, read through the process of a REST server."""

    def __init__(self, server: IcebergRestServer, catalog: Mapping[str, str], name: str) -> None:
        """`catalog`: its properties as Iceberg's library has them."""
        self._server, self._catalog, self.name = server, catalog, name

    def rows(self, order: str, branch: str = "main") -> list[Row]:
        """The rows by Iceberg's own reader, in the order of a column; what JSON has no type for is text."""
        found: list[Row] = self._tool("rows", branch)
        return sorted(found, key=lambda row: str(row[order]).zfill(40))

    def by_pyiceberg(self, order: str) -> list[Row]:
        """The rows by pyiceberg, in the form of `rows`. Errors: ValueError if there are equality deletes."""
        return _rows(self.static().scan().to_arrow(), order)

    def by_duckdb(self, duckdb: DuckDb, order: str) -> list[Row]:
        """The rows by DuckDB, in the form of `rows`."""
        return duckdb.rows(self.metadata(), order)

    def static(self) -> StaticTable:
        """The table of this moment, by pyiceberg."""
        return StaticTable.from_metadata(self.metadata())

    def metadata(self) -> str:
        """The location of its metadata."""
        found: str = self._tool("metadata")
        return found

    def compact(self) -> int:
        """Rewrite its data as an engine does, while others go on writing; return how many files there were."""
        found: int = self._tool("compact")
        return found

    def touch(self) -> int:
        """Set a property of its own, as another process does; return 1."""
        found: int = self._tool("touch")
        return found

    def expire(self) -> None:
        """Forget all snapshots but the current one."""
        self._tool("expire")

    def lock(self) -> None:
        """Take, or wait for, the lock that another writer has in Hive's metastore; nothing tells that it lives."""
        self._tool("lock")

    def unlock(self) -> None:
        """Give up the lock, or the place in its queue."""
        self._tool("unlock")

    def locks(self) -> list[list[str]]:
        """Return the state and the user of each lock, and of each that is waited for, in Hive's metastore."""
        found: list[list[str]] = self._tool("locks")
        return found

    def orphans(self) -> set[str]:
        """The paths of files in the table's folder on the local disk that no snapshot and no metadata has."""
        known = {urlsplit(path).path for path in self._tool("reachable")}
        folder = Path(urlsplit(self.static().location()).path)
        there = {str(path) for path in files_below(folder) if not path.name.endswith(".crc")}
        return there - known

    def _tool(self, action: str, branch: str = "main") -> Any:
        return self._server.tool(action, self._catalog, self.name, branch)


def _rows(table: pa.Table, order: str) -> list[Row]:
    rows: Sequence[Row] = table.to_pylist()
    return sorted(({k: _plain(v) for k, v in row.items()} for row in rows), key=lambda row: str(row[order]).zfill(40))


def _plain(value: Any) -> Any:
    """The value as `TableTool.plain` tells it."""
    match value:
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list():
            return [list(map(_plain, one)) if isinstance(one, tuple) else _plain(one) for one in value]
        case bytes():
            return value.hex()
        case datetime.datetime() | datetime.time():
            return value.isoformat(timespec="microseconds")
        case datetime.date() | uuid.UUID() | decimal.Decimal():
            return str(value)
    return value


def _run(command: Sequence[str], env: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
