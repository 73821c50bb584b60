from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer

from headrace.config.connector.clients import internal_admin, internal_consumer, internal_producer, leader_producer
from headrace.config.worker.config import WorkerConfig

TOPICS = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
BASE = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "g",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
    **TOPICS,
}


def worker(**props: str) -> WorkerConfig:
    return WorkerConfig.distributed({**BASE, **{key.replace("_", "."): value for key, value in props.items()}})


def test_client_ids_are_apaches() -> None:
    for client_id, base in (("", "g-"), ("w1", "g-w1-")):
        named = worker(client_id=client_id) if client_id else worker()
        assert internal_consumer(named, "configs")["client.id"] == f"{base}configs"
        assert internal_producer(named, "statuses")["client.id"] == f"{base}statuses"
        assert internal_admin(named)["client.id"] == f"{base}shared-admin"


def test_what_is_not_prefixed_reaches_them_and_what_is_does_not() -> None:
    given = worker(
        **{"retry.backoff.ms": "7", "producer.linger.ms": "3", "consumer.fetch.max.wait.ms": "3", "admin.retries": "3"},
        **{"session.timeout.ms": "400000", "heartbeat.interval.ms": "9", "compression.type": "gzip"},
    )
    assert internal_consumer(given, "offsets").java == {
        "bootstrap.servers": "127.0.0.1:1",
        "client.id": "g-offsets",
        "group.id": "g",
        "retry.backoff.ms": "7",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": "false",
    }
    assert "retries" not in internal_admin(given).java
    assert internal_producer(given, "offsets").java == {
        "bootstrap.servers": "127.0.0.1:1",
        "client.id": "g-offsets",
        "retry.backoff.ms": "7",
        "compression.type": "gzip",
        "linger.ms": "0",
        "acks": "all",
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "partitioner.ignore.keys": "false",
        "delivery.timeout.ms": "2147483647",
    }


def test_what_keeps_records_safe_cannot_be_overridden() -> None:
    given = worker(**{"acks": "0", "enable.idempotence": "true", "delivery.timeout.ms": "1", "transactional.id": "t"})
    config = internal_producer(given, "configs")
    assert (config["acks"], config["enable.idempotence"], config["transactional.id"]) == ("all", False, None)
    assert config["delivery.timeout.ms"] == 2_147_483_647
    assert internal_producer(given, "statuses")["retries"] == 0
    Producer(config.librdkafka(1 << 20))
    Consumer(internal_consumer(given, "configs").librdkafka(1 << 20)).close()


def test_exactly_once_workers_read_what_is_committed(caplog: pytest.LogCaptureFixture) -> None:
    plain = worker(**{"isolation.level": "read_uncommitted"})
    exact = replace(plain, values={**plain.values, "exactly.once.source.support": "enabled"})
    assert internal_consumer(plain, "configs")["isolation.level"] == "read_uncommitted"
    assert internal_consumer(exact, "statuses")["isolation.level"] == "read_uncommitted"
    assert caplog.text == ""
    assert internal_consumer(exact, "configs")["isolation.level"] == "read_committed"
    assert (
        "The value 'read_uncommitted' for the 'isolation.level' property will be ignored as it cannot be overridden "
        "for the worker's config topic consumer when exactly-once source support is enabled. "
        "The value 'read_committed' will be used instead."
    ) in caplog.text


def test_the_leaders_transactions_are_short_unless_the_properties_say_how_long() -> None:
    for given, ms in ((worker(), 10_000), (worker(transaction_timeout_ms="30000"), 30_000)):
        made = leader_producer(given)
        assert (made["transactional.id"], made["transaction.timeout.ms"]) == ("connect-cluster-g", ms)
        config = made.librdkafka(1 << 20)
        assert config["transaction.timeout.ms"] == ms
        Producer(config)
