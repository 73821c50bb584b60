"""Reads a topic between offsets: no group, no subscription."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace.plugins.errors import DataError
from headrace.plugins.interop.kafka import messages
from headrace.plugins.interop.kafka.messages import Headers
from headrace.worker.errors import ConnectError, NotFound

TIMEOUT_S: Final = 15.0
"""The longest silence of Kafka."""
_NOTHING: Final = KafkaError(KafkaError._TIMED_OUT, "no broker says why", False, True)


class KafkaSilent(ConnectError):
    """Kafka does not answer, or refuses."""

    status = 503


def ends_of(consumer: Any, topic: str) -> dict[int, tuple[int, int]]:
    """Each partition's first and next offset. Errors: NotFound, KafkaException, KafkaSilent.

    All topics are listed: to ask for one by its name makes the broker create it, whatever the client's settings say.
    """
    found = consumer.list_topics(timeout=TIMEOUT_S).topics.get(topic)
    if found is None:
        raise NotFound(f"There is no topic {topic}, or this login may not describe it")
    if found.error is not None:
        raise KafkaSilent(f"topic {topic} cannot be read: {found.error.str()}")
    return {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
        for number in sorted(found.partitions)
    }


def headers_of(message: Any) -> Headers | None:
    """The message's headers; None if the name of one is not UTF-8."""
    try:
        return messages.headers_of(message) or []
    except DataError:
        return None


class TopicReading:
    """Reads the messages between offsets, each partition's in order; its consumer tells of partitions' ends."""

    def __init__(
        self,
        consumer: Any,
        topic: str,
        begin: Mapping[int, int],
        end: Mapping[int, int],
        until: float | None = None,
    ) -> None:
        """`until`: the time (monotonic) at which it stops, if not all were read; by default it reads all."""
        self._consumer, self._topic, self._end = consumer, topic, end
        self._until = until
        self.next = dict(begin)
        """The offset of each partition up to which all was read."""
        self._open = {number for number in end if begin[number] < end[number]}

    @property
    def is_over(self) -> bool:
        """True if all messages were read."""
        return not self._open

    def messages(self) -> Iterator[Any]:
        """Yield the messages. Errors: KafkaException, KafkaSilent."""
        if self._open:
            self._consumer.assign([TopicPartition(self._topic, number, self.next[number]) for number in self._open])
        silent_at = time.monotonic() + TIMEOUT_S
        while self._open:
            now = time.monotonic()
            if self._until is not None and now >= self._until:
                return
            message = self._consumer.poll(max(0.0, min(silent_at, self._until or silent_at) - now))
            error = _NOTHING if message is None else message.error()
            if error is None:
                if self._passed(message):
                    yield message
                silent_at = time.monotonic() + TIMEOUT_S
            elif error.code() == KafkaError._PARTITION_EOF:
                self._close(message.partition())
            elif not error.retriable() and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise KafkaException(error)  # the client looks for its group, which nothing here needs
            elif time.monotonic() >= silent_at:
                raise KafkaSilent(f"Kafka gives no records of {self._topic} for {TIMEOUT_S:.0f} s: {error.str()}")

    def _passed(self, message: Any) -> bool:
        """Note how far its partition was read; True if the message is one of those asked for."""
        number, offset = message.partition(), message.offset()
        is_asked = number in self._open and offset < self._end[number]
        if is_asked:
            self.next[number] = offset + 1
        if offset + 1 >= self._end.get(number, 0):
            self._close(number)
        return is_asked

    def _close(self, number: int) -> None:
        if number in self._open:
            self.next[number] = self._end[number]
            self._open.discard(number)
