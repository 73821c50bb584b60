"""A preview of a source changes nothing in SQLite, whatever its URL or its query says."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy

from headrace.connectors.jdbc.database.connection import DatabaseError
from headrace.connectors.jdbc.sink.validation import sink_problems
from headrace.connectors.jdbc.source.task import JdbcSourceTask
from headrace.connectors.jdbc.source.validation import source_problems, tables_to_offer
from headrace.plugins.contracts import Limit, TaskContext
from headrace.plugins.stopping import StopToken

TABLE = {"mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": "t"}
QUERY = {"mode": "bulk", "query": "SELECT id FROM t"}


@pytest.fixture(params=["delete", "wal"])
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file with one row, in each of two journal modes."""
    found = tmp_path / "a.db"
    with closing(sqlite3.connect(found)) as connection:
        connection.execute(f"PRAGMA journal_mode = {request.param}")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (7)")
        connection.commit()
    return found


def config(file: Path, journal: str, more: Mapping[str, str]) -> dict[str, str]:
    return {"connection.url": f"jdbc:sqlite:{file}?journal_mode={journal}", "topic.prefix": "p-", **more}


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize("more", [TABLE, QUERY], ids=["table", "query"])
def test_the_file_stays_as_it_is_whatever_journal_the_url_names(
    file: Path, journal: str, more: Mapping[str, str]
) -> None:
    given, task = config(file, journal, more), JdbcSourceTask()
    before = {one.name: one.read_bytes() for one in file.parent.iterdir()}
    try:
        task.start_preview(given, TaskContext("preview", 0, StopToken()))
        assert task.plan([None for _ in task.partitions()], Limit(20, 1 << 20)) is not None
        assert "journal_mode" not in task._access.driver.properties
        with pytest.raises(DatabaseError, match="readonly"), task._database.connect() as connection:
            connection.execute(sqlalchemy.text("INSERT INTO t VALUES (8)"))
    finally:
        task.stop()
    assert {one.name: one.read_bytes() for one in file.parent.iterdir()} == before


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_to_validate_a_config_leaves_the_file_as_it_is(file: Path, journal: str) -> None:
    before = {one.name: one.read_bytes() for one in file.parent.iterdir()}
    assert source_problems(config(file, journal, QUERY), {}) == []
    assert tables_to_offer(config(file, journal, TABLE), {}) == ["t"]
    assert sink_problems({**config(file, journal, {}), "topics": "t"}, {}) == []
    assert {one.name: one.read_bytes() for one in file.parent.iterdir()} == before
