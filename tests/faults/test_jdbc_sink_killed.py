"""`kill -9` of the worker, and of the database, with offsets in the database: no row twice, none lost."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.integration.databases import Database, PostgresqlServer
from tests.integration.worker_process import Topic, WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCHEMA = b'{"schema":{"type":"struct","optional":false,"fields":[{"type":"int64","optional":false,"field":"id"}]},'
PARTITIONS = 2
SOON_FORGOTTEN = {"consumer_override_session_timeout_ms": "6000", "consumer_override_heartbeat_interval_ms": "2000"}


class Pipe:
    """A topic of numbers, and a table without a key, which takes each row as often as it comes."""

    def __init__(self, bootstrap: str, database: Database, folder: Path) -> None:
        self.topic, self.database, self.sent = Topic(bootstrap, "rows", partitions=PARTITIONS), database, 0
        database.execute("CREATE TABLE numbers (id bigint)")
        settings = {key.replace(".", "_"): value for key, value in database.settings.items()}
        self.connector = connector_file(
            folder,
            "sink",
            **{**settings, **SOON_FORGOTTEN},
            connector_class="JdbcSinkConnector",
            topics=self.topic.name,
            tasks_max="2",
            table_name_format="numbers",
            offsets_table="connect_offsets",
            connection_attempts="1",
            max_retries="1000",
        )

    def send(self, count: int) -> None:
        """So many more numbers are in the topic."""
        for partition in range(PARTITIONS):
            numbers = range(self.sent + partition, self.sent + count, PARTITIONS)
            self.topic.send([SCHEMA + b'"payload":{"id":%d}}' % number for number in numbers], partition)
        self.sent += count

    def is_written_there(self, worker: WorkerProcess) -> bool:
        """A Spark job writes: only for so long a Python worker of it is connected to the database."""
        port = self.database.url.port
        with contextlib.suppress(psutil.Error):  # one has just ended
            connections = (one for process in worker.python_workers() for one in process.net_connections())
            return any(one.raddr and one.raddr.port == port for one in connections)
        return False

    def rows(self) -> int:
        """The number of rows."""
        return int(self.database.value("SELECT count(*) FROM numbers"))

    def check(self) -> None:
        """All that was sent is there, once."""
        assert self.database.rows("SELECT count(*), count(DISTINCT id), max(id) FROM numbers") == [
            (self.sent, self.sent, self.sent - 1)
        ]
        assert self.database.value("SELECT count(topic_id) FROM connect_offsets") == PARTITIONS


@pytest.mark.parametrize(
    ("records", "kills", "seed"),
    [
        pytest.param(240_000, 1, 3, id="short"),
        pytest.param(4_000_000, 10, 1, id="long", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(1800)
def test_a_worker_killed_at_random_moments_writes_each_row_once(
    broker: str, postgresql: Database, tmp_path: Path, records: int, kills: int, seed: int
) -> None:
    chance, pipe, share = random.Random(seed), Pipe(broker, postgresql, tmp_path), records // (kills + 1)
    with WorkerProcess(tmp_path, broker, [pipe.connector]) as worker:
        for kill in range(kills):
            before = pipe.rows()
            pipe.send(share)
            if kill % 2 == 0:
                eventually(lambda: pipe.is_written_there(worker), 120, worker.log, every_s=0.01)
            else:
                eventually(more_than(pipe, before + chance.randrange(share // 2)), 120, worker.log, every_s=0.01)
            worker.kill()
            worker.start()
        pipe.send(records - pipe.sent)
        eventually(more_than(pipe, records - 1), 180, worker.log)
        assert worker.stop() == 0
    pipe.check()


@pytest.mark.long
def test_the_database_killed_amid_a_batch(broker: str, tmp_path: Path) -> None:
    with PostgresqlServer(durable=True) as server, server.database() as database:
        pipe = Pipe(broker, database, tmp_path)
        with WorkerProcess(tmp_path, broker, [pipe.connector]) as worker:
            pipe.send(120_000)
            eventually(lambda: pipe.is_written_there(worker), 120, worker.log, every_s=0.01)
            server.kill()
            server.start()
            pipe.send(1000)
            eventually(more_than(pipe, pipe.sent - 1), 120, worker.log)
            worker.wait_states("sink", "RUNNING", "RUNNING")
        pipe.check()


def more_than(pipe: Pipe, rows: int) -> Callable[[], bool]:
    return lambda: pipe.rows() > rows
