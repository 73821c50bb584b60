"""The settings of the mirror connectors' clients: MirrorMaker's prefixes, layers and client ids."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from headrace.config.problems import ConfigError
from headrace.connectors.mirror.clients import MirrorClients, admin_client

BASE = {
    "name": "m",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.bootstrap.servers": "127.0.0.1:2",
}
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="geheim";'


def test_a_later_layer_wins() -> None:
    config = {
        **BASE,
        "source.cluster.security.protocol": "SSL",
        "source.cluster.max.poll.records": "7",
        "consumer.max.poll.records": "8",
        "consumer.fetch.min.bytes": "9",
        "source.consumer.fetch.min.bytes": "10",
        "target.consumer.fetch.min.bytes": "11",
        "consumer.poll.timeout.ms": "12",
    }
    java = MirrorClients(config).source_consumer("replication-consumer").java
    assert java == {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SSL",
        "max.poll.records": "8",
        "fetch.min.bytes": "10",
        "client.id": "A->B|m|replication-consumer",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": "false",
        "group.id": "A->B|m",
    }
    other = MirrorClients(config).target_consumer("checkpoints-target-consumer")
    assert (other["fetch.min.bytes"], other["security.protocol"]) == (11, "PLAINTEXT")
    assert other["bootstrap.servers"] == ["127.0.0.1:2"]


def test_consumers_never_commit_and_begin_where_they_are_told() -> None:
    config = {
        **BASE,
        "consumer.enable.auto.commit": "true",
        "consumer.allow.auto.create.topics": "true",
        "source.consumer.auto.offset.reset": "latest",
    }
    java = MirrorClients(config).source_consumer("replication-consumer").java
    assert (java["enable.auto.commit"], java["allow.auto.create.topics"]) == ("false", "false")
    assert java["auto.offset.reset"] == "latest"


def test_client_ids_are_mirrormakers() -> None:
    config = {**BASE, "task.index": "3", "producer.client.id": "mine"}
    clients = MirrorClients(config)
    assert clients.source_producer("offset-syncs-source-producer").java["client.id"] == (
        "mine|A->B|m-3|offset-syncs-source-producer"
    )
    assert clients.target_admin("heartbeats-target-admin").java["client.id"] == "A->B|m-3|heartbeats-target-admin"


def test_each_library_takes_them() -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": LOGIN}
    secure = {f"{cluster}.cluster.{key}": value for cluster in ("source", "target") for key, value in login.items()}
    clients = MirrorClients({**BASE, **secure, "producer.buffer.memory": "1048576"})
    Producer(clients.target_producer("x").librdkafka())
    consumer = Consumer(clients.source_consumer("x").librdkafka(1 << 20))
    consumer.close()
    first = admin_client(clients.source_admin("replication-source-admin"))
    assert admin_client(clients.source_admin("checkpoint-source-admin")) is first
    assert admin_client(clients.target_admin("x")) is not first
    kwargs = clients.target_admin("x").kafka_python()
    assert (kwargs["sasl_plain_username"], kwargs["security_protocol"]) == ("u", "SASL_PLAINTEXT")


def test_problems_name_the_connectors_keys() -> None:
    config = {
        **BASE,
        "target.cluster.ssl.keystore.location": "/nowhere.jks",
        "target.cluster.security.protocol": "SSL",
        "source.consumer.fetch.min.bytes": "-1",
        "consumer.interceptor.classes": "org.example.I",
    }
    del config["source.cluster.bootstrap.servers"]
    clients = MirrorClients(config)
    with pytest.raises(ConfigError) as refused:
        clients.source_admin("x")
    assert [problem.key for problem in refused.value.problems] == ["source.cluster.bootstrap.servers"]
    clients = MirrorClients({**config, "source.cluster.bootstrap.servers": "127.0.0.1:1"})
    found = clients.problems(("source", "consumer"), ("target", "consumer"), ("target", "admin"))
    assert [problem.key for problem in found] == [
        "source.consumer.fetch.min.bytes",
        "consumer.interceptor.classes",
        "target.cluster.ssl.keystore.location",
    ]
