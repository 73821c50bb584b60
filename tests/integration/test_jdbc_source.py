"""The JDBC source against real databases, as its task drives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.jdbc.source.connector import JdbcSourceConnector
from headrace.connectors.jdbc.source.task import JdbcSourceTask
from headrace.plugins.contracts import Connector, Limit, TaskContext
from headrace.plugins.stopping import StopToken
from headrace.plugins.testkit import HOSTILE, SourceContract, SourceOnSparkContract, SourceRig
from headrace.worker.engine.driver import Spark
from tests.integration.databases import Database

pytestmark = [pytest.mark.spark, pytest.mark.database]

COUNTS = {
    "postgresql": "bigserial PRIMARY KEY",
    "mariadb": "bigint AUTO_INCREMENT PRIMARY KEY",
    "sqlite": "INTEGER PRIMARY KEY",
}


class Lines(SourceRig):
    """A table of texts, counted by the database."""

    knows_sizes = False  # but for tables with statistics

    def __init__(self, database: Database, mode: Mapping[str, str]) -> None:
        self.database = database
        self.mode = mode
        self.worker = {"file.allowed.paths": ("/",)}
        self.hostile = [value for value in HOSTILE if "\0" not in value or database.kind != "postgresql"]
        text = "longtext" if database.kind == "mariadb" else "text"
        database.execute(
            f"CREATE TABLE notes (id {COUNTS[database.kind]}, changed {TIMES[database.kind]} NOT NULL, line {text})"
        )
        self._count = 0

    def connector(self) -> Connector:
        connector = JdbcSourceConnector()
        connector.worker = self.worker
        return connector

    def config(self) -> dict[str, str]:
        always = {
            "table.whitelist": "notes",
            "topic.prefix": "db-",
            "poll.interval.ms": "0",
            "table.poll.interval.ms": "3600000",
            "snapshot.bound": "writers",  # nothing but what this test writes is waited for
        }
        return {**self.database.settings, **always, **self.mode}

    def put(self, values: Sequence[str]) -> None:
        with self.database.engine.begin() as connection:
            import sqlalchemy

            for value in values:
                self._count += 1
                at = f"2024-02-29 12:{self._count // 60:02}:{self._count % 60:02}.{self._count:06}"
                connection.execute(
                    sqlalchemy.text("INSERT INTO notes (changed, line) VALUES (:at, :line)"), {"at": at, "line": value}
                )

    def value(self, row: Mapping[str, Any]) -> str:
        return str(row["c2"])


TIMES = {"postgresql": "timestamp", "mariadb": "datetime(6)", "sqlite": "timestamp"}
INCREMENTING = {"mode": "incrementing"}
TIMESTAMP = {"mode": "timestamp", "timestamp.column.name": "changed"}
BOTH = {"mode": "timestamp+incrementing", "timestamp.column.name": "changed", "incrementing.column.name": "id"}


@pytest.fixture(
    params=[
        ("postgresql", BOTH),
        pytest.param(("mariadb", TIMESTAMP), marks=pytest.mark.long),
        ("sqlite", INCREMENTING),
    ],
    ids=lambda param: param[0],
)
def rig(engine: Spark, request: pytest.FixtureRequest) -> SourceRig:
    """A database and a mode."""
    database, mode = request.param
    return Lines(request.getfixturevalue(database), mode)


class TestJdbcSource(SourceContract):
    @pytest.fixture
    def rig(self, rig: SourceRig) -> SourceRig:
        return rig


class TestJdbcSourceOnSpark(SourceOnSparkContract):
    @pytest.fixture
    def rig(self, rig: SourceRig) -> SourceRig:
        return rig


def read_in_a_preview(database: Database, query: str) -> None:
    """The rows of a query are read as a preview reads them."""
    task = JdbcSourceTask()
    config = {**database.settings, "mode": "bulk", "query": query, "topic.prefix": "previewed"}
    try:
        task.start_preview(config, TaskContext("preview", 0, StopToken()))
        plan = task.plan([None for _ in task.partitions()], Limit(20, 1 << 20))
        assert plan is not None
        list(task.reader(plan).read(0))
    finally:
        task.stop()


def count_in_a_preview(database: Database, statement: str) -> None:
    """A preview of a query that would change the database fails, and nothing is counted."""
    database.execute("CREATE SEQUENCE counted")
    with pytest.raises(Exception, match=r"(?i)read[- ]only"):
        read_in_a_preview(database, f"{statement} AS n")
    assert database.value(statement) == 1


def test_a_preview_of_a_query_cannot_write(postgresql: Database, engine: Spark) -> None:
    count_in_a_preview(postgresql, "SELECT nextval('counted')")


@pytest.mark.long
def test_a_preview_of_a_query_cannot_write_to_mariadb(mariadb: Database, engine: Spark) -> None:
    count_in_a_preview(mariadb, "SELECT NEXTVAL(counted)")


def test_a_preview_of_a_query_cannot_write_to_sqlite(sqlite: Database, engine: Spark) -> None:
    """Its `optimize` is a function that writes, unless the index is a single segment, as after one transaction."""
    sqlite.execute("CREATE VIRTUAL TABLE docs USING fts3(line)")
    for _ in range(3):
        sqlite.execute("INSERT INTO docs VALUES ('a')")
    before = (file := Path(sqlite.url.database or "")).read_bytes()
    sqlite.jdbc_url += "?journal_mode=WAL"
    with pytest.raises(Exception, match=r"(?i)read[- ]?only"):
        read_in_a_preview(sqlite, "SELECT optimize(docs) AS n FROM docs LIMIT 1")
    read_in_a_preview(sqlite, "SELECT line FROM docs")
    assert file.read_bytes() == before
