"""Deletes a connector's dead letters, the oldest first; Kafka deletes only all records before an offset."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import TopicPartition

from headrace.worker.deadletters.letter_topic import LetterTopic
from headrace.worker.errors import BadRequest, Conflict

ONLY_BEFORE: Final = (
    "Kafka can only delete all records before an offset: give each connector a dead letter topic of its own, or let "
    "retention.ms of the topic delete them"
)
"""The reason not to delete letters of a topic that others use, and the remedy."""
_LONGEST_S: Final = 10.0
_REQUEST_S: Final = 30.0


@dataclass(frozen=True)
class Removal:
    """The outcome of a deletion."""

    first: dict[int, int]
    """The offset of each partition at which its letters begin now."""
    is_over: bool
    """False if it stopped before the wanted offsets, because time was over."""


def remove(topic: LetterTopic, consumer: Any, upto: Mapping[int, int] | None) -> Removal:
    """Delete the letters up to these offsets, these included; None: all that are there now.

    All letters that would go are looked at before, because those of another connector must not.
    Errors: BadRequest for a partition that the topic does not have; Conflict if the topic has letters of another
    connector; NotFound, KafkaException, KafkaSilent.
    """
    ends = topic.ends(consumer)
    if unknown := sorted(set(upto or {}) - ends.keys()):
        raise BadRequest(f"{topic.name} has no partition {unknown[0]}")
    low = {number: first for number, (first, _) in ends.items()}
    end = {number: high if upto is None else upto.get(number, -1) + 1 for number, (_, high) in ends.items()}
    end = {number: max(low[number], min(to, ends[number][1])) for number, to in end.items()}
    reading = topic.reading(consumer, low, end, time.monotonic() + _LONGEST_S)
    for letter in reading:
        if not topic.has(letter):
            raise Conflict(f"{letter} is connector {letter.told['connector.name']}'s, and {ONLY_BEFORE}")
    wanted = [TopicPartition(topic.name, number, to) for number, to in reading.next.items() if to > low[number]]
    for answer in topic.admin().delete_records(wanted, request_timeout=_REQUEST_S).values() if wanted else ():
        answer.result()  # the client fails the request itself once its time is over
    return Removal({number: max(to, low[number]) for number, to in reading.next.items()}, reading.is_over)
