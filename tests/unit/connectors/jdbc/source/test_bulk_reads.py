"""Connections that bulk reads keep open: on SQLite, which needs no server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from headrace.connectors.jdbc.contract.source_sql import SourceSql
from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.database.connection import CONNECTIONS, Database, DatabaseAway
from headrace.connectors.jdbc.source.tables import SourceTable
from headrace.connectors.jdbc.source.task import BulkReads, JdbcSourceTask
from headrace.plugins.contracts import TaskContext
from headrace.plugins.stopping import StopToken


@pytest.mark.parametrize("statements", [(), ("SELECT 1",)], ids=["nothing to share", "a shared snapshot"])
def test_bulk_reads_keep_one_connection_however_many_tables_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: tuple[str, ...]
) -> None:
    monkeypatch.setattr(SourceSql, "same_snapshot", lambda *_: statements)
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
    assert pool.checkedout() == len(statements), "only a snapshot that is shared is held"
    task = JdbcSourceTask()
    task._bulk = bulk
    task.undelivered()
    assert pool.checkedout() == 0
    bulk._open.callback(_raises)
    bulk.close()
    database.close()


def test_what_a_bulk_read_keeps_open_is_broken_off_only_while_it_asks(tmp_path: Path) -> None:
    interruptible = list[int]()

    @contextmanager
    def interrupted_by(_: object) -> Iterator[None]:
        interruptible.append(1)
        yield
        interruptible.pop()

    database = Database.of({"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}"}, {}, interrupted_by=interrupted_by)
    bulk, table = BulkReads(database), TableId(None, None, "t")
    with database.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t AS SELECT 7 AS id")
        facts = database.dialect.describe(connection, [table])
    given = SourceTable.of_table(table, database.dialect, "")
    given.facts = facts[table]
    asked = list[bool]()
    event.listen(database.engine, "before_cursor_execute", lambda *_: asked.append(bool(interruptible)))
    assert bulk.cut(given)[0] is not None
    assert all(asked)
    assert asked
    assert not interruptible
    bulk.close()
    database.close()


def test_a_task_that_was_asked_to_end_does_not_wait_for_a_database_that_is_away(tmp_path: Path) -> None:
    task, began, stopping = JdbcSourceTask(), time.monotonic(), StopToken()
    stopping.set()
    config = {
        "connection.url": f"jdbc:sqlite:{tmp_path / 'missing' / 'a.db'}",
        "connection.attempts": "3",
        "connection.backoff.ms": "60000",
        "mode": "bulk",
        "tables": "`t`",
    }
    with pytest.raises(DatabaseAway):
        task.start(config, TaskContext("c", 0, stopping, {}))
    assert time.monotonic() < began + 30
    task.stop()


def _raises() -> None:
    raise DatabaseAway("the connection was lost meanwhile")
