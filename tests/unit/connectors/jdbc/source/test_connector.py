"""The work of the JDBC source between its tasks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError, DatabaseLoginRefused
from headrace.connectors.jdbc.database.installed_dialects import dialect_for
from headrace.connectors.jdbc.source.connector import JdbcSourceConnector
from headrace.connectors.jdbc.source.tables import SourceError
from headrace.connectors.jdbc.source.task import JdbcSourceTask
from headrace.plugins.contracts import Place, TaskContext
from headrace.plugins.stopping import StopToken


class Watched(JdbcSourceConnector):
    """A connector that finds what it is told to."""

    def __init__(self, *finds: Any) -> None:
        super().__init__()
        self.finds = list(finds)
        self.failed: list[Exception] = []
        self.reconfigured = 0
        self._tables = []

    def watch(self) -> None:
        self.ended = StopToken()
        context: Any = self
        self._look_again(0.001, context, cast(Any, None), self.ended)

    def fail(self, error: Exception) -> None:
        self.failed.append(error)

    def reconfigure(self) -> None:
        self.reconfigured += 1
        self.ended.set()

    def _found(self, database: Database) -> list[TableId]:
        found = self.finds.pop(0)
        if isinstance(found, Exception):
            raise found
        return list(found)


@pytest.mark.parametrize("error", [DatabaseAway("gone"), DatabaseError("permission denied")])
def test_looking_for_tables_goes_on_after_an_error_of_the_database(error: Exception) -> None:
    connector = Watched(error, [], [TableId(None, None, "new")])
    connector.watch()
    assert (connector.failed, connector.reconfigured, connector.finds) == ([], 1, [])


def test_tables_that_are_named_and_not_there_are_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    config = {"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}", "mode": "bulk", "name": "shop"}
    connector, context = JdbcSourceConnector(), cast(Any, None)
    connector.start({**config, "table.whitelist": "orders,order_lines,`carts`"}, context)
    assert [config["tables"] for config in connector.task_configs(3)] == ["`orders`"]
    connector._found(cast(Any, connector._database))
    connector.stop()
    assert caplog.text.count("shop finds no table yet for order_lines, `carts` of table.whitelist. Each must") == 1


def test_expressions_that_match_no_table_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    config = {"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}", "mode": "bulk", "name": "shop"}
    connector, task = JdbcSourceConnector(), JdbcSourceTask()
    connector.start({**config, "table.include.list": "ord.*,Carts", "table.exclude.list": "orders"}, cast(Any, None))
    (given,) = connector.task_configs(3)
    connector.stop()
    assert "shop finds no table yet for ord.*, Carts of table.include.list" in caplog.text
    task._database = Database.of(given, {})
    with pytest.raises(SourceError, match=r"\(table.include.list=ord\.\*,Carts, table\.exclude\.list=orders\), or the"):
        task._assigned(given, "", "")


def test_what_no_later_look_can_mend_fails_the_connector() -> None:
    error = SourceError("two tables of one name")
    connector = Watched(error)
    connector.watch()
    assert connector.failed == [error]


def test_a_refused_login_ends_the_search_and_fails_the_connector() -> None:
    connector = Watched(DatabaseLoginRefused("access denied"), [TableId(None, None, "new")])
    connector.watch()
    assert len(connector.finds) == 1, "the account would be locked"
    (error,) = connector.failed
    assert isinstance(error, DatabaseLoginRefused)
    assert str(error) == "access denied. New tables are looked for again once the connector is started anew"


@pytest.mark.parametrize(
    ("query", "binds"),
    [
        ("SELECT d FROM t WHERE d ? 'a'", True),
        ("SELECT d FROM t WHERE a = 'it''s' AND d ?| ARRAY['x']", True),
        ("SELECT date'2024-01-01' FROM t WHERE b = '\\' AND d ? 'a'", True),
        ("SELECT $1$ AS a, d ? 'a' AS b", True),
        ("SELECT 1 FROM t WHERE a LIKE '%?%'", False),
        ("SELECT 1 -- why?\n, 'it''s ?', e'\\'?', \"a\"\"?\" /* and\n why? */", False),
        ("SELECT $$ ? ' $$, $a$ $$ ? $a$", False),
    ],
)
def test_a_mark_in_a_text_a_name_or_a_comment_is_no_operator(query: str, binds: bool) -> None:
    assert dialect_for("postgresql").source_sql().seems_to_bind(query) is binds
    assert not dialect_for("mariadb").source_sql().seems_to_bind(query)


def test_why_no_job_reads_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.db").touch()
    config = {"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}", "mode": "bulk", "query": "SELECT '?' AS a"}
    for extra, place in (({}, Place.WORKER_HOST), ({"query.suffix": "LIMIT 1"}, Place.WORKER_PROCESS)):
        task = JdbcSourceTask()
        with caplog.at_level("INFO"):
            task.start({**config, **extra}, TaskContext("c", 0, StopToken(), {}))
        assert task.place is place
        task.stop()
    assert caplog.text.count("Spark's statements have no place for query.suffix") == 1
    assert caplog.text.count("no Spark jobs") == 1
