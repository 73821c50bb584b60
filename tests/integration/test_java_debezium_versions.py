"""Debezium's PostgreSQL connectors of three major versions, from their jars, with a broker of Kafka 4.4."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.databases import Database, PostgresqlServer
from tests.integration.java_plugins import debezium_config, debezium_of_all_times
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.database, pytest.mark.long]

VERSIONS = ("1.9.7.Final", "2.7.4.Final", "3.5.0.Final")


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A database with one order, whose changes can be followed."""
    with PostgresqlServer(options=["-c", "wal_level=logical"]) as server, server.database() as found:
        found.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)", "INSERT INTO orders VALUES (1, 'first')")
        yield found
        eventually(lambda: not found.value("SELECT count(*) FROM pg_replication_slots WHERE active"), 60)


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`bootstrap.servers` of a broker of Kafka 4.4."""
    with Broker(tmp_path_factory.mktemp("kafka"), version="4.4.0") as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def worker(newest: str, database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker with the three versions on its plugin.path; it ends before the database does."""
    folder = tmp_path_factory.mktemp("versions")
    settings = {"plugin.path": str(debezium_of_all_times(folder))}
    with WorkerProcess(folder / "worker", newest, settings=settings) as worker:
        yield worker.wait_ready(180)


@pytest.mark.soak
def test_each_version_validates_and_reads_the_table_and_a_change(
    newest: str, worker: WorkerProcess, database: Database
) -> None:
    """They were built for Kafka 2.8, 3.7 and 4.x; each has classes of its own."""
    topics = {}
    for version in VERSIONS:
        prefix = f"v{version[0]}"
        config = {**debezium_config(database, prefix), "slot.name": prefix, "publication.name": prefix}
        config |= {"name": prefix, "connector.plugin.version": f"[{version}]", "database.server.name": prefix}
        answer = worker.request("PUT", "/connector-plugins/PostgresConnector/config/validate", config).json()
        assert [one["value"] for one in answer["configs"] if one["value"]["errors"]] == []
        old = {one["definition"]["name"] for one in answer["configs"] if one["definition"]}
        assert ("topic.prefix" in old) is (version[0] != "1")
        worker.request("POST", "/connectors", {"name": prefix, "config": config})
        topics[version] = Topic(newest, "orders")
        topics[version].name = f"{prefix}.public.orders"
        topics[version].create()
    for version, topic in topics.items():
        eventually(lambda topic=topic: topic.end() == 1, 120, worker.log)
        status = worker.get(f"/connectors/v{version[0]}/status")
        assert status["connector"]["version"] == version
    database.execute("INSERT INTO orders VALUES (2, 'second')")
    for topic in topics.values():
        eventually(lambda topic=topic: topic.end() == 2, 60, worker.log)
        read = [json.loads(value)["payload"] for value in topic.values()]
        assert [(one["op"], one["after"]) for one in read] == [
            ("r", {"id": 1, "item": "first"}),
            ("c", {"id": 2, "item": "second"}),
        ]
