"""Debezium's JDBC sink from its jars: rows of several types, changes, deletes, and a host that is killed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.databases import Database
from tests.integration.java_plugins import DEBEZIUM_SINK, debezium_sink, hosts
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.database, pytest.mark.long]

KEY = {"type": "struct", "optional": False, "fields": [{"field": "id", "type": "int32", "optional": False}]}
VALUE = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int32", "optional": False},
        {"field": "item", "type": "string", "optional": True},
        {
            "field": "price",
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        },
        {"field": "day", "type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1},
        {
            "field": "at",
            "type": "int64",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Timestamp",
            "version": 1,
        },
    ],
}


def row(number: int, item: str | None) -> dict[str, Any]:
    return {"id": number, "item": item, "price": "AJY=", "day": 1, "at": 1_500}


def send(topic: Topic, begin: int, end: int, item: str | None = "first", deleted: bool = False) -> None:
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    for number in range(begin, end):
        key = json.dumps({"schema": KEY, "payload": {"id": number}})
        value = None if deleted else json.dumps({"schema": VALUE, "payload": row(number, item)})
        producer.produce(topic.name, value, key)
    assert producer.flush(60) == 0


@pytest.mark.soak
def test_a_topic_becomes_a_table(broker: str, postgresql: Database, tmp_path: Path) -> None:
    topic = Topic(broker, "java-orders")
    send(topic, 0, 1000)
    settings = {
        "plugin.path": str(debezium_sink(tmp_path)),
        "java.plugins.preferred": DEBEZIUM_SINK,
        "task.restart.backoff.ms": "200",
    }
    config = {
        "connector.class": DEBEZIUM_SINK,
        "topics": topic.name,
        "connection.url": postgresql.jdbc_url,
        "connection.username": str(postgresql.url.username),
        "connection.password": str(postgresql.url.password),
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": "orders",
    }
    with WorkerProcess(tmp_path / "worker", broker, settings=settings) as worker:
        worker.wait_ready(180)
        worker.request("POST", "/connectors", {"name": topic.name, "config": config})

        def count(where: str = "true") -> int:
            worker.wait_states(topic.name, "RUNNING", within_s=120)
            if not postgresql.rows("SELECT 1 FROM pg_tables WHERE tablename = 'orders'"):
                return 0
            return int(postgresql.value(f"SELECT count(*) FROM orders WHERE {where}"))

        eventually(lambda: count() == 1000, 120, worker.log)
        (found,) = postgresql.rows("SELECT id, item, price, day, at FROM orders WHERE id = 7")
        at = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
        *first, moment = found
        assert first == [7, "first", Decimal("1.50"), date(1970, 1, 2)]
        assert moment.replace(tzinfo=UTC) == at
        send(topic, 100, 200, "second")
        send(topic, 0, 100, deleted=True)
        eventually(lambda: (count(), count("item = 'second'")) == (900, 100), 60, worker.log)
        host = hosts(worker)[0]
        host.kill()
        send(topic, 1000, 1500)
        eventually(lambda: count() == 1400, 120, worker.log)
