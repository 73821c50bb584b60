"""Statuses, source offsets and sink groups over a real broker, as several workers see them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import NewTopic

from headrace.config.worker.config import WorkerConfig
from headrace.plugins.contracts import TopicPartition
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.errors import ConnectError
from headrace.worker.kafka.consumer_groups import SinkGroup
from headrace.worker.model import State, Status, TaskId
from headrace.worker.storage.offset_topic import OffsetTopic
from headrace.worker.storage.status_topic import KafkaStatusStore

SECONDS = 60
_numbers = count()


@pytest.fixture
def config(broker: str) -> WorkerConfig:
    """Of a worker in a cluster of its own."""
    name = f"stores-{next(_numbers)}"
    return WorkerConfig.distributed(
        {
            "bootstrap.servers": broker,
            "group.id": f"group-{name}",
            "key.converter": "JsonConverter",
            "value.converter": "JsonConverter",
            "offset.storage.partitions": "3",
            **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        }
    )


@pytest.fixture
def started() -> Iterator[Callable[..., None]]:
    """Starts stores, and stops them at the end."""
    made: list[KafkaStatusStore | OffsetTopic] = []

    def start(*stores: KafkaStatusStore | OffsetTopic) -> None:
        for store in stores:
            made.append(store)
            store.start(SECONDS)

    yield start
    for store in made:
        store.stop()


@pytest.fixture
def topic(broker: str) -> str:
    """A topic with three partitions of four records."""
    name = f"stored-{next(_numbers)}"
    admin_client({"bootstrap.servers": broker}).create_topics([NewTopic(name, 3, 1)])[name].result(60)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(12):
        producer.produce(name, b"x", partition=number % 3)
    assert producer.flush(60) == 0
    return name


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


class InGeneration5:
    """A group that has no rebalance."""

    generation = 5


def test_workers_see_each_others_statuses(config: WorkerConfig, started: Callable[..., None]) -> None:
    first, second = (KafkaStatusStore(config, InGeneration5()) for _ in range(2))
    started(first, second)
    first.put("c", Status(State.RUNNING, "w1", "1.0"))
    second.put(TaskId("c", 0), Status(State.FAILED, "w2", trace="why"))
    first.put_topic(TaskId("c", 0), "t")
    assert first.flush(SECONDS)
    assert second.flush(SECONDS)
    late = KafkaStatusStore(config, InGeneration5())
    started(late)
    for store in (first, second, late):
        store.read_to_end(SECONDS)
        assert store.get("c") == Status(State.RUNNING, "w1", "1.0", generation=5)
        assert store.tasks("c") == {0: Status(State.FAILED, "w2", trace="why", generation=5)}
        assert store.topics("c") == ["t"]
    second.forget("c")
    second.forget_topics("c")
    assert second.flush(SECONDS)
    first.read_to_end(SECONDS)
    assert (first.connectors(), first.topics("c")) == ([], [])


@pytest.mark.long
def test_statuses_reach_the_others_after_the_broker_was_away(
    config: WorkerConfig, started: Callable[..., None], broker_process: Broker
) -> None:
    first, second = (KafkaStatusStore(config, InGeneration5()) for _ in range(2))
    started(first, second)
    first.put("c", Status(State.RUNNING, "w1"))
    assert first.flush(SECONDS)
    broker_process.stop()
    for state in (State.PAUSED, State.FAILED):
        first.put("c", Status(state, "w1"))
    assert not first.flush(0.5)
    broker_process.start()
    assert first.flush(SECONDS)
    until(lambda: second.get("c") == Status(State.FAILED, "w1", generation=5))


def test_a_worker_goes_on_from_the_offsets_of_another(config: WorkerConfig, started: Callable[..., None]) -> None:
    first, second = OffsetTopic(config), OffsetTopic(config)
    started(first, second)
    files = [{"filename": f"/tmp/{number}"} for number in range(20)]
    for file in files:
        number = first.set("c", file, {"position": 7})
    first.flush()
    assert first.durable == number
    second.refresh()
    assert [second.get("c", file) for file in files] == [{"position": 7}] * 20
    second.set("c", files[0], {"position": 9})
    second.set("c", files[1], None)
    second.flush()
    first.refresh()
    late = OffsetTopic(config)
    started(late)
    for store in (first, late):
        assert (store.get("c", files[0]), store.get("c", files[1])) == ({"position": 9}, None)
        assert len(store.of("c")) == 19


@pytest.mark.long
def test_offsets_wait_for_a_broker_that_is_away(
    config: WorkerConfig, started: Callable[..., None], broker_process: Broker
) -> None:
    store = OffsetTopic(config)
    started(store)
    broker_process.stop()
    number = store.set("c", {"filename": "a"}, {"position": 1})
    store.flush()
    number = store.set("c", {"filename": "a"}, {"position": 2})
    assert store.durable < number - 1
    broker_process.start()
    until(lambda: store.flush() is None and store.durable == number)
    late = OffsetTopic(config)
    started(late)
    assert late.of("c") == [({"filename": "a"}, {"position": 2})]


def test_a_sinks_group_is_moved_and_deleted(config: WorkerConfig, topic: str) -> None:
    group = SinkGroup(config, {"name": f"c-{topic}"})
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    assert group.id == f"connect-c-{topic}"
    assert group.offsets() == {}
    group.alter({first: None})
    group.delete()
    group.alter({first: 3, second: 2, third: 1})
    assert group.offsets() == {first: 3, second: 2, third: 1}
    group.alter({first: 0, second: None})
    assert group.offsets() == {first: 0, third: 1}
    group.delete()
    assert group.offsets() == {}


def test_an_overridden_group_counts(config: WorkerConfig, topic: str) -> None:
    group = SinkGroup(config, {"name": "c", "consumer.override.group.id": f"mine-{topic}"})
    group.alter({TopicPartition(topic, 0): 2})
    assert SinkGroup(config, {"name": f"mine-{topic}".removeprefix("connect-")}).id != group.id == f"mine-{topic}"
    assert SinkGroup(config, {"name": "d", "consumer.override.group.id": group.id}).offsets() == {
        TopicPartition(topic, 0): 2
    }


def test_a_group_with_members_stays_as_it_is(config: WorkerConfig, broker: str, topic: str) -> None:
    group = SinkGroup(config, {"name": f"c-{topic}"})
    place = TopicPartition(topic, 0)
    member = Consumer({"bootstrap.servers": broker, "group.id": group.id, "auto.offset.reset": "earliest"})
    try:
        member.subscribe([topic])
        until(lambda: member.poll(0.1) is not None)
        member.commit(offsets=[KafkaPartition(topic, 0, 2)], asynchronous=False)
        changes: dict[str, list[Callable[[], None]]] = {
            "alter": [lambda: group.alter({place: 1}), lambda: group.alter({place: None})],
            "reset": [group.delete],
        }
        for verb, attempts in changes.items():
            for attempt in attempts:
                with pytest.raises(ConnectError) as refused:
                    attempt()
                assert refused.value.message == (
                    f"Failed to {verb} consumer group offsets for connector c-{topic} either because its tasks haven't "
                    "stopped completely yet or the connector was resumed before the request to "
                    f"{verb} its offsets could be successfully completed. If the connector is in a stopped state, this "
                    "operation can be safely retried. If it doesn't eventually succeed, the Connect cluster may need "
                    "to be restarted to get rid of the zombie sink tasks."
                )
        assert group.offsets() == {place: 2}
    finally:
        member.close()


def test_a_topic_that_is_not_there_is_told(config: WorkerConfig) -> None:
    group = SinkGroup(config, {"name": "c"})
    with pytest.raises(ConnectError, match=r"^Failed to alter consumer group offsets for connector c: "):
        group.alter({TopicPartition("nowhere", 0): 1})
