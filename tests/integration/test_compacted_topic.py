"""`CompactedTopic` over a real broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import count
from typing import Literal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, NewTopic

from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.errors import StoppedError
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.errors import ConnectError, TimedOut
from headrace.worker.storage.compacted_topic import CompactedTopic, TopicRecord, TopicSettings

_numbers = count()
Kind = Literal["config", "offset", "status"]
Open = Callable[..., "Followed"]


class Followed(CompactedTopic):
    """A topic that remembers what it was given."""

    def __init__(self, settings: TopicSettings) -> None:
        self.records: list[TopicRecord] = []
        super().__init__(settings, self.records.append)

    def pairs(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self.records]


def worker(bootstrap: str, name: str, **props: str) -> WorkerConfig:
    return WorkerConfig.distributed(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-{name}",
            "key.converter": "JsonConverter",
            "value.converter": "JsonConverter",
            **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            **props,
        }
    )


@pytest.fixture
def name() -> str:
    return f"compacted-{next(_numbers)}"


@pytest.fixture
def open_topic(broker: str, name: str) -> Iterator[Open]:
    """Started topics of one cluster, stopped at the end."""
    opened: list[CompactedTopic] = []

    def open_(kind: Kind = "offset", **props: str) -> Followed:
        topic = Followed(TopicSettings.of(worker(broker, name, **props), kind))
        opened.append(topic)
        topic.start(60)
        return topic

    yield open_
    for topic in opened:
        topic.stop(0)


def made(bootstrap: str, topic: str, partitions: int, policy: str) -> None:
    admin = admin_client({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config={"cleanup.policy": policy})])[topic].result(60)


@pytest.mark.parametrize("kind", ["config", "offset", "status"])
def test_a_missing_topic_is_not_made_if_the_settings_say_so(
    broker: str, open_topic: Open, name: str, kind: Kind
) -> None:
    by_hand = {"internal.topics.automatic.creation.enable": "false"}
    with pytest.raises(ConfigError, match=rf"'{name}-{kind}' specified via the '{kind}.storage.topic' property is mis"):
        open_topic(kind, **by_hand)
    made(broker, f"{name}-{kind}", 1, "compact")
    topic = open_topic(kind, **by_hand)
    topic.send(b"k", b"v").result(60)
    topic.read_to_end(60)
    assert topic.pairs() == [(b"k", b"v")]


def test_the_topic_is_made_compacted_as_the_settings_say(broker: str, open_topic: Open, name: str) -> None:
    given = {"offset.storage.partitions": "3", "offset.storage.min.insync.replicas": "1"}
    topic = open_topic(**given, **{"offset.storage.segment.ms": "60001", "offset.storage.cleanup.policy": "delete"})
    resource = ConfigResource(ConfigResource.Type.TOPIC, f"{name}-offset")
    found = admin_client({"bootstrap.servers": broker}).describe_configs([resource])[resource].result(60)
    assert (found["cleanup.policy"].value, found["segment.ms"].value) == ("compact", "60001")
    assert topic.partitions == (0, 1, 2)


def test_brokers_that_are_too_few_are_waited_for_and_the_setting_is_named(broker: str, name: str) -> None:
    config = worker(broker, name, **{"offset.storage.replication.factor": "3"})
    topic = CompactedTopic(TopicSettings.of(config, "offset"), lambda record: None)
    with pytest.raises(TimedOut, match=r"Start the missing brokers, or set offset\.storage\.replication\.factor to a"):
        topic.start(3)
    topic.stop(0)


def test_what_is_sent_is_read_by_all_in_order(open_topic: Open) -> None:
    first = open_topic()
    first.send_all([(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"a", None)], 30)
    first.read_to_end(30)
    second = open_topic()
    for topic in (first, second):
        assert [pair for pair in topic.pairs() if pair[0] == b"a"] == [(b"a", b"1"), (b"a", b"3"), (b"a", None)]
        assert (b"b", b"2") in topic.pairs()
    second.send(b"c", b"4")
    second.read_to_end(30)  # what was sent from here counts, though nobody waited for it
    assert (b"c", b"4") in second.pairs()
    first.read_to_end(30)
    assert (b"c", b"4") in first.pairs()


def test_keys_go_where_javas_producer_puts_them(open_topic: Open) -> None:
    topic = open_topic()
    # Kafka's own test of murmur2: "foobar" hashes to -790332482, "a-little-bit-long-string" to -985981536.
    hashes = {b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    topic.send_all([(key, b"") for key in hashes], 30)
    topic.read_to_end(30)
    found = {record.key: record.partition for record in topic.records}
    assert found == {key: (murmur2 & 0x7FFFFFFF) % 25 for key, murmur2 in hashes.items()}


def test_a_record_that_cannot_be_taken_in_is_passed_over(
    broker: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    def fail_once(record: TopicRecord) -> None:
        if record.key == b"bad":
            raise ValueError("as it should")
        seen.append(record.key)

    topic = CompactedTopic(TopicSettings.of(worker(broker, name), "config"), fail_once)
    try:
        topic.start(60)
        topic.send_all([(b"bad", b"1"), (b"good", b"2")], 30)
        topic.read_to_end(30)
    finally:
        topic.stop()
    assert seen == [b"good"]
    assert "b'bad'" in caplog.text


def test_a_topic_that_may_lose_records_is_refused(broker: str, open_topic: Open, name: str) -> None:
    made(broker, f"{name}-config", 1, "delete")
    with pytest.raises(ConfigError) as refused:
        open_topic("config")
    assert (
        f"Topic '{name}-config' supplied via the 'config.storage.topic' property is required to have "
        "'cleanup.policy=compact' to guarantee consistency and durability of connector configurations, but found the "
        "topic currently has 'cleanup.policy=delete'. Continuing would likely result in eventually losing connector "
        "configurations and problems restarting this Connect cluster in the future. Change the 'config.storage.topic' "
        "property in the Connect worker configurations to use a topic with 'cleanup.policy=compact'."
    ) in str(refused.value)


def test_a_config_topic_has_one_partition(broker: str, open_topic: Open, name: str) -> None:
    made(broker, f"{name}-config", 2, "compact")
    with pytest.raises(ConfigError, match=r"required to have a single partition .* but found 2 partitions"):
        open_topic("config")


def test_markers_of_transactions_are_counted_and_open_ones_awaited(broker: str, open_topic: Open, name: str) -> None:
    topic = open_topic("config", **{"isolation.level": "read_committed"})
    producer = Producer({"bootstrap.servers": broker, "transactional.id": name})
    producer.init_transactions(30)
    for value, finish in ((b"1", producer.commit_transaction), (b"2", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic.topic, value, b"k")
        producer.flush(60)
        with pytest.raises(TimedOut, match="reading to the end"):
            topic.read_to_end(0.3)
        finish(30)
        topic.read_to_end(30)
    assert [one[:4] for one in topic.records] == [(b"k", b"1", 0, 0)]
    assert open_topic("config", **{"isolation.level": "read_committed"}).records == topic.records


def test_what_the_broker_refuses_is_said_at_once(open_topic: Open) -> None:
    topic = open_topic(**{"offset.storage.max.message.bytes": "2000"})
    with pytest.raises(ConnectError, match=r"larger than the topic compacted-\d+-offset takes"):
        topic.send_all([(b"k", b"x" * 10_000)], 30)


@pytest.mark.long
def test_a_broker_that_goes_away_is_waited_for(broker_process: Broker, open_topic: Open) -> None:
    topic = open_topic("status", **{"status.storage.partitions": "1"})
    topic.send_all([(b"before", b"")], 30)
    broker_process.stop()
    with pytest.raises(TimedOut, match="reading to the end"):
        topic.read_to_end(0.5)
    sent: Future[None] = topic.send(b"while", b"")
    with pytest.raises(TimedOut, match="writing"):
        topic.send_all([(b"also", b"")], 0.5)
    broker_process.start()
    sent.result(60)
    topic.read_to_end(60)
    assert {record.key for record in topic.records} == {b"before", b"while", b"also"}


def test_a_start_that_waits_ends_when_the_worker_stops(name: str) -> None:
    topic = CompactedTopic(TopicSettings.of(worker("127.0.0.1:1", name), "status"), lambda _: None)
    stopped: list[BaseException] = []

    def start() -> None:
        try:
            topic.start(60)
        except StoppedError as error:
            stopped.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    topic.stop()
    thread.join(60)
    assert len(stopped) == 1
    with pytest.raises(TimedOut, match=r"getting ready: topic .*-status \(status.storage.topic\)"):
        CompactedTopic(TopicSettings.of(worker("127.0.0.1:1", name), "status"), lambda _: None).start(0.1)
