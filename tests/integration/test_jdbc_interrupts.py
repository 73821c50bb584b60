"""A query that waits for a lock ends when its task is asked to, and not when the lock does."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import sqlalchemy
from pyspark.sql import SparkSession

from headrace.plugins.contracts import RetriableError
from tests.integration.databases import Database
from tests.integration.sourcing import Sourcing
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.database, pytest.mark.spark]

SOON_S = 60.0
"""A second or less if the machine is not busy; the locks are held for as long as a test likes."""
LOCKS = {"postgresql": 'LOCK TABLE "{}" IN ACCESS EXCLUSIVE MODE', "mariadb": "LOCK TABLES `{}` WRITE"}
WAITS = {
    "postgresql": "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE NOT l.granted "
    "AND d.datname = current_database()",
    "mariadb": "SELECT count(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'",
}


@contextmanager
def locked(database: Database, table: str = "rows_") -> Iterator[None]:
    """Nobody else reads the table."""
    if database.kind == "sqlite":
        with closing(sqlite3.connect(str(database.url.database), isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            yield
        return
    with database.engine.connect() as other:
        other.execute(sqlalchemy.text(LOCKS[database.kind].format(table)))
        yield
        other.execute(sqlalchemy.text("UNLOCK TABLES" if database.kind == "mariadb" else "COMMIT"))


def patient(database: Database) -> str:
    """The database's URL, with which SQLite too waits for a lock for longer than a test does."""
    return database.jdbc_url + ("?busy_timeout=600000" if database.kind == "sqlite" else "")


def waits(database: Database, seen_by: str = "") -> bool:
    """True if somebody waits for the lock; SQLite tells nobody."""
    return database.kind == "sqlite" or bool(database.value(seen_by or WAITS[database.kind]))


class Blocked:
    """An act in a thread of its own, which the lock blocks by now."""

    def __init__(self, database: Database, act: Any, seen_by: str = "") -> None:
        """`seen_by`: a query that tells whether it is, where that is not by a lock."""
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()
        eventually(lambda: waits(database, seen_by) or not self._thread.is_alive(), 60)
        assert self._thread.is_alive(), self.error

    def _run(self, act: Any) -> None:
        try:
            act()
        except Exception as error:
            self.error = error

    def ends(self) -> Exception | None:
        """Wait a short while for the end; return the error."""
        began = time.monotonic()
        self._thread.join(SOON_S)
        assert not self._thread.is_alive(), f"it is still blocked after {time.monotonic() - began:.1f} s"
        return self.error


@pytest.fixture
def source(database: Database) -> Iterator[Sourcing]:
    database.execute("CREATE TABLE rows_ (id INTEGER PRIMARY KEY)", "INSERT INTO rows_ VALUES (1), (2)")
    config = {"mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": "rows_"}
    made = Sourcing(database, **config, connection_url=patient(database))
    yield made
    made.task.stop()


def test_a_plan_is_broken_off(database: Database, source: Sourcing) -> None:
    with locked(database):
        plan = Blocked(database, source.plan)
        source.interrupts.begin()
        assert isinstance(plan.ends(), RetriableError)


def test_reading_in_the_jvm_is_broken_off(spark: SparkSession, database: Database, source: Sourcing) -> None:
    if database.kind == "sqlite":
        pytest.skip("its wait for a lock in the JVM is deaf")
    plan = source.plan()
    assert plan is not None
    reader = source.task.reader(plan)
    with locked(database):
        reading = Blocked(database, lambda: list(reader.read(0)))
        source.interrupts.begin()
        assert isinstance(reading.ends(), RetriableError)


def test_reading_is_broken_off_between_the_first_rows_and_the_last(spark: SparkSession, postgresql: Database) -> None:
    postgresql.execute("CREATE TABLE rows_ (id INTEGER PRIMARY KEY)", "INSERT INTO rows_ VALUES (1), (2), (3)")
    slow = "SELECT id, pg_sleep(CASE WHEN id < 3 THEN 0 ELSE 120 END) IS NULL AS s FROM rows_"
    source = Sourcing(postgresql, mode="bulk", query=slow, batch_max_rows="1")
    plan = source.plan()
    assert plan is not None
    reader = source.task.reader(plan)
    sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    reading = Blocked(postgresql, lambda: list(reader.read(0)), sleeps)
    source.interrupts.begin()
    assert isinstance(reading.ends(), RetriableError)
    source.task.stop()


def test_a_worker_stops_a_task_at_once(worker: WorkerProcess, broker: str, database: Database) -> None:
    topic = Topic(broker, "locked")
    name, mark = topic.name, "`" if database.kind == "mariadb" else '"'
    table, before = f"{mark}{name}{mark}", len(worker.log())
    database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)", f"INSERT INTO {table} VALUES (1), (2)")
    config = {"mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": name}
    settings = {**database.settings, **config, "connection.url": patient(database)}
    worker.create(name, connector_class="JdbcSource", poll_interval_ms="10", **settings)
    eventually(lambda: topic.end() == 2, 180, worker.log)
    with locked(database, name):
        eventually(lambda: waits(database), 60)
        worker.request("PUT", f"/connectors/{name}/stop")
        eventually(lambda: worker.get(f"/connectors/{name}/status")["connector"]["state"] == "STOPPED", SOON_S)
    assert "left to itself" not in worker.log()[before:]
    assert "the task failed" not in worker.log()[before:]
