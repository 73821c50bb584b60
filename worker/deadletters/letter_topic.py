"""A connector's dead letter topic, read from outside: no group, no connector that runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.plugins.interop.kafka.group_offsets import GroupOffset, kept_client, without_errors
from headrace.worker.deadletters.letter import Letter
from headrace.worker.deadletters.replayed import Replayed
from headrace.worker.kafka.rights import said
from headrace.worker.kafka.topic_reading import TIMEOUT_S, KafkaSilent, TopicReading, ends_of


@dataclass(frozen=True)
class Clients:
    """The configurations of Kafka's clients for a dead letter topic, for confluent_kafka."""

    consumer: Mapping[str, Any] = field(repr=False)
    producer: Mapping[str, Any] = field(repr=False)
    group: Mapping[str, Any] = field(repr=False)
    """Asks for and commits the group's offsets."""
    admin: Mapping[str, Any] = field(repr=False)
    """Deletes."""

    @property
    def bootstrap(self) -> str:
        """The brokers."""
        return str(self.consumer["bootstrap.servers"])


def group_of(connector: str) -> str:
    """The group for which a connector's replayed letters are committed."""
    return f"headrace-dlq-{connector}"


@dataclass(frozen=True)
class LetterTopic:
    """A connector's dead letter topic, and the way to reach it."""

    connector: str
    name: str
    clients: Clients

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Yield a consumer.

        Errors: KafkaSilent for errors of Kafka or its client inside.
        """
        try:
            consumer = Consumer(
                {**self.clients.consumer, "enable.partition.eof": True, "allow.auto.create.topics": False}
            )
            try:
                yield consumer
            finally:
                consumer.close()
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            named = group_of(self.connector) if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED else self.name
            raise KafkaSilent(f"Kafka at {self.clients.bootstrap}: {said(error, 'Read', [named])}") from raised

    def replayed(self, partitions: Iterable[int]) -> dict[int, Replayed]:
        """Ask for the replayed letters of each partition. Errors: KafkaException."""
        asked = [GroupOffset(self.name, number) for number in partitions]
        if not asked:
            return {}
        found = kept_client(self.clients.group).committed(group_of(self.connector), asked, timeout_s=TIMEOUT_S)
        return {one.partition: Replayed.committed(one.offset, one.metadata) for one in without_errors(found.result())}

    def commit(self, replayed: Mapping[int, Replayed]) -> None:
        """Note what was replayed of each partition. Errors: KafkaException."""
        offsets = [GroupOffset(self.name, number, one.next, one.metadata) for number, one in replayed.items()]
        answer = kept_client(self.clients.group).commit(group_of(self.connector), offsets, timeout_s=TIMEOUT_S)
        without_errors(answer.result())

    def producer(self) -> Any:
        """Make a producer that keeps the order. Errors: KafkaException."""
        return Producer(dict(self.clients.producer))

    def admin(self) -> AdminClient:
        """Return the admin client, which is kept. Errors: KafkaException."""
        return admin_client(self.clients.admin)

    def ends(self, consumer: Any) -> dict[int, tuple[int, int]]:
        """Each partition's first and next offset. Errors: NotFound, KafkaException, KafkaSilent."""
        return ends_of(consumer, self.name)

    def reading(
        self, consumer: Any, begin: Mapping[int, int], end: Mapping[int, int], until: float | None = None
    ) -> LetterReading:
        """As `LetterReading`."""
        return LetterReading(consumer, self.name, begin, end, until)

    def has(self, letter: Letter) -> bool:
        """True if the letter is this connector's by its headers: several connectors may share a topic."""
        return letter.told.get("connector.name", self.connector) == self.connector


class LetterReading(TopicReading):
    """Reads the letters between offsets, each partition's in order, those of other connectors too."""

    def __iter__(self) -> Iterator[Letter]:
        """Errors: KafkaException, KafkaSilent."""
        return map(Letter.of, self.messages())
