"""What bulk reads keep open: on SQLite, which needs no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.connectors.jdbc.bulk_reads import BulkReads
from headrace.connectors.jdbc.connection import CONNECTIONS, Database, DatabaseAway
from headrace.connectors.jdbc.source_tables import SourceTable
from headrace.connectors.jdbc.source_task import JdbcSourceTask
from headrace.connectors.jdbc.tables import TableId


def test_bulk_reads_keep_one_connection_however_many_tables_are_read(tmp_path: Path) -> None:
    database = Database.of({"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}"}, {})
    names = [f"t{number}" for number in range(CONNECTIONS + 1)]
    bulk, dialect = BulkReads(database), database.dialect
    with database.begin() as connection:
        for name in names:
            connection.exec_driver_sql(f"CREATE TABLE {name} AS SELECT 7 AS id")
        ids = [TableId(None, None, name) for name in names]
        facts = dialect.describe(connection, ids)
    for table in ids:
        given = SourceTable.of_table(table, dialect, "")
        given.facts = facts[table]
        ranges, _ = bulk.cut(given)
        assert ranges is not None
        assert (ranges.low, ranges.high) == (1, 1)
    pool: Any = database.engine.pool
    assert pool.checkedout() == 1
    task = JdbcSourceTask()
    task._bulk = bulk
    task.undelivered()
    assert pool.checkedout() == 0
    bulk._open.callback(_raises)
    bulk.close()
    database.close()


def _raises() -> None:
    raise DatabaseAway("the connection was lost meanwhile")
