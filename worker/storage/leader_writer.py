"""The leader's producer for the config topic: transactional, so that a new leader fences the former one.

Used only if `exactly.once.source.support` is `preparing` or `enabled`: a former leader that does not know yet that
it was replaced must not write task configs, or that tasks were fenced. Any failure closes the producer; the next write
claims the topic again, which a worker does only while it leads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.config.kafka.client_config import ClientConfig
from headrace.worker.errors import ConnectError
from headrace.worker.storage.compacted_topic import too_large

log = logging.getLogger(__name__)

_BYTES: Final = 16 << 20


class NotWritten(ConnectError):
    """The leader could not write, or no longer leads."""


class LeaderWriter:
    """Writes to the config topic as the leader. Any thread may call it."""

    def __init__(self, topic: str, client: ClientConfig) -> None:
        """`client` has a `transactional.id` that all workers of the cluster share."""
        self._topic = topic
        self._client = client
        self._lock = threading.Lock()
        self._leads = False
        self._producer: Producer | None = None

    def claim(self, timeout_s: float) -> None:
        """Begin to lead: fence the former leader, unless done already. Errors: NotWritten."""
        with self._lock:
            self._leads = True
            self._claimed(time.monotonic() + timeout_s)

    def send_all(self, records: Iterable[tuple[bytes, bytes | None]], timeout_s: float) -> list[int]:
        """Write records in one transaction, and wait until it is committed; returns their offsets.

        Errors: NotWritten; TooLarge.
        """
        until = time.monotonic() + timeout_s
        offsets: list[int] = []

        def arrived(error: KafkaError | None, sent: Message) -> None:
            if error is None and (offset := sent.offset()) is not None:
                offsets.append(offset)

        with self._lock:
            producer = self._claimed(until)
            try:
                producer.begin_transaction()
                for key, value in records:
                    producer.produce(self._topic, value, key, on_delivery=arrived)
                producer.flush(max(0.1, until - time.monotonic()))  # calls `arrived`
                producer.commit_transaction(max(0.1, until - time.monotonic()))
            except (KafkaException, BufferError) as error:
                self._producer = None
                told = error.args[0] if error.args else None
                if isinstance(told, KafkaError) and told.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise too_large(self._topic) from error
                raise _not_written(error) from error
        return offsets

    def give_up(self) -> None:
        """Stop writing: another worker leads."""
        with self._lock:
            self._leads, self._producer = False, None

    def _claimed(self, until: float) -> Producer:
        if not self._leads:
            raise _not_written(ConnectError("this worker does not lead its group"))
        if self._producer is None:
            producer = Producer(self._client.librdkafka(_BYTES), logger=logging.getLogger(f"{__name__}.client"))
            try:
                producer.init_transactions(max(0.1, until - time.monotonic()))
            except KafkaException as error:
                raise _not_written(error) from error
            self._producer = producer
        return self._producer


def _not_written(error: Exception) -> NotWritten:
    log.warning("The config topic could not be written to: %s", error)
    return NotWritten(
        "Failed to write to config topic; this may be due to a transient error and the request can be safely retried"
    )
