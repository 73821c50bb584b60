"""Reads ranges of Kafka's partitions record by record, into Arrow batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.conversion.kafka_rows import to_arrow
from headrace.plugins.interop.kafka.known_brokers import KnownBrokers
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

_AT_ONCE: Final = 5_000
_BYTES_AT_ONCE: Final = 8 << 20
_PIECE: Final = 256
_POLL_S: Final = 0.25
_SILENCE_S: Final = 60.0
"""A range is tried again after so long a silence."""
_OF_THE_GROUP: Final = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._MAX_POLL_EXCEEDED)
"""Errors of the group, which is not used."""


class RecordRanges:
    """Reads one range after the other by a consumer that joins no group."""

    def __init__(self, consumer: Mapping[str, Any]) -> None:
        """`consumer` is librdkafka's configuration."""
        own = {"auto.offset.reset": "error", "enable.partition.eof": True}
        self._consumer: Any = Consumer({**consumer, **own}, logger=logging.getLogger(f"{__name__}.client"))
        self._brokers = KnownBrokers.of(self._consumer, consumer)

    def read(
        self, partition: TopicPartition, after: int, upto: int, stop: StopToken | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of the offsets `(after, upto]`, in order, until the stop is set.

        Shape: `KAFKA_ROW`. Errors: RetriableError.
        """
        self._consumer.assign([Position(*partition, after + 1)])
        heard = time.monotonic()
        try:
            while stop is None or not stop.is_set():
                first = self._consumer.poll(_POLL_S)
                if self._brokers is not None:
                    self._brokers.check()
                messages = [] if first is None else self._following(first)
                if messages:
                    heard = time.monotonic()
                elif time.monotonic() - heard > _SILENCE_S:
                    raise RetriableError(f"{partition}: its brokers gave no records for {_SILENCE_S:.0f} s")
                records, at_end = _sorted(messages, partition, upto)
                if records:
                    yield to_arrow(records)
                if at_end:
                    return
        except KafkaException as error:
            raise RetriableError(f"{partition} cannot be read: {error}") from error
        finally:
            self._consumer.unassign()

    def _following(self, first: Any) -> list[Any]:
        """The first message and those after it, in pieces: their decompressed size is known only then."""
        messages, size = [first], len(first)
        while size < _BYTES_AT_ONCE and len(messages) < _AT_ONCE and (piece := self._consumer.consume(_PIECE, 0)):
            messages += piece
            size += sum(map(len, piece))
        return messages

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def _sorted(messages: list[Any], partition: TopicPartition, upto: int) -> tuple[list[Any], bool]:
    """The records among these messages up to an offset, and True if there are no more of them.

    Errors: RetriableError.
    """
    records: list[Any] = []
    for message in messages:
        error = message.error()
        if error is None:
            if message.offset() > upto:
                return records, True
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            # The end when it was reached: a range that is read here ends before it, or at a place without records.
            if message.offset() > upto:
                return records, True
        elif error.code() not in _OF_THE_GROUP:
            raise RetriableError(f"{partition} cannot be read: {error.str()}")
    return records, bool(records) and records[-1].offset() == upto
