"""A connector's dead letter topic, read from outside: no group, no connector that runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.worker.deadletters.letter import Letter
from headrace.worker.errors import ConnectError, NotFound

TIMEOUT_S: Final = 15.0
"""The longest silence of Kafka."""
_NOTHING: Final = KafkaError(KafkaError._TIMED_OUT, "no broker says why", False, True)


class KafkaSilent(ConnectError):
    """Kafka does not answer, or refuses."""

    status = 503


@dataclass(frozen=True)
class Clients:
    """The configurations of Kafka's clients for a dead letter topic, for confluent_kafka."""

    consumer: Mapping[str, Any] = field(repr=False)
    """Has the group for which replayed letters are committed."""
    producer: Mapping[str, Any] = field(repr=False)
    admin: Mapping[str, Any] = field(repr=False)

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
        """Yield a consumer that may commit for the group without being a member.

        Errors: KafkaSilent for errors of Kafka or its client inside.
        """
        try:
            consumer = Consumer({**self.clients.consumer, "enable.partition.eof": True})
            try:
                yield consumer
            finally:
                consumer.close()
        except KafkaException as error:
            raise KafkaSilent(f"Kafka at {self.clients.bootstrap}: {error}") from error

    def producer(self) -> Any:
        """Make a producer that keeps the order. Errors: KafkaException."""
        return Producer(dict(self.clients.producer))

    def admin(self) -> AdminClient:
        """Return the admin client, which is kept. Errors: KafkaException."""
        return admin_client(self.clients.admin)

    def ends(self, consumer: Any) -> dict[int, tuple[int, int]]:
        """Each partition's first and next offset. Errors: NotFound, KafkaException, KafkaSilent."""
        found = consumer.list_topics(self.name, timeout=TIMEOUT_S).topics[self.name]
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise NotFound(f"There is no topic {self.name} at {self.clients.bootstrap}")
        if found.error is not None:
            raise KafkaSilent(f"topic {self.name} cannot be read: {found.error.str()}")
        return {
            number: consumer.get_watermark_offsets(TopicPartition(self.name, number), timeout=TIMEOUT_S)
            for number in sorted(found.partitions)
        }

    def has(self, letter: Letter) -> bool:
        """True if the letter is this connector's by its headers: several connectors may share a topic."""
        return letter.told.get("connector.name", self.connector) == self.connector


class LetterReading:
    """Reads the letters between offsets, each partition's in order, those of other connectors too."""

    def __init__(
        self,
        topic: LetterTopic,
        consumer: Any,
        begin: Mapping[int, int],
        end: Mapping[int, int],
        until: float | None = None,
    ) -> None:
        """`until`: the time (monotonic) at which it stops, if not all were read; by default it reads all."""
        self._topic, self._consumer, self._end = topic, consumer, end
        self._until = until
        self.next = dict(begin)
        """The offset of each partition up to which all was read."""
        self._open = {number for number in end if begin[number] < end[number]}

    @property
    def is_over(self) -> bool:
        """True if all letters were read."""
        return not self._open

    def __iter__(self) -> Iterator[Letter]:
        """Errors: KafkaException, KafkaSilent."""
        if self._open:
            self._consumer.assign(
                [TopicPartition(self._topic.name, number, self.next[number]) for number in self._open]
            )
        silent_at = time.monotonic() + TIMEOUT_S
        while self._open:
            now = time.monotonic()
            if self._until is not None and now >= self._until:
                return
            message = self._consumer.poll(max(0.0, min(silent_at, self._until or silent_at) - now))
            error = _NOTHING if message is None else message.error()
            if error is None:
                if self._passed(message):
                    yield Letter.of(message)
                silent_at = time.monotonic() + TIMEOUT_S
            elif error.code() == KafkaError._PARTITION_EOF:
                self._close(message.partition())
            elif not error.retriable():
                raise KafkaException(error)
            elif time.monotonic() >= silent_at:
                raise KafkaSilent(f"Kafka gives no records of {self._topic.name} for {TIMEOUT_S:.0f} s: {error.str()}")

    def _passed(self, message: Any) -> bool:
        """Note how far its partition was read; True if the message is one of those asked for."""
        number, offset = message.partition(), message.offset()
        is_asked = number in self._open and offset < self._end[number]
        if is_asked:
            self.next[number] = offset + 1
        if offset + 1 >= self._end[number]:
            self._close(number)
        return is_asked

    def _close(self, number: int) -> None:
        self.next[number] = self._end[number]
        self._open.discard(number)
