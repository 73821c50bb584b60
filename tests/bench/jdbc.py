"""Costs of JSON structs on their way into PostgreSQL: crash-safe tables, two tasks; beside Debezium's JDBC sink.

Of the records half change a row that is there. Headrace stores its offsets with the rows (exactly once), Debezium's
sink has no such thing. The window begins when a third of the records is durable (by those offsets; by Kafka's of
Debezium's, which it commits as often) and ends when all are committed; then the table is compared.
"""

import contextlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from headrace.plugins.interop.jvm.jars import fetch
from tests.bench.context import Bench, Figures, Run
from tests.bench.processes import Failed
from tests.bench.sides import Side
from tests.bench.structs import BEFORE
from tests.bench.throughput import COMMIT_INTERVAL, figures_of
from tests.integration.databases import Database, PostgresqlServer

CONFLUENT = "io.confluent.connect.jdbc.JdbcSinkConnector"
DEBEZIUM = "io.debezium.connector.jdbc.JdbcSinkConnector"
PARTITIONS = 2
BOUND_S = 900
OF_SERVER = ("-c", "max_wal_size=4GB", "-c", "shared_buffers=512MB")
TABLE = "CREATE TABLE orders (id int {key}, customer text NOT NULL, created bigint NOT NULL)"
TUNED = {
    "batch.size": "3000",
    "use.reduction.buffer": "true",
    "consumer.override.max.poll.records": "5000",
    "consumer.override.max.partition.fetch.bytes": "4194304",
    "consumer.override.receive.buffer.bytes": "1048576",
}


def upsert(bench: Bench, side: Side) -> Figures:
    """Each second record changes a row that is there."""
    count = _count(bench)
    with _server(bench) as database, bench.run("jdbc") as run:
        database.execute(TABLE.format(key="PRIMARY KEY"))
        figures = _measured(run, side, database, "upsert", _topic(bench, count, updates=True), count)
        rows, total = database.rows("SELECT count(*), sum(created) FROM orders")[0]
        expected = _last_values(count)
        if (rows, total) != expected:
            raise Failed(f"wrong output: {rows} rows with the sum {total} instead of {expected}")
        return figures


def insert(bench: Bench, side: Side, from_jar: bool = False) -> Figures:
    """Every record is a new row; `from_jar`: Headrace runs Debezium's sink, too."""
    count = _count(bench)
    with _server(bench) as database, bench.run("jdbc") as run:
        database.execute(TABLE.format(key="PRIMARY KEY"))
        figures = _measured(run, side, database, "insert", _topic(bench, count, updates=False), count, from_jar)
        rows, total = database.rows("SELECT count(*), sum(created) FROM orders")[0]
        if (rows, total) != (count, count * (count - 1) // 2):
            raise Failed(f"wrong output: {rows} rows with the sum {total} instead of {count}")
        return figures


def killed(bench: Bench, side: Side) -> Figures:
    """`kill -9` of the worker amid inserts into a table that would take each row twice; Headrace only."""
    if side.jars:
        raise Failed("Debezium's sink stores no offsets with the rows")
    count, topic = _count(bench), _topic(bench, _count(bench), updates=False)
    with _server(bench) as database, bench.run("jdbc") as run:
        database.execute(TABLE.format(key=""))
        connector = _connector(run, side, database, "insert", topic, debezium=False)
        # A member that was killed stays in its group for as long as this.
        connector["consumer.override.session.timeout.ms"] = "6000"
        with run.worker(side, [connector], COMMIT_INTERVAL) as worker:
            worker.until(lambda: _stored(database) >= count // 3, "a third of the rows", BOUND_S, every=0.1)
            worker.kill()
        before = _stored(database)
        with run.worker(side, [connector], COMMIT_INTERVAL) as worker:
            resumed = worker.until(lambda: _stored(database) > before, "more rows", BOUND_S) - worker.started
            worker.until(lambda: _stored(database) >= count, "all rows", BOUND_S, every=0.5)
        rows, different = database.rows("SELECT count(*), count(DISTINCT id) FROM orders")[0]
        return {"resumed_s": resumed, "duplicates": float(rows - different), "lost": float(count - different)}


def _measured(
    run: Run, side: Side, database: Database, mode: str, topic: str, count: int, from_jar: bool = False
) -> Figures:
    debezium = from_jar or bool(side.jars)
    connector = _connector(run, side, database, mode, topic, debezium)
    settings = {**COMMIT_INTERVAL, **({"plugin.path": str(_plugins(run.bench))} if debezium else {})}
    group, server = f"connect-{connector['name']}", ServerTime(_SERVERS[id(run.bench)].pid)
    with run.worker(side, [connector], settings) as worker:

        def committed() -> int:
            return run.bench.topics.committed(group, topic, PARTITIONS)

        def durable() -> int:
            return committed() if debezium else _stored(database)

        worker.until(lambda: durable() >= count // 3, "a third of the records durable", BOUND_S, every=0.1)
        first, begin, database_begin = durable(), worker.cost(), server.seconds()
        worker.until(lambda: committed() >= count, "all records committed", BOUND_S)
        spent, of_database = worker.cost() - begin, server.seconds() - database_begin
        figures = figures_of(count - first, spent, worker)
    return with_database(figures, of_database)


def with_database(figures: Figures, database_s: float) -> Figures:
    """Figures with the database's processor time, which works for the side and so is nobody else's."""
    others = max(0.0, figures["others_cpu_pct"] - 100 * database_s / figures["window_s"])
    return {**figures, "others_cpu_pct": others, "database_cpu_s": database_s}


def _connector(run: Run, side: Side, database: Database, mode: str, topic: str, debezium: bool) -> dict[str, str]:
    name, tuned = f"{run.name}-sink", side.name != "apache-default"
    common = {
        "name": name,
        "topics": topic,
        "tasks.max": str(PARTITIONS),
        "insert.mode": mode,
        "connection.password": str(database.url.password),
    }
    if not debezium:
        ours = {
            "connector.class": CONFLUENT,
            "connection.url": database.jdbc_url,
            "connection.user": str(database.url.username),
            "table.name.format": "orders",
            "pk.mode": "record_value",
            "pk.fields": "id",
            "offsets.table": "connect_offsets",
        }
        return common | ours
    theirs = {
        "connector.class": DEBEZIUM,
        "connection.url": database.jdbc_url + ("?reWriteBatchedInserts=true" if tuned else ""),
        "connection.username": str(database.url.username),
        "collection.name.format": "orders",
        "primary.key.mode": "record_value",
        "primary.key.fields": "id",
        **(TUNED if tuned else {}),
    }
    return common | theirs


@contextlib.contextmanager
def _server(bench: Bench) -> Iterator[Database]:
    """A database in the benchmark's only server, which is crash-safe."""
    server = _SERVERS.get(id(bench))
    if server is None:
        server = _SERVERS[id(bench)] = PostgresqlServer(durable=True, options=OF_SERVER)
        server.start()
        bench.at_end(server.remove)
    with server.database() as database:
        yield database


_SERVERS: dict[int, PostgresqlServer] = {}


class ServerTime:
    """Processor time of a PostgreSQL server and all its backends, those that have ended included."""

    def __init__(self, pid: int) -> None:
        self._server = psutil.Process(pid)

    def seconds(self) -> float:
        """Up to now."""
        total = 0.0
        for process in (self._server, *self._server.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                t = process.cpu_times()
                total += t.user + t.system
        own = self._server.cpu_times()
        return total + own.children_user + own.children_system


def _plugins(bench: Bench) -> Path:
    """The folder of Debezium's plugin, without what Connect has itself."""
    folder = bench.directory / "plugins"
    if not folder.exists():
        (archive,) = fetch("debezium")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        for jar in folder.rglob("*.jar"):
            if jar.name.startswith(("jackson-", "kafka-", "connect-")):
                jar.unlink()
    return folder


def _topic(bench: Bench, count: int, updates: bool) -> str:
    what = "updates" if updates else "news"
    name = f"bench-jdbc-{what}-{count}-{bench.directory.name}"
    if bench.is_new(name):
        bench.topics.create(name, partitions=PARTITIONS)
        ids = [_id(number) if updates else number for number in range(count)]
        values = (
            BEFORE + b'{"id":%d,"customer":"customer-%06d","created":%d}}' % (one, one * 7919 % 100_003, number)
            for number, one in enumerate(ids)
        )
        bench.topics.fill(name, values, (one % PARTITIONS for one in ids))
    return name


def _id(number: int) -> int:
    """Even records are new rows, odd ones change one of those, far and near alike."""
    return number // 2 if number % 2 == 0 else number * 7919 % (number // 2 + 1)


def _last_values(count: int) -> tuple[int, int]:
    """The number of rows in the end, and the sum of their `created`."""
    last: dict[int, int] = {}
    for number in range(count):
        last[_id(number)] = number
    return len(last), sum(last.values())


def _stored(database: Database) -> int:
    """The number of records that connect_offsets says are written."""
    with contextlib.suppress(Exception):
        return int(database.value("SELECT coalesce(sum(kafka_offset + 1), 0) FROM connect_offsets"))
    return 0


def _count(bench: Bench) -> int:
    return bench.size.lines * 5 // 6
