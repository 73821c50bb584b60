"""Replicator's configs between two real clusters: copies, offsets, groups, provenance, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from headrace.connectors.mirror.replicator.connector import sign
from headrace.worker.embedded.kafka_broker import Broker
from tests.container_broker import ContainerBroker
from tests.integration.copied_topics import commit, create, new_name, numbered, records_of, write
from tests.integration.worker_process import WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

BYTES = "io.confluent.connect.replicator.util.ByteArrayConverter"
HEADER = "headrace.provenance"


class Clusters(NamedTuple):
    """The source, and the destination, which is the worker's Kafka."""

    source: str
    target: str
    worker: WorkerProcess

    def config(self, topic: str, **more: str) -> dict[str, str]:
        """The config of a published demonstration."""
        return {
            "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "header.converter": BYTES,
            "src.kafka.bootstrap.servers": self.source,
            "dest.kafka.bootstrap.servers": self.target,
            "topic.whitelist": topic,
            "topic.rename.format": "${topic}",
            "confluent.license": "",
            "confluent.topic.bootstrap.servers": self.target,
            "confluent.topic.replication.factor": "1",
            "offset.topic.commit.batch.period.ms": "100",
            "topic.poll.interval.ms": "1000",
            "topic.config.sync.interval.ms": "1000",
            **{name.replace("__", "."): value for name, value in more.items()},
        }

    def start(self, name: str, config: dict[str, str]) -> None:
        """The connector runs."""
        answer = self.worker.http.put(f"/connectors/{name}/config", json=config)
        assert answer.status_code == 201, answer.text

    def arrived(self, topic: str, count: int, partition: int = 0, at: str = "") -> list[Any]:
        """The contents of the copy, once so many are there."""
        found = at or self.target
        eventually(lambda: len(records_of(found, topic, partition)) >= count, 120, self.worker.log)
        return [one.content for one in records_of(found, topic, partition)]


@pytest.fixture
def clusters(
    broker_process: Broker | ContainerBroker, second_broker_process: Broker, worker: WorkerProcess
) -> Clusters:
    return Clusters(second_broker_process.bootstrap_servers, broker_process.bootstrap_servers, worker)


@pytest.fixture
def topic(clusters: Clusters) -> Iterator[str]:
    """A topic of three partitions at the source, whose name is also the connector's."""
    name = create(clusters.source, new_name("replicated"), 3, {"cleanup.policy": "compact,delete"})
    yield name
    clusters.worker.http.delete(f"/connectors/{name}")


def test_a_published_config_copies_a_topic(clusters: Clusters, topic: str) -> None:
    for partition in range(3):
        write(clusters.source, topic, map(numbered, range(partition, partition + 50)), partition)
    clusters.start(topic, clusters.config(topic))
    for partition in range(3):
        copied = clusters.arrived(topic, 50, partition)
        assert copied == [one.content for one in records_of(clusters.source, topic, partition)]
    assert policy_of(clusters.target, topic) == "compact,delete"
    offsets = {
        json.dumps(one["partition"], sort_keys=True): one["offset"]["offset"]
        for one in eventually_offsets(clusters, topic)
    }
    assert offsets == {json.dumps({"partition": number, "topic": topic}): 49 for number in range(3)}
    eventually(lambda: committed(clusters.source, topic, topic) == [50, 50, 50], 60, clusters.worker.log)
    assert clusters.worker.http.delete(f"/connectors/{topic}").status_code == 204


def policy_of(bootstrap: str, topic: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_configs([resource])[resource].result(60)
    return str(found["cleanup.policy"].value)


def eventually_offsets(clusters: Clusters, name: str) -> list[Any]:
    """The stored offsets of all three partitions."""

    def stored() -> list[Any]:
        found: list[Any] = clusters.worker.offsets(name)
        return found

    eventually(lambda: len(stored()) == 3, 60, clusters.worker.log)
    return stored()


def committed(bootstrap: str, group: str, topic: str) -> list[int]:
    """The group's offsets of three partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        asked = [TopicPartition(topic, number) for number in range(3)]
        return [one.offset for one in consumer.committed(asked, timeout=60)]
    finally:
        consumer.close()


def test_a_group_says_where_to_begin_and_the_copy_has_another_name(clusters: Clusters, topic: str) -> None:
    write(clusters.source, topic, map(numbered, range(50)))
    commit(clusters.source, f"{topic}-before", topic, 40)
    more = {"src.consumer.group.id": f"{topic}-before", "topic.rename.format": "${topic}.replica"}
    clusters.start(topic, {**clusters.config(topic), "offset.start": "consumer", **more})
    copied = clusters.arrived(f"{topic}.replica", 10)
    assert copied == [numbered(number).content for number in range(40, 50)]


def test_offsets_of_a_replicator_are_continued(clusters: Clusters, topic: str) -> None:
    write(clusters.source, topic, map(numbered, range(50)))
    stopped = {"name": topic, "config": clusters.config(topic), "initial_state": "STOPPED"}
    assert clusters.worker.request("POST", "/connectors", stopped).status_code == 201
    theirs = {"partition": {"topic": topic, "partition": 0}, "offset": {"offset": 30}}
    clusters.worker.request("PATCH", f"/connectors/{topic}/offsets", {"offsets": [theirs]})
    clusters.worker.request("PUT", f"/connectors/{topic}/resume")
    assert clusters.arrived(topic, 20) == [numbered(number).content for number in range(30, 50)]
    for number in range(50, 60):
        write(clusters.source, topic, [numbered(number)])
    assert clusters.arrived(topic, 30) == [numbered(number).content for number in range(30, 60)]


def test_with_provenance_two_flows_keep_names_and_nothing_goes_round(clusters: Clusters, topic: str) -> None:
    back = f"{topic}-back"
    create(clusters.target, topic, 3)
    write(clusters.source, topic, (numbered(number)._replace(headers=(("own", b"1"),)) for number in range(20)))
    write(clusters.target, topic, map(numbered, range(100, 120)))
    marked = clusters.config(topic, provenance__header__enable="true")
    other_way = {"src.kafka.bootstrap.servers": clusters.target, "dest.kafka.bootstrap.servers": clusters.source}
    clusters.start(topic, marked)
    clusters.start(back, {**marked, **other_way, "producer.override.bootstrap.servers": clusters.source})
    try:
        for at in (clusters.source, clusters.target):
            clusters.arrived(topic, 40, at=at)
        write(clusters.source, topic, [numbered(200)])
        write(clusters.target, topic, [numbered(201)])
        for at in (clusters.source, clusters.target):
            values = sorted(one[1] for one in clusters.arrived(topic, 42, at=at))
            assert values == sorted(numbered(n).value or b"" for n in (*range(20), *range(100, 120), 200, 201))
        copied = [one for one in records_of(clusters.target, topic) if one.value == numbered(3).value]
        assert [[name for name, _ in one.headers] for one in copied] == [["own", HEADER]]
        origin = dict(copied[0].headers)[HEADER] or b""
        assert origin.endswith(f"/{topic}".encode())
        assert {*clusters.worker.states(topic), *clusters.worker.states(back)} == {"RUNNING"}
    finally:
        clusters.worker.http.delete(f"/connectors/{back}")
        opposite = sign(str(AdminClient({"bootstrap.servers": clusters.target}).list_topics(timeout=60).cluster_id))
        at_source = AdminClient({"bootstrap.servers": clusters.source})
        eventually(lambda: opposite in at_source.list_topics(timeout=60).topics, 60, clusters.worker.log)
        at_source.delete_topics([opposite])[opposite].result(60)  # other tests have flows without provenance


def test_a_destination_that_is_not_the_workers_kafka_is_refused(clusters: Clusters, topic: str) -> None:
    create(clusters.target, topic, 1)
    write(clusters.target, topic, [numbered(1)])
    other_way = {"src.kafka.bootstrap.servers": clusters.target, "dest.kafka.bootstrap.servers": clusters.source}
    clusters.start(topic, {**clusters.config(topic, topic__rename__format="${topic}.copy"), **other_way})
    clusters.worker.wait_states(topic, "FAILED")
    assert "producer.override.bootstrap.servers" in clusters.worker.trace(topic)


def test_a_preview_shows_what_would_be_copied(clusters: Clusters, topic: str) -> None:
    write(clusters.source, topic, map(numbered, range(5)))
    config = {"name": topic, **clusters.config(topic, provenance__header__enable="true")}
    answer = clusters.worker.http.put("/connector-plugins/ReplicatorSource/config/preview", json=config)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["records"]) == 5
