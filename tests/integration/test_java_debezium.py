"""Debezium's PostgreSQL connector from its jars: snapshot, stream, and what it goes on after."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.databases import Database, PostgresqlServer
from tests.integration.java_plugins import debezium, debezium_config, hosts
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

ROWS = 2000


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    """A server whose databases can be followed."""
    with PostgresqlServer(options=["-c", "wal_level=logical"]) as server:
        yield server


@pytest.fixture
def database(server: PostgresqlServer) -> Iterator[Database]:
    """A database of orders."""
    with server.database() as found:
        found.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, item text, price numeric(10,2), at timestamptz, day date)",
            "INSERT INTO orders SELECT n, 'item ' || n, n * 0.5, '2026-01-01 12:00:00Z', '2026-02-03' "
            f"FROM generate_series(1, {ROWS}) n",
        )
        yield found
        # A database whose changes are read cannot be dropped, and of a killed reader the server hears a moment later.
        eventually(lambda: not found.value("SELECT count(*) FROM pg_replication_slots WHERE active"), 60)


@pytest.fixture(scope="module")
def worker_of_all(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker with Debezium on its plugin.path."""
    folder = tmp_path_factory.mktemp("debezium")
    settings = {"plugin.path": str(debezium(folder)), "task.restart.backoff.ms": "200"}
    with WorkerProcess(folder / "worker", broker_process.bootstrap_servers, settings=settings) as worker:
        yield worker.wait_ready(180)


@pytest.fixture
def worker(worker_of_all: WorkerProcess, database: Database) -> Iterator[WorkerProcess]:
    """The worker, whose connectors are gone before the database goes."""
    yield worker_of_all
    for name in worker_of_all.get("/connectors"):
        worker_of_all.request("DELETE", f"/connectors/{name}")


def changes(topic: Topic) -> list[Any]:
    """Operation and row of each record of the topic, None for a tombstone."""
    found: list[Any] = []
    for value in topic.values():
        payload = json.loads(value)["payload"] if value else None
        found.append(payload and (payload["op"], payload["after"] and payload["after"]["id"]))
    return found


def test_debeziums_transforms_run_in_java_up_to_the_last_one(
    broker: str, database: Database, worker: WorkerProcess
) -> None:
    prefix = f"db{uuid.uuid4().hex[:8]}"
    topic = Topic(broker, "all-orders")
    debeziums = "io.debezium.transforms"
    chain = {
        "transforms": "route,unwrap,head,name",
        "transforms.route.type": f"{debeziums}.ByLogicalTableRouter",
        "transforms.route.topic.regex": ".*orders",
        "transforms.route.topic.replacement": topic.name,
        "transforms.route.key.field.name": "table",
        "transforms.unwrap.type": f"{debeziums}.ExtractNewRecordState",
        "transforms.unwrap.add.headers": "op",
        "transforms.head.type": f"{debeziums}.HeaderToValue",
        "transforms.head.headers": "__op",
        "transforms.head.fields": "op",
        "transforms.head.operation": "move",
        "transforms.head.predicate": "ours",
        "transforms.name.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.name.include": "id,op",
        "predicates": "ours",
        "predicates.ours.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.ours.pattern": topic.name,
    }
    wrong = {**debezium_config(database, prefix), **chain, "name": "chained", "transforms.head.operation": "burn"}
    answer = worker.request("PUT", "/connector-plugins/PostgresConnector/config/validate", wrong).json()
    errors = {one["value"]["name"]: one["value"]["errors"] for one in answer["configs"] if one["value"]["errors"]}
    assert not errors.keys() - {"transforms.head.operation"}
    worker.request("POST", "/connectors", {"name": "chained", "config": {**debezium_config(database, prefix), **chain}})
    eventually(lambda: topic.end() == ROWS, 120, worker.log)
    told = [json.loads(value)["payload"] for value in topic.values()]
    assert told == [{"id": number, "op": "r"} for number in range(1, ROWS + 1)]
    assert "the transforms in the Java host are: route, unwrap, head, those on Spark: name;" in worker.log()
    database.execute("DELETE FROM orders WHERE id = 2")
    database.execute("INSERT INTO orders VALUES (9001, 'new', 1, now(), now())")
    eventually(lambda: topic.end() == ROWS + 2, 60, lambda: (topic.values()[ROWS:], worker.log()))
    last = [json.loads(value)["payload"] for value in topic.values()[ROWS:]]
    assert last == [None, {"id": 9001, "op": "c"}]


@pytest.mark.soak
def test_signals_heartbeats_and_a_new_column_come_through_and_the_database_may_be_killed(
    broker: str, server: PostgresqlServer, database: Database, worker: WorkerProcess
) -> None:
    prefix = f"db{uuid.uuid4().hex[:8]}"
    topic, beats = Topic(broker, "orders"), Topic(broker, "beats")
    topic.name, beats.name = f"{prefix}.public.orders", f"__debezium-heartbeat.{prefix}"
    for one in (topic, beats):
        one.create()
    database.execute("CREATE TABLE signals (id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048))")
    config = debezium_config(database, prefix) | {
        "table.include.list": "public.orders,public.signals",
        "signal.data.collection": "public.signals",
        "heartbeat.interval.ms": "500",
    }

    def signal(identity: str, kind: str, data: str) -> None:
        insert = "INSERT INTO signals VALUES (:identity, :kind, :data)"
        database.execute(insert, identity=identity, kind=kind, data=data)

    def read() -> list[int]:
        return [row for operation, row in filter(None, changes(topic)) if operation == "r"]

    worker.request("POST", "/connectors", {"name": "signalled", "config": config})
    eventually(lambda: len(read()) == ROWS, 120, worker.log)
    eventually(lambda: beats.end() > 2, 60, worker.log)
    assert json.loads(beats.values()[0])["payload"]["ts_ms"] > 0

    signal("one", "log", '{"message": "a signal at {}"}')
    eventually(lambda: "a signal at" in worker.log(), 60, worker.log)
    signal("two", "execute-snapshot", '{"type": "incremental", "data-collections": ["public.orders"]}')
    eventually(lambda: len(read()) == 2 * ROWS, 120, worker.log)
    assert sorted(read()[ROWS:]) == list(range(1, ROWS + 1))

    database.execute("ALTER TABLE orders ADD COLUMN note text DEFAULT 'plain'")
    database.execute("INSERT INTO orders VALUES (9001, 'new', 1, now(), now())")
    eventually(lambda: ("c", 9001) in changes(topic), 60, worker.log)
    (added,) = (row for row in map(json.loads, filter(None, topic.values())) if row["payload"]["op"] == "c")
    assert added["payload"]["after"]["note"] == "plain"

    server.kill()
    server.start()
    database.execute("INSERT INTO orders VALUES (9002, 'after the database', 1, now(), now())")
    eventually(lambda: ("c", 9002) in changes(topic), 120, worker.log)
    seen = beats.end()
    eventually(lambda: beats.end() > seen, 60, worker.log)
    assert len(read()) == 2 * ROWS, "no further snapshot"


def test_snapshot_stream_and_restarts_lose_nothing(broker: str, database: Database, worker: WorkerProcess) -> None:
    prefix = f"db{uuid.uuid4().hex[:8]}"
    topic = Topic(broker, "orders")
    topic.name = f"{prefix}.public.orders"
    topic.create()
    wrong = debezium_config(database, prefix) | {"name": "orders", "database.port": "1"}
    answer = worker.request("PUT", "/connector-plugins/PostgresConnector/config/validate", wrong).json()
    errors = {one["value"]["name"]: one["value"]["errors"] for one in answer["configs"] if one["value"]["errors"]}
    assert "Error while validating connector config" in errors["database.hostname"][0]
    worker.request("POST", "/connectors", {"name": "orders", "config": debezium_config(database, prefix)})
    eventually(lambda: topic.end() == ROWS, 120, worker.log)
    assert changes(topic) == [("r", number) for number in range(1, ROWS + 1)]
    schema = json.loads(topic.values()[0])["schema"]
    assert schema["name"] == f"{prefix}.public.orders.Envelope"
    at = next(one for one in schema["fields"][1]["fields"] if one["field"] == "at")
    assert at["name"] == "io.debezium.time.ZonedTimestamp"

    database.execute("INSERT INTO orders VALUES (9001, 'new', 1, now(), now())")
    database.execute("UPDATE orders SET price = 2 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    eventually(lambda: topic.end() == ROWS + 4, 60, worker.log)
    assert changes(topic)[ROWS:] == [("c", 9001), ("u", 1), ("d", None), None]
    eventually(lambda: worker.offsets("orders"), 60)
    (stored,) = worker.offsets("orders")
    assert stored["partition"] == {"server": prefix}
    assert stored["offset"]["lsn"] > 0

    metric = "debezium_postgres_connector_metrics_TotalNumberOfCreateEventsSeen"
    shown = worker.request("GET", "/metrics").text.splitlines()
    assert f'{metric}{{context="streaming",server="{prefix}"}} 1.0' in shown
    assert re.search(r" INFO \[orders\|task-0\] .* \(io\.debezium\.[\w.]+:\d+\)\n", worker.log())
    worker.request("PUT", "/admin/loggers/io.debezium", {"level": "DEBUG"})
    eventually(lambda: re.search(r" DEBUG \[orders\|task-0\] .* \(io\.debezium\.", worker.log()), 60)
    worker.request("PUT", "/admin/loggers/io.debezium", {"level": "INFO"})

    running = hosts(worker)[0]
    running.kill()
    psutil.wait_procs([running], 60)
    database.execute("INSERT INTO orders VALUES (9002, 'after the host', 1, now(), now())")
    eventually(lambda: ("c", 9002) in changes(topic), 120, worker.log)

    worker.kill()
    database.execute("INSERT INTO orders VALUES (9003, 'after the worker', 1, now(), now())")
    worker.kill_family()
    worker.start()
    worker.wait_ready(180)
    worker.request("POST", "/connectors", {"name": "orders", "config": debezium_config(database, prefix)})
    eventually(lambda: ("c", 9003) in changes(topic), 120, worker.log)
    created = [row for one in changes(topic) if one and one[0] == "c" for row in one[1:]]
    assert sorted(set(created)) == [9001, 9002, 9003]
    assert list(dict.fromkeys(created)) == [9001, 9002, 9003]
    assert len([one for one in changes(topic) if one and one[0] == "r"]) == ROWS, "no second snapshot"
