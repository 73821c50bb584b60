"""A database's password is changed while a connector runs: its tasks start anew with the one that the file has then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.databases import Database
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.database, pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def rotating(broker_process: Broker, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A worker that reads variables from files."""
    settings = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "task.restart.backoff.ms": "200",
        "task.restart.backoff.max.ms": "1000",
    }
    with WorkerProcess(tmp_path, broker_process.bootstrap_servers, settings=settings) as worker:
        yield worker.wait_ready()


def test_a_changed_password_is_read_anew(
    rotating: WorkerProcess, broker_process: Broker, postgresql: Database, tmp_path: Path
) -> None:
    topic, secret = Topic(broker_process.bootstrap_servers, "rotated"), tmp_path / "login.properties"
    secret.write_text("password=old\n")
    name = topic.name
    postgresql.execute(
        f'CREATE TABLE "{name}" (id integer PRIMARY KEY)', f'INSERT INTO "{name}" VALUES (1)',
        "CREATE ROLE rotated LOGIN PASSWORD 'old'", f'GRANT SELECT ON "{name}" TO rotated',
    )  # fmt: skip
    config = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector", "mode": "incrementing",
        "incrementing.column.name": "id", "table.whitelist": name, "poll.interval.ms": "50",
        **postgresql.settings, "connection.user": "rotated", "connection.password": f"${{file:{secret}:password}}",
    }  # fmt: skip
    try:
        rotating.create(name, **config)
        eventually(lambda: topic.end() == 1, 60, rotating.log)
        postgresql.execute(
            "ALTER ROLE rotated PASSWORD 'new'",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'",
            f'INSERT INTO "{name}" VALUES (2)',
        )
        refused = "Check connection.user and connection.password"
        eventually(lambda: refused in rotating.trace(name), 60, rotating.log)
        secret.write_text("password=new\n")
        eventually(lambda: topic.end() == 2, 60, rotating.log)
        rotating.wait_states(name, "RUNNING")
        rotating.request("DELETE", f"/connectors/{name}")
    finally:
        postgresql.execute("DROP OWNED BY rotated", "DROP ROLE rotated")
