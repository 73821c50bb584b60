"""Reads an internal topic of the replication, from its beginning, and follows it; on the thread of the caller."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from headrace.config.kafka.client_config import ClientConfig
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics

log = logging.getLogger(__name__)

_READ_BYTES: Final = 4 << 20
_MESSAGES: Final = 10_000
_SAY_EVERY_S: Final = 60.0
_MISSING: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class NotAllowed(Exception):
    """The cluster does not let this topic be read."""


class TopicReader:
    """A consumer of partition 0 of a topic."""

    def __init__(self, client: ClientConfig, topic: str, purpose: str) -> None:
        """`purpose` tells in the log what waits for the topic."""
        self.topic = topic
        self.is_missing = False
        """True if the topic was missing at the last look."""
        self.is_read = False
        """True if the end of the topic was reached once."""
        self._purpose = purpose
        self._said_at = time.monotonic()
        config = client.librdkafka(_READ_BYTES) | {"enable.partition.eof": True}
        statistics = ClientStatistics("consumer", config)
        self._consumer = Consumer(config | statistics.settings(), logger=logging.getLogger(f"{__name__}.client"))
        statistics.watch(self._consumer)
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def read(self, wait_s: float, most_s: float) -> Iterator[Message]:
        """Yield the new messages; waits so long for the first, and goes on for so long while there is more.

        Errors: NotAllowed.
        """
        until = time.monotonic() + most_s
        while messages := self._consumer.consume(_MESSAGES, wait_s):
            for message in messages:
                error = message.error()
                if error is None:
                    self.is_missing = False
                    yield message
                else:
                    self._note(error)
            wait_s = 0.0
            if time.monotonic() > until:
                break
        self._say_that_it_waits()

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _note(self, error: KafkaError) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self.is_read, self.is_missing = True, False
        elif code in _MISSING:
            self.is_missing = True
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise NotAllowed(f"the topic {self.topic} may not be read: {error.str()}")
        # The client tries all else again, and logs it.

    def _say_that_it_waits(self) -> None:
        if self.is_read or time.monotonic() < self._said_at + _SAY_EVERY_S:
            return
        self._said_at = time.monotonic()
        state = "is not there" if self.is_missing else "could not be read to its end yet"
        log.warning("The topic %s %s: %s", self.topic, state, self._purpose)
