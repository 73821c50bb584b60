"""A sink's consumer as a static member: taken over at once, fenced, and gone from its group at an orderly end."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from headrace.config.connector import clients
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.contracts import GroupMember
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.group_member import expel
from headrace.worker.kafka.topic_ids import AskedIds, TopicIds
from headrace.worker.pipeline.stages import Stages
from headrace.worker.tasks import consumer_membership
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.sink_consumer import SinkConsumer
from headrace.worker.tasks.static_member import LEAVE_S, Fenced, named_by_topics
from headrace.worker.tasks.subscription import TopicSubscription
from tests.integration.worker_process import Topic, eventually
from tests.metadata_proxy import METADATA
from tests.mock_cluster import MockCluster

pytestmark = [pytest.mark.kafka, pytest.mark.long]

WORKER = {
    "offset.storage.file.filename": "unused",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
}
SESSION_S = 45
CLASSIC = {
    "partition.assignment.strategy": "range",
    "session.timeout.ms": SESSION_S * 1000,
    "heartbeat.interval.ms": 500,
}
BY_PARTS = {
    "cooperative": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
    "consumer-range": {"group.protocol": "consumer", "group.remote.assignor": "range"},
}
"""The client settings by which partitions are assigned one by one."""
AT_ONCE_S = 30.0
"""Well below the session."""


class Member:
    """A sink's consumer on a thread of its own. Once it has joined, it hangs as `hangs` says until `goes_on` is set."""

    def __init__(
        self,
        broker: str,
        group: str,
        topics: Collection[str],
        instance: str,
        regex: str = "",
        protocol: Mapping[str, Any] = CLASSIC,
        reset: str = "earliest",
        hangs: str = "",
    ) -> None:
        self.read: list[tuple[int, int]] = []
        """The partition and offset of each record that it read."""
        self.failed: Exception | None = None
        self.lost: list[bool] = []
        self.fenced: Fenced | None = None
        self.assigned: list[TopicPartition] = []
        self.hung, self.goes_on = threading.Event(), threading.Event()
        self._hangs_in_batch = hangs == "in a batch"
        self.owner: Any = SimpleNamespace(
            open=lambda _: self._hang() if hangs == "in open" else {},
            close=lambda _: None,
            pre_commit=lambda _: None,
            metrics=SimpleNamespace(committed=lambda _seconds, ok: None, stages=Stages()),
            end_batch=lambda lost: self.lost.append(lost),
            wait=time.sleep,
            stop=StopToken(),
            abandoned=False,
            may_take=lambda: True,
        )
        kafka = {"bootstrap.servers": broker}
        config = {
            **kafka,
            "group.id": group,
            **protocol,
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
        }
        subscription = TopicSubscription(topics, regex, 300)
        if instance:
            config["group.instance.id"] = instance
            config = dict(named_by_topics(config, lambda: subscription.signature(AdminClient(kafka))))
        self._positions = Positions(reset)
        self._consumer = SinkConsumer(
            config, subscription, TopicIds(kafka), self._positions, self.owner, self.owner, self.owner, 1 << 20
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                for message in self._consumer.fetch(0.05, 100, 1 << 20):
                    self.read.append((message.partition(), message.offset()))
                    at = TopicPartition(message.topic(), message.partition())
                    self._positions.go_on({at: message.offset() + 1})
                self.assigned = list(self._consumer.partitions.assigned)
                if self._hangs_in_batch and self.assigned:
                    self._hang()
        except Fenced as error:
            self.fenced = error
        except Exception as error:
            self.failed = error
        self.assigned = list(self._consumer.partitions.assigned)

    def _hang(self) -> dict[TopicPartition, int]:
        self.hung.set()
        self.goes_on.wait()
        return {}

    @property
    def place(self) -> GroupMember:
        """Its place in the group."""
        assert self._consumer.membership.joined_as is not None
        return self._consumer.membership.joined_as

    @property
    def doubts(self) -> bool:
        """True if its topic is not there."""
        return bool(self._consumer.offsets.doubted)

    def close(self) -> None:
        """An orderly end, on the test's thread."""
        self._ends.set()
        self.goes_on.set()
        self._thread.join()
        self._consumer.close()


class Group:
    """A consumer group of its own, reading a topic of four partitions."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._id = f"connect-{uuid.uuid4().hex[:8]}"
        self._topic = Topic(broker, "static", partitions=4)
        self._admin = AdminClient({"bootstrap.servers": broker})
        self._joined: list[Member] = []

    def join(self, instance: str, *more: str, regex: str = "", **how: Any) -> Member:
        """One more member, of the group's topic and `more` or of those that match."""
        topics = [] if regex else [self._topic.name, *more]
        self._joined.append(Member(self._broker, self._id, topics, instance, regex, **how))
        return self._joined[-1]

    def instances(self) -> list[str]:
        """The instances of its members, as Kafka has them, but for their topics' digests."""
        described = self._admin.describe_consumer_groups([self._id], request_timeout=60)[self._id].result()
        return sorted(member.group_instance_id.partition("-")[0] for member in described.members)

    def write(self) -> None:
        """Write a record to each partition."""
        for partition in range(4):
            self._topic.send([b"x"], partition)

    @property
    def topic(self) -> str:
        """The topic that its members read."""
        return self._topic.name

    def close(self) -> None:
        while self._joined:
            self._joined.pop().close()

    def end(self, member: Member) -> None:
        """The member ends in good order."""
        self._joined.remove(member)
        member.close()


@pytest.fixture
def group(broker: str) -> Iterator[Group]:
    made = Group(broker)
    yield made
    made.close()


def has(count: int, *members: Member) -> None:
    eventually(lambda: all(len(member.assigned) == count for member in members), AT_ONCE_S)


def test_the_next_one_of_its_name_has_its_partitions_at_once_and_it_writes_no_more(group: Group) -> None:
    former, other = group.join("a"), group.join("b")
    has(2, former, other)
    later = group.join("a")
    has(2, later, other)
    eventually(lambda: former.fenced, AT_ONCE_S)
    assert "group.instance.id a-" in str(former.fenced)
    assert (former.assigned, former.lost[-1]) == ([], True), "what it had not committed is not its own any more"
    group.end(former)
    assert group.instances() == ["a", "b"], "the zombie's end takes nobody's place away"
    has(2, later, other)


def test_an_orderly_end_leaves_the_group(group: Group) -> None:
    going, staying = group.join("a"), group.join("b")
    has(2, going, staying)
    group.end(going)
    has(4, staying)
    group.end(staying)
    eventually(lambda: group.instances() == [], AT_ONCE_S)


@pytest.mark.parametrize("by_regex", [False, True], ids=["named", "matched"])
def test_one_that_comes_back_reads_a_topic_that_is_new(group: Group, broker: str, by_regex: bool) -> None:
    """Its former self, which was killed or hangs, still has its place for what it read."""
    former = group.join("a", regex=f"{group.topic}.*" if by_regex else "")
    has(4, former)
    new = Topic(broker, f"{group.topic}-new", partitions=2)
    later = group.join("a", regex=f"{group.topic}.*") if by_regex else group.join("a", new.name)
    eventually(lambda: {partition.topic for partition in later.assigned} == {group.topic, new.name}, AT_ONCE_S)
    eventually(lambda: len({*former.assigned, *later.assigned}) == 6, AT_ONCE_S)


@pytest.mark.parametrize("hangs", ["in a batch", "in open"])
def test_what_an_abandoned_task_held_is_another_s_at_once(group: Group, broker: str, hangs: str) -> None:
    """A connector is deleted while its batch hangs, for example, and is made again with other topics."""
    former, new = group.join("a", hangs=hangs), Topic(broker, f"{group.topic}-other", partitions=2)
    assert former.hung.wait(AT_ONCE_S)
    later = group.join("a", new.name)
    former.owner.abandoned = True
    expel(
        clients.admin(WorkerConfig.standalone({**WORKER, "bootstrap.servers": broker}), {"name": "c"}, 0), former.place
    )
    has(6, later)
    former.goes_on.set()
    group.end(former)
    assert group.instances() == ["a"], "the zombie does not come back, nor takes the other's place away"
    has(6, later)


def test_a_member_that_ends_while_it_joins_leaves_the_group(group: Group) -> None:
    group.end(group.join("a"))
    eventually(lambda: group.instances() == [], AT_ONCE_S)


def test_a_member_whose_topic_is_not_there_ends_at_once(broker: str) -> None:
    member = Member(broker, "connect-none", ["never-made"], "a")
    eventually(lambda: member.doubts, AT_ONCE_S)
    began = time.monotonic()
    member.close()
    assert time.monotonic() - began < LEAVE_S / 2


@pytest.mark.parametrize("protocol", BY_PARTS.values(), ids=BY_PARTS)
def test_partitions_come_and_go_by_parts(group: Group, protocol: Mapping[str, Any]) -> None:
    first = group.join("", protocol=protocol)
    has(4, first)
    group.write()
    eventually(lambda: len(first.read) == 4, AT_ONCE_S)
    second = group.join("", protocol=protocol)
    has(2, first, second)
    group.write()
    eventually(lambda: len({*first.read, *second.read}) == 8, AT_ONCE_S)
    group.end(second)
    has(4, first)
    group.write()
    eventually(lambda: len({*first.read, *second.read}) == 12, AT_ONCE_S)
    assert len(first.read) + len(second.read) == 12, "what was read and committed does not come again"
    group.end(first)


def test_a_static_member_of_the_consumer_protocol_has_its_partitions_back(group: Group) -> None:
    protocol = BY_PARTS["consumer"]
    going, staying = group.join("a", protocol=protocol), group.join("b", protocol=protocol)
    has(2, going, staying)
    group.end(going)
    has(2, group.join("a", protocol=protocol), staying)


def test_a_group_without_offsets_begins_by_the_age_of_records(group: Group, broker: str) -> None:
    producer = Producer({"bootstrap.servers": broker})
    for age_s, value in ((7200, "old"), (1800, "new")):
        timestamp_ms = int((time.time() - age_s) * 1000)
        producer.produce(group.topic, value.encode(), partition=0, timestamp=timestamp_ms)
    assert producer.flush(AT_ONCE_S) == 0
    member = group.join("a", reset="by_duration:PT1H")
    eventually(lambda: member.read, AT_ONCE_S)
    producer.produce(group.topic, b"later", partition=1)
    producer.flush(AT_ONCE_S)
    eventually(lambda: len(member.read) == 2, AT_ONCE_S)
    assert member.read == [(0, 1), (1, 0)]


def test_a_group_without_offsets_and_without_a_policy_is_told_what_to_do(group: Group) -> None:
    member = group.join("a", reset="error")
    eventually(lambda: member.failed, AT_ONCE_S)
    assert "has no committed offset of" in str(member.failed)
    assert "PATCH /connectors" in str(member.failed)


class SameIds(TopicIds):
    """Topics that are all there; librdkafka's own brokers do not tell ids."""

    def ask(self, topics: Collection[str]) -> AskedIds:
        return AskedIds({topic: _done(SimpleNamespace(topic_id="id")) for topic in topics})


def _done(answer: object) -> Future[object]:
    future = Future[object]()
    future.set_result(answer)
    return future


@pytest.mark.parametrize("times", [2, 5])
def test_a_consumer_whose_request_for_metadata_fails_joins_soon(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """By itself librdkafka asks again after 5 minutes."""
    monkeypatch.setattr(consumer_membership, "_JOINS_S", 1.0)
    monkeypatch.setattr(sys.modules[__name__], "TopicIds", SameIds)
    mock = MockCluster()
    mock.create("t")
    producer = Producer({"bootstrap.servers": mock.bootstrap})
    producer.produce("t", b"x", partition=0)
    assert producer.flush(60) == 0
    mock.answers(1, METADATA, KafkaError.UNKNOWN_TOPIC_OR_PART, times)
    member = Member(mock.bootstrap, "g", ["t"], "", protocol={"group.protocol": "classic"})
    try:
        eventually(lambda: member.read == [(0, 0)], 60, lambda: member.failed)
    finally:
        member.close()
