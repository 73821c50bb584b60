"""Debezium's MariaDB connector from its jars, on a server that is written to while connector, host and server end."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from sqlalchemy.exc import DBAPIError

from tests.integration.databases import Database, MariadbServer
from tests.integration.java_plugins import debezium_mariadb, hosts
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.database, pytest.mark.long]

ROWS = 500
BINLOG = ("--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL", "--server-id=1")


class Traffic:
    """Transactions as long as this is entered: each makes a row of `orders` and changes row 1 to the row's number."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        number = ROWS
        while not self._ended.wait(0.05):
            number += 1  # also after a failure: whether it was committed only the table knows
            try:
                self._database.execute(
                    f"INSERT INTO orders (id, item) VALUES ({number}, 'new')",
                    f"UPDATE orders SET latest = {number} WHERE id = 1",
                )
            except DBAPIError:
                continue


@pytest.fixture
def server() -> Iterator[MariadbServer]:
    """A server whose changes can be followed."""
    with MariadbServer(options=BINLOG) as found:
        yield found


@pytest.fixture
def database(server: MariadbServer) -> Iterator[Database]:
    """One of its databases, with a large table and one of many types."""
    with server.database() as found:
        found.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, item varchar(40), latest int)",
            f"INSERT INTO orders SELECT seq, concat('item ', seq), NULL FROM seq_1_to_{ROWS}",
            "CREATE TABLE kinds (id bigint unsigned PRIMARY KEY, price decimal(10,2), ratio double, flag boolean, "
            "size enum('S','M'), at datetime(3), since timestamp NULL, day date, clock time(6), data json, raw blob)",
            "INSERT INTO kinds VALUES (7, 12.50, 0.25, true, 'M', '2026-01-02 03:04:05.678', NULL, '1969-12-31', "
            """'12:00:00.000001', '{"a": [1]}', x'00ff')""",
        )
        yield found


def config(database: Database, broker: str, prefix: str) -> dict[str, str]:
    url = database.url
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(url.port),
        "database.user": str(url.username),
        "database.password": str(url.password),
        "database.server.id": "4711",
        "database.include.list": str(url.database),
        "topic.prefix": prefix,
        "schema.history.internal.kafka.bootstrap.servers": broker,
        "schema.history.internal.kafka.topic": f"{prefix}-history",
        "poll.interval.ms": "50",
        "connect.keep.alive.interval.ms": "500",
        "retriable.restart.connector.wait.ms": "500",
    }


class Changes:
    """The changes that a topic has told so far, without tombstones; it may still be written to."""

    def __init__(self, topic: Topic) -> None:
        self._consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "look"})
        self._consumer.assign([TopicPartition(topic.name, 0, 0)])
        self._found: list[Any] = []

    def read(self) -> list[Any]:
        """All payloads, with what has come since the last call."""
        messages = self._consumer.consume(10_000, 0.2)
        self._found += [json.loads(value)["payload"] for one in messages if not one.error() and (value := one.value())]
        return self._found

    def created(self) -> list[int]:
        """The rows that were made, as they came."""
        return [one["after"]["id"] for one in self.read() if one["op"] == "c"]


@pytest.mark.soak
def test_a_server_in_use_is_followed_through_a_change_of_its_schema_and_kills(
    broker: str, tmp_path: Path, server: MariadbServer, database: Database
) -> None:
    schema_changes, events = Topic(broker, "maria"), Topic(broker, "maria")
    prefix = schema_changes.name
    topic, kinds, history = (Topic(broker, "maria") for _ in range(3))
    topic.name, kinds.name = (f"{prefix}.{database.url.database}.{table}" for table in ("orders", "kinds"))
    history.name = f"{prefix}-history"
    for one in (topic, kinds):
        one.create()
    changes = Changes(topic)

    def last_id() -> int:
        return int(database.value("SELECT max(id) FROM orders"))

    def follow() -> None:
        """Wait until all that is written by now has come."""
        number = last_id()
        eventually(lambda: number <= max(changes.created(), default=0), 120, worker.log)

    settings = {"plugin.path": str(debezium_mariadb(tmp_path)), "task.restart.backoff.ms": "200"}
    with WorkerProcess(tmp_path / "worker", broker, settings=settings) as worker:
        worker.wait_ready(180)
        wrong = config(database, broker, prefix) | {"name": "orders", "database.port": "1"}
        answer = worker.request("PUT", "/connector-plugins/MariaDbConnector/config/validate", wrong).json()
        errors = {one["value"]["name"]: one["value"]["errors"] for one in answer["configs"] if one["value"]["errors"]}
        assert errors.keys() == {"database.hostname"}
        assert "Unable to connect" in errors["database.hostname"][0]

        as_events = config(database, broker, events.name) | {
            "database.server.id": "4712",
            "table.include.list": f"{database.url.database}.kinds",
            "include.schema.changes": "false",
            "transforms": "route",
            "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.route.regex": ".*",
            "transforms.route.replacement": events.name,
            "value.converter": "io.debezium.converters.CloudEventsConverter",
        }
        worker.request("POST", "/connectors", {"name": "events", "config": as_events})
        eventually(lambda: events.end() == 1, 120, worker.log)
        event = json.loads(events.values()[0])
        assert (event["specversion"], event["iodebeziumop"]) == ("1.0", "r")
        assert event["data"]["payload"]["after"]["id"] == 7
        worker.request("DELETE", "/connectors/events")

        assert "nothing reads" not in worker.log(), "settings of the schema history are not declared, but read"

        with Traffic(database):
            worker.request("POST", "/connectors", {"name": "orders", "config": config(database, broker, prefix)})
            eventually(lambda: len(changes.created()) > 5, 120, worker.log)
            before = last_id()
            database.execute("ALTER TABLE orders ADD COLUMN note varchar(20) DEFAULT 'plain'")
            after = last_id()
            database.execute("DELETE FROM orders WHERE id = 2")
            follow()
            (stored,) = worker.offsets("orders")
            assert stored["partition"] == {"server": prefix}
            assert stored["offset"]["file"].startswith("binlog.")
            metric = "debezium_mariadb_connector_metrics_TotalNumberOfDeleteEventsSeen"
            shown = worker.request("GET", "/metrics").text.splitlines()
            assert f'{metric}{{context="streaming",server="{prefix}"}} 1.0' in shown

            worker.request("POST", "/connectors/orders/restart?includeTasks=true")
            follow()
            (running,) = hosts(worker)
            running.kill()
            psutil.wait_procs([running], 60)
            follow()
            server.kill()
            server.start()
            follow()
        follow()
        (at,) = worker.offsets("orders")
        assert at["offset"]["pos"] > 0
        assert at["offset"] != stored["offset"]

    found = changes.read()
    read = [one["after"]["id"] for one in found if one["op"] == "r"]
    assert read == list(range(1, len(read) + 1)), "one snapshot, whole and in order"
    numbers = [number for (number,) in database.rows(f"SELECT id FROM orders WHERE id > {len(read)} ORDER BY id")]
    assert list(dict.fromkeys(changes.created())) == numbers
    told = [(one["op"], one["after"]["latest"] or one["after"]["id"]) for one in found if one["op"] in ("c", "u")]
    assert list(dict.fromkeys(told)) == [(op, number) for number in numbers for op in ("c", "u")]
    assert {one["before"]["id"] for one in found if one["op"] == "d"} == {2}
    notes = {one["after"]["id"]: one["after"].get("note", "no such column") for one in found if one["op"] == "c"}
    assert {notes[number] for number in notes if number <= before} == {"no such column"}
    assert {notes[number] for number in notes if number > after} == {"plain"}

    (value,) = kinds.values()
    row = json.loads(value)["payload"]["after"]
    assert Decimal(int.from_bytes(base64.b64decode(row.pop("price")), "big")).scaleb(-2) == Decimal("12.50")
    assert row == {
        "id": 7,
        "ratio": 0.25,
        "flag": 1,
        "size": "M",
        "at": 1_767_323_045_678,
        "since": None,
        "day": -1,
        "clock": 43_200_000_001,
        "data": '{"a": [1]}',
        "raw": "AP8=",
    }
    assert any("ADD COLUMN note" in json.loads(value)["payload"]["ddl"] for value in schema_changes.values())
    assert any("ADD COLUMN note" in json.loads(value).get("ddl", "") for value in history.values())
