"""A topic and its copy in another cluster, made as MirrorMaker makes it, or wrong in the way that a test asks for."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.connectors.mirror.formats import Checkpoint, OffsetSync
from tests.integration.partitions import messages
from tests.integration.worker_process import eventually


class Record(NamedTuple):
    """A record as it is read."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 0
    timestamp_type: int = 1

    @property
    def content(self) -> tuple[Any, ...]:
        """All but where it stands."""
        return (self.key, self.value, self.headers, self.timestamp)


def create(bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
    """The topic exists and has a leader; its records may be as old as they like."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(
        topic, num_partitions=partitions, replication_factor=1, config={"retention.ms": "-1", **(config or {})}
    )
    admin.create_topics([new])[topic].result(60)
    eventually(lambda: len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == partitions, 60)
    return topic


def new_name(about: str) -> str:
    """A topic name that no other test has."""
    return f"{about}-{uuid.uuid4().hex[:8]}"


def records_of(bootstrap: str, topic: str, partition: int = 0, committed: bool = True) -> list[Record]:
    """All records that the partition holds now."""
    found: list[Record] = []
    for message in messages(bootstrap, topic, partition, committed):
        kind, timestamp = message.timestamp()
        headers = tuple(message.headers() or ())
        found.append(Record(message.offset(), message.key(), message.value(), headers, timestamp, kind))
    return found


def write(bootstrap: str, topic: str, records: Iterable[Record], partition: int = 0, **settings: Any) -> None:
    """These records are in the partition, with their timestamps; an offset is where the broker puts it."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, **settings})
    for one in records:
        while True:
            try:
                producer.produce(
                    topic, one.value, one.key, partition, timestamp=one.timestamp, headers=list(one.headers)
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


class Copy:
    """A topic of cluster A and its copy in cluster B."""

    def __init__(
        self, source: str, target: str, about: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        self.source, self.target = source, target
        self.topic = create(source, new_name(about), partitions, config)
        self.copy = create(target, f"A.{self.topic}", partitions, config)

    def fill(self, first: int, count: int, partition: int = 0) -> None:
        """So many numbered records more at the source, a second apart."""
        numbers = range(first, first + count)
        write(self.source, self.topic, (numbered(number) for number in numbers), partition)

    def replicate(
        self,
        change: Callable[[list[Record]], list[Record]] = lambda records: records,
        partition: int = 0,
        after: int = -1,
        upto: int | None = None,
    ) -> None:
        """Copy what is between two offsets of the source, as it is or as `change` makes it."""
        found = [one for one in records_of(self.source, self.topic, partition) if one.offset > after]
        write(self.target, self.copy, change([one for one in found if upto is None or one.offset <= upto]), partition)

    def sync(self, upstream: int, downstream: int, partition: int = 0) -> None:
        """An offset sync says so."""
        sync = OffsetSync(self.topic, partition, upstream, downstream)
        write(self.source, "mm2-offset-syncs.B.internal", [Record(0, sync.key(), sync.value())])

    def checkpoint(self, group: str, upstream: int, downstream: int, partition: int = 0) -> None:
        """A checkpoint says so."""
        one = Checkpoint(group, self.copy, partition, upstream, downstream)
        write(self.target, "A.checkpoints.internal", [Record(0, one.key(), one.value())])


def numbered(number: int) -> Record:
    """A record that differs from all others."""
    headers = (("number", str(number).encode()),) if number % 3 == 0 else ()
    return Record(
        number, f"key-{number % 17}".encode(), b"value-%09d" % number, headers, 1_700_000_000_000 + number * 1000
    )


def commit(bootstrap: str, group: str, topic: str, offset: int, partition: int = 0) -> None:
    """A consumer group has this offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    finally:
        consumer.close()
