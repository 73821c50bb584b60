"""No row is lost: several writers, some of them slow to commit, while a worker reads, is killed and started again.

Every writer takes an id (and a time) when it inserts, and commits later: the slow ones long after others have committed
greater ids. A source that goes by what it sees loses theirs. Where times are those of seconds, so does one that reads a
second before it is over.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy

from tests.integration.databases import Database
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.database, pytest.mark.spark]

PAUSES = ((0.0, 1), (0.001, 5), (0.02, 10), (1.5, 3))
"""Of the writers: the longest pause between two rows, and how many rows a transaction has."""
START_S = 180.0
"""A worker's Spark has started by then, though the machine has other work."""
STEADY = ((0.02, 1), (0.02, 5), (0.02, 10), (1.5, 3))
"""Pauses of writers that go on while workers start, for as long as that takes: some hundred rows a second."""
QUICK = PAUSES[:3]
"""Pauses if nobody tells of open transactions: each ends within the delay that rows are given."""

TABLES = {
    "postgresql": "id bigserial PRIMARY KEY, changed timestamptz NOT NULL DEFAULT now(), note text",
    "mariadb": "id bigint AUTO_INCREMENT PRIMARY KEY, changed datetime NOT NULL DEFAULT (utc_timestamp()), note text",
    "sqlite": "id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, note TEXT",
}
"""Times are those of seconds, but on PostgreSQL."""


class Writers:
    """Threads that insert and commit, each transaction after transaction, as long as this is entered."""

    def __init__(self, database: Database, table: str, pauses: Sequence[tuple[float, int]] = PAUSES) -> None:
        self._database = database
        quoted = f"`{table}`" if database.kind == "mariadb" else f'"{table}"'
        self._insert = sqlalchemy.text(f"INSERT INTO {quoted} (note) VALUES (:note) RETURNING id")
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=pause) for pause in pauses]
        self.ids: list[int] = []
        self.began = time.monotonic()
        self.transactions = Counter({pause_s: 0 for pause_s, _ in pauses})
        """By the writers' pauses: how many they have committed."""
        if database.kind == "sqlite":
            database.execute("PRAGMA journal_mode = WAL")  # who reads holds up nobody who writes
        database.execute(f"CREATE TABLE {quoted} ({TABLES[database.kind]})")

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def have_met(self) -> bool:
        """True if every one of them has committed among the others, for some seconds."""
        return min(self.transactions.values()) > 1 and time.monotonic() - self.began > 4

    def _write(self, pause_s: float, rows: int) -> None:
        dice = random.Random(pause_s)
        while not self._ended.is_set():
            taken = []
            with self._database.engine.begin() as connection:
                self._ended.wait(pause_s * dice.random())  # `now()` is long ago when the first row comes
                for number in range(rows):
                    note = {"note": f"{pause_s} {number}"}
                    taken.append(connection.execute(self._insert, note).scalar_one())
                    self._ended.wait(pause_s * dice.random())
            self.ids += taken
            self.transactions[pause_s] += 1


INCREMENTING = {"mode": "incrementing", "incrementing.column.name": "id"}
TIMESTAMP = {"mode": "timestamp", "timestamp.column.name": "changed"}
BOTH = {"mode": "timestamp+incrementing", "timestamp.column.name": "changed", "incrementing.column.name": "id"}
DELAYED = {**TIMESTAMP, "timestamp.delay.interval.ms": "2000"}


def config(database: Database, table: str, **mode: str) -> dict[str, str]:
    """The topic has the table's name."""
    return {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "table.whitelist": table,
        "poll.interval.ms": "50",
        **database.settings,
        **mode,
    }


def ids(topic: Topic) -> list[int]:
    return [json.loads(value)["payload"]["id"] for value in topic.values()]


@pytest.mark.parametrize(
    ("kind", "mode", "pauses"),
    [
        pytest.param("postgresql", INCREMENTING, PAUSES, marks=pytest.mark.long),
        ("postgresql", TIMESTAMP, PAUSES),
        pytest.param("postgresql", BOTH, PAUSES, marks=pytest.mark.long),
        pytest.param("mariadb", DELAYED, QUICK, marks=pytest.mark.long),
        ("sqlite", DELAYED, QUICK),
    ],
    ids=lambda given: given["mode"] if isinstance(given, dict) else given if isinstance(given, str) else "",
)
def test_every_row_exactly_once_while_nobody_is_killed(
    worker: WorkerProcess,
    broker: str,
    request: pytest.FixtureRequest,
    kind: str,
    mode: dict[str, str],
    pauses: Sequence[tuple[float, int]],
) -> None:
    database: Database = request.getfixturevalue(kind)
    topic = Topic(broker, "calm")
    name = topic.name
    worker.wait_ready()
    with Writers(database, name, pauses) as writers:
        worker.create(name, **config(database, name, **mode))
        worker.wait_states(name, "RUNNING")
        eventually(writers.have_met, 60, lambda: writers.transactions)
    eventually(lambda: topic.end() >= len(writers.ids), 60, lambda: (topic.end(), len(writers.ids), worker.log()))
    arrived = ids(topic)
    assert Counter(arrived) == Counter(writers.ids)
    if mode is INCREMENTING:
        assert arrived == sorted(arrived)
        stored = {"partition": {"protocol": "1", "table": f"public.{name}"}, "offset": {"incrementing": max(arrived)}}
        eventually(lambda: worker.offsets(name) == [stored], 60, lambda: worker.offsets(name))
    worker.request("DELETE", f"/connectors/{name}")


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.soak)])
def test_every_row_at_least_once_though_the_worker_is_killed(
    broker: str, postgresql: Database, tmp_path: Path, kills: int
) -> None:
    topic = Topic(broker, "killed")
    name = topic.name
    reading = config(postgresql, name, **INCREMENTING)
    with WorkerProcess(tmp_path, broker) as worker:
        with Writers(postgresql, name, STEADY) as writers:
            for _ in range(kills):
                worker.wait_ready()
                worker.create(name, **reading)
                before = topic.end()
                eventually(lambda before=before: topic.end() > before + 200, START_S, worker.log, every_s=0.05)
                worker.kill()
                worker.start()
        worker.wait_ready()
        worker.create(name, **reading)
        wanted = set(writers.ids)
        eventually(lambda: not _missing(wanted, topic), START_S, lambda: _missing(wanted, topic), every_s=1)
        assert set(ids(topic)) == wanted


def _missing(wanted: set[int], topic: Topic) -> list[int]:
    return sorted(wanted - set(ids(topic)))[:10]
