"""Overrides may not name what belongs to others in Kafka, neither at a validation nor at a start."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from headrace.config.connector.clients import admin, override_problems, sink_consumer, source_producer
from headrace.config.connector.foreign_names import foreign_names
from headrace.config.kafka.client_config import ClientConfig
from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig

DISTRIBUTED = {
    "bootstrap.servers": "127.0.0.1:1",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
    "group.id": "workers",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "trusted.connectors": "backup-*",
}
WORKER = WorkerConfig.distributed(DISTRIBUTED)
Make = Callable[[WorkerConfig, Mapping[str, str], int], ClientConfig]


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("group.id", "connect-victim", True),
        ("group.id", "\x00 connect-victim ", True),
        ("group.id", "connect-team-a-2", True),
        ("group.id", "connect-team-a", False),
        ("group.id", "team", False),
        ("client.id", "connector-producer-victim-0", True),
        ("client.id", "connector-consumer-team-a-0-0", True),
        ("client.id", "connector-dlq-producer-team-0", True),
        ("client.id", "connector-dlq-consumer-team", True),
        ("client.id", "connector-worker-adminclient-victim", True),
        ("client.id", "workers-configs-leader", True),
        ("client.id", "workers-host-statuses", True),
        ("client.id", "connect-127.0.0.1:8083", True),
        ("client.id", "__admin_client", True),
        ("client.id", "connector-consumer-team-a-0", False),
        ("client.id", "connector-worker-adminclient-team-a", False),
        ("client.id", "reporting", False),
        ("transactional.id", "workers-victim-0", True),
        ("transactional.id", "connect-cluster-workers", True),
        ("transactional.id", "workers-team-a-0", False),
        ("transactional.id", "mine", False),
    ],
)
def test_what_is_anothers(key: str, value: str, refused: bool) -> None:
    assert [problem.key for problem in foreign_names({key: value}, "team-a", WORKER.values)] == [key] * refused
    assert foreign_names({key: value}, "backup-a", WORKER.values) == []


def test_the_workers_group_is_for_no_connector() -> None:
    for name in ("team-a", "backup-a"):
        (problem,) = foreign_names({"group.id": "workers"}, name, WORKER.values)
        assert problem.message == "Consumer group workers conflicts with Connect worker group workers"


@pytest.mark.parametrize(
    ("kind", "make", "key", "value"),
    [
        ("consumer", sink_consumer, "group.id", "connect-victim"),
        ("producer", source_producer, "client.id", "connector-producer-victim-0"),
        ("admin", admin, "client.id", "workers-shared-admin"),
    ],
)
def test_validation_and_start_refuse_it(kind: str, make: Make, key: str, value: str) -> None:
    config = {"name": "team-a", f"{kind}.override.{key}": value}
    (problem,) = override_problems(kind, config, WORKER)
    assert problem.key == f"{kind}.override.{key}"
    assert "trusted.connectors" in problem.message
    with pytest.raises(ConfigError, match=rf"{kind}\.override\.{key}"):
        make(WORKER, config, 0)


@pytest.mark.parametrize(
    ("kind", "make"), [("consumer", sink_consumer), ("producer", source_producer), ("admin", admin)]
)
def test_a_start_heeds_the_policy_too(kind: str, make: Make) -> None:
    strict = WorkerConfig.distributed({**DISTRIBUTED, "connector.client.config.override.policy": "None"})
    config = {"name": "team-a", f"{kind}.override.reconnect.backoff.ms": "60"}
    make(WORKER, config, 0)
    with pytest.raises(ConfigError, match="The 'None' policy does not allow"):
        make(strict, config, 0)
