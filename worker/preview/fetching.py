"""Records for a preview, read from Kafka without a group: nothing is committed, and no topic is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from headrace.config.connector.config import consumes
from headrace.config.instants import epoch_ms
from headrace.config.worker.internal_topics import BROKERS_OWN, InternalTopics
from headrace.plugins.interop.conversion.kafka_rows import to_arrow
from headrace.plugins.stopping import StopToken
from headrace.worker.errors import BadRequest, ConnectError

_REQUEST_S: Final = 5.0
_POLL_S: Final = 0.2
_MOST_BYTES: Final = 4 << 20
"""Bytes of the records of one preview, or one record."""
_OWN: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    "auto.offset.reset": "earliest",
}
_OF_MEMBERS: Final = ("group.instance.id", "group.protocol", "group.remote.assignor")

Partitions = Mapping[tuple[str, int], tuple[int, int]]
"""The first and the next offset of each partition."""


class Fetching:
    """Reads some records of some topics, each from where `begin` says."""

    def __init__(self, consumer: Mapping[str, Any], stop: StopToken) -> None:
        """`consumer`: the librdkafka configuration of the sink's consumer."""
        self._stop = stop
        own = {name: value for name, value in consumer.items() if name not in _OF_MEMBERS}
        # librdkafka wants a group; it joins none, as partitions are assigned by hand.
        self._client: Any = Consumer({**own, **_OWN})

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def partitions(self, named: Sequence[str], regex: str, closed: InternalTopics) -> Partitions:
        """The partitions of the topics that a sink reads. Errors: BadRequest for a missing topic; ConnectError."""
        try:
            there = self._client.list_topics(timeout=_REQUEST_S).topics
            if missing := [topic for topic in named if topic not in there]:
                raise BadRequest(f"There is no topic {', '.join(missing)}: a preview shows records that are there.")
            open_ = [topic for topic in there if topic not in BROKERS_OWN and topic not in closed]
            matching = [topic for topic in open_ if regex and consumes(topic, (), regex)]
            found = [(topic, number) for topic in (*named, *matching) for number in there[topic].partitions]
            lows, highs = self._asked(found, OFFSET_BEGINNING), self._asked(found, OFFSET_END)
            return {place: (lows[place], highs[place]) for place in found}
        except KafkaException as error:
            raise ConnectError(f"The topics cannot be listed: {error.args[0].str()}") from error

    def begins(
        self, begin: str, count: int, partitions: Partitions, stored: Callable[[], Mapping[Any, int]]
    ) -> dict[tuple[str, int], int]:
        """The first offset to read of each partition, by `Wanted.begin`. Errors: BadRequest."""
        if begin == "earliest":
            return {place: low for place, (low, _) in partitions.items()}
        if begin == "latest":
            return {place: max(low, high - count) for place, (low, high) in partitions.items()}
        if begin == "stored":
            known = stored()
            return {place: max(low, known.get(place, low)) for place, (low, _) in partitions.items()}
        if begin.isascii() and begin.isdecimal():
            return {place: max(low, int(begin)) for place, (low, _) in partitions.items()}
        return self._at(_time_ms(begin), partitions)

    def _at(self, time_ms: int, partitions: Partitions) -> dict[tuple[str, int], int]:
        try:
            known = self._asked(partitions, time_ms)
        except KafkaException as error:
            raise ConnectError(f"Kafka cannot tell the offsets of that time: {error.args[0].str()}") from error
        return {place: high if known[place] < 0 else known[place] for place, (_, high) in partitions.items()}

    def _asked(self, places: Iterable[tuple[str, int]], time: int) -> dict[tuple[str, int], int]:
        """The first offset at a time of each partition, negative if there is none; asks for all at once.

        `time`: milliseconds, or librdkafka's codes for the beginning and the end. Errors: KafkaException.
        """
        found = self._client.offsets_for_times([TopicPartition(*place, time) for place in places], timeout=_REQUEST_S)
        return {(one.topic, one.partition): one.offset for one in found}

    def fetch(self, begins: Mapping[tuple[str, int], int], partitions: Partitions, count: int) -> pa.RecordBatch:
        """Read at most so many records, as many as there are of each partition. Errors: ConnectError, StoppedError."""
        ends = {place: high for place, (_, high) in partitions.items() if begins[place] < high}
        taken: list[Any] = []
        size = 0
        try:
            self._client.assign([TopicPartition(*place, begins[place]) for place in ends])
            while ends and len(taken) < count and size < _MOST_BYTES:
                self._stop.raise_if_set("reading records")
                for message in self._client.consume(count - len(taken), _POLL_S):
                    place, error = (message.topic(), message.partition()), message.error()
                    if error is None:
                        taken.append(message)
                        size += len(message.value() or b"") + len(message.key() or b"")
                    elif error.code() != KafkaError._PARTITION_EOF:
                        if not error.retriable():
                            raise KafkaException(error)
                        continue
                    if error is not None or message.offset() + 1 >= ends.get(place, 0):
                        ends.pop(place, None)
        except KafkaException as error:
            raise ConnectError(f"The records cannot be read: {error.args[0].str()}") from error
        finally:
            self._client.unassign()
        taken.sort(key=lambda one: (one.topic(), one.partition(), one.offset()))
        return to_arrow(taken[:count])


def _time_ms(text: str) -> int:
    try:
        return epoch_ms(text)
    except ValueError:
        raise BadRequest(
            f"from={text} is none of stored, earliest, latest, an offset, or a time such as 2026-11-28T12:00:00Z."
        ) from None
