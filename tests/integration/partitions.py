"""Reads what a partition holds now.

A client of its own for each look, which takes some 40 ms: a kept one goes on to see a topic that was deleted and made
again as it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

_NO_LEADER_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
)
_NO_BROKER = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


def messages(bootstrap: str, topic: str, partition: int = 0, committed: bool = True) -> list[Message]:
    """All that the partition holds up to its end, in order; nothing where it is not there yet."""
    first = TopicPartition(topic, partition, 0)
    with _client(bootstrap, committed) as client:
        bounds = _watermarks(client, first)
        return [] if bounds is None or bounds[0] == bounds[1] else _to_end(client, first)


def watermarks(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int] | None:
    """First and next offset of a partition; None where it has no leader yet, its topic or its broker being new."""
    with _client(bootstrap, True) as client:
        return _watermarks(client, TopicPartition(topic, partition))


@contextmanager
def _client(bootstrap: str, committed: bool) -> Iterator[Consumer]:
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "look",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",  # where a topic's first records are gone
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 10,  # the end of a partition is told by an answer
            "log_level": 2,  # of brokers that have ended since
        }
    )
    try:
        yield client
    finally:
        client.close()


def _watermarks(client: Consumer, at: TopicPartition) -> tuple[int, int] | None:
    try:
        found: tuple[int, int] = client.get_watermark_offsets(at, timeout=60)
    except KafkaException as error:
        if error.args[0].code() not in _NO_LEADER_YET:
            raise
        return None
    return found


def _to_end(client: Consumer, first: TopicPartition) -> list[Message]:
    found: list[Message] = []
    client.assign([first])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # one by one: `consume` waits for as many as it is asked for
        if (message := client.poll(1)) is None:
            continue
        if (error := message.error()) is None:
            found.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            return found
        elif not error.retriable() and error.code() not in (*_NO_LEADER_YET, *_NO_BROKER):
            raise KafkaException(error)
    raise AssertionError(f"{first.topic}-{first.partition} did not end: {len(found)} records in 60 s")
