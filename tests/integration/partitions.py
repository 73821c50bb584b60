"""What a partition holds now, read by one client for each broker: to make a client for each look takes a second."""

from __future__ import annotations

import threading
import time
from functools import lru_cache

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

_NO_LEADER_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
)

_NO_BROKER = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)
_BROKERS = 8
"""Whose clients are kept: those of the run, and those of a test that has its own."""


def messages(bootstrap: str, topic: str, partition: int = 0, committed: bool = True) -> list[Message]:
    """All that the partition holds up to its end, in order; nothing where it is not there yet."""
    return _reader(bootstrap, committed).messages(TopicPartition(topic, partition, 0))


def watermarks(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int] | None:
    """First and next offset of a partition; None where it has no leader yet, its topic or its broker being new."""
    return _reader(bootstrap, True).watermarks(TopicPartition(topic, partition))


class _Reader:
    """A client that looks at one partition after the other; it fetches nothing in between."""

    def __init__(self, bootstrap: str, committed: bool) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "look",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",  # where a topic's first records are gone
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 10,  # the end of a partition is told by an answer
            "log_level": 2,  # of brokers that have ended since
        }
        self._client, self._lock = Consumer(settings), threading.Lock()

    def messages(self, first: TopicPartition) -> list[Message]:
        with self._lock:
            if not (bounds := self._watermarks(first)) or bounds[0] == bounds[1]:
                return []
            self._client.assign([first])
            try:
                return self._to_end(first, bounds[1])
            finally:
                self._client.unassign()

    def watermarks(self, at: TopicPartition) -> tuple[int, int] | None:
        with self._lock:
            return self._watermarks(at)

    def _watermarks(self, at: TopicPartition) -> tuple[int, int] | None:
        try:
            found: tuple[int, int] = self._client.get_watermark_offsets(at, timeout=30)
        except KafkaException as error:
            if error.args[0].code() not in _NO_LEADER_YET:
                raise
            self._client.list_topics(at.topic, timeout=30)  # or the client goes on for minutes to know no such topic
            return None
        return found

    def _to_end(self, first: TopicPartition, end: int) -> list[Message]:
        """All messages up to this offset, and what came meanwhile. An end before it is one of the look before."""
        found: list[Message] = []
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # one by one: `consume` waits for as many as it is asked for
            if (message := self._client.poll(1)) is None:
                continue
            if (error := message.error()) is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                if message.offset() >= end:
                    return found
            elif not error.retriable() and error.code() not in (*_NO_LEADER_YET, *_NO_BROKER):
                raise KafkaException(error)
        raise AssertionError(f"{first.topic}-{first.partition} did not end: {len(found)} records in 60 s")


@lru_cache(_BROKERS)
def _reader(bootstrap: str, committed: bool) -> _Reader:
    return _Reader(bootstrap, committed)
