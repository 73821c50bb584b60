"""The broker as the benchmark sees it: topics made, filled, watched and read back."""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench.processes import Failed

READ_AT_ONCE = 20_000
LEADER_BOUND_S = 20
QUIET = {"log_level": 0}  # what fails is raised; the rest would be noise around the table


class Topics:
    """Topics of one broker, of one partition where nothing else is said."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        self._watcher = self._consumer(uuid4().hex)
        self._groups: dict[str, Consumer] = {}

    def create(self, *names: str, partitions: int = 1) -> None:
        """These topics exist and have a leader."""
        made = self._admin.create_topics([NewTopic(name, partitions, 1) for name in names], operation_timeout=30)
        for future in made.values():
            future.result(30)
        for name in names:
            self.end(name)

    def delete(self, *names: str) -> None:
        """The broker was asked to drop these topics."""
        for future in self._admin.delete_topics(list(names)).values():
            future.exception(30)

    def exist(self, *names: str, partitions: int = 1) -> bool:
        """True if the broker has all these topics with so many partitions now."""
        found = self._watcher.list_topics(timeout=10).topics
        return all(name in found and len(found[name].partitions) == partitions for name in names)

    def end(self, topic: str, partition: int = 0) -> int:
        """The number of records in the partition, asked of the broker now."""
        bound = time.monotonic() + LEADER_BOUND_S
        while True:
            try:
                return int(self._watcher.get_watermark_offsets(TopicPartition(topic, partition), 10)[1])
            except KafkaException:  # made a moment ago: the client remembers that it was unknown until it asks anew
                if time.monotonic() > bound:
                    raise
                time.sleep(0.1)
                self._watcher.list_topics(topic, 10)

    def committed(self, group: str, topic: str, partitions: int = 1) -> int:
        """The number of records that the group has committed."""
        if group not in self._groups:
            self._groups[group] = self._consumer(group)
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return sum(max(0, int(found.offset)) for found in self._groups[group].committed(asked, 10))

    def group(self, name: str) -> tuple[str, int]:
        """The state of a group of any protocol as the broker has it now, and how many members it has."""
        found = self._admin.list_groups(name, 10)
        return (found[0].state or "Unknown", len(found[0].members)) if found else ("Dead", 0)

    def fill(
        self,
        topic: str,
        values: Iterable[bytes],
        partitions: Iterable[int] = repeat(0),
        keys: Iterable[bytes | None] = repeat(None),
    ) -> None:
        """All values are in the topic, in order, in the batches a tuned producer makes."""
        self._send(
            (topic, value, key, partition) for value, partition, key in zip(values, partitions, keys, strict=False)
        )

    def fill_each(self, topics: Sequence[str], values: Sequence[bytes]) -> None:
        """All values are in each of the topics, in order."""
        self._send((topic, value) for topic in topics for value in values)

    def _send(self, records: Iterable[tuple[Any, ...]]) -> None:
        """These are in their topics; each is what `Producer.produce` takes."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                **QUIET,
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 500_000,
            }
        )
        for record in records:
            while True:
                try:
                    producer.produce(*record)
                    break
                except BufferError:
                    producer.poll(0.05)
        if producer.flush(120):
            raise Failed("topics could not be filled within 120 s")

    def read(self, topic: str, count: int) -> Iterator[bytes]:
        """The first `count` values.  Errors: Failed when they do not come."""
        consumer = self._consumer(uuid4().hex)
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            done = 0
            while done < count:
                messages = consumer.consume(min(READ_AT_ONCE, count - done), timeout=10)
                if not messages:
                    raise Failed(f"topic {topic}: {done} records, then none for 10 s")
                for message in messages:
                    yield message.value() or b""
                done += len(messages)
        finally:
            consumer.close()

    def follow(self, topic: str) -> Consumer:
        """A consumer on the topic from its start, told of a record as soon as the broker has it."""
        consumer = self._consumer(uuid4().hex, {"fetch.wait.max.ms": 100})
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer

    def close(self) -> None:
        """No connection is open."""
        for consumer in [self._watcher, *self._groups.values()]:
            consumer.close()

    def _consumer(self, group: str, more: dict[str, object] | None = None) -> Consumer:
        settings: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            **QUIET,
        }
        return Consumer({**settings, **(more or {})})
