"""Ranges of Kafka partitions as Arrow batches.

One consumer reads all ranges, in whatever order they come; a partition's batches are in its order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Position

from headrace.config.kafka.client_config import ClientConfig
from headrace.plugins.interop.conversion.kafka_rows import to_arrow
from headrace.plugins.offsets import TopicPartition

_AT_ONCE: Final = 10_000
_WAIT_S: Final = 0.05
_MEMORY: Final = 64 << 20
_OWN: Final = {
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "log_level": 2,
}
_IGNORED: Final = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
"""The group is not used; a lost connection is made again, or nothing comes for too long."""


class OffsetRange(NamedTuple):
    """Offsets from `start` on, `end` excluded."""

    start: int
    end: int


class UnreachableError(Exception):
    """A cluster does not answer in time, or refuses to."""


def read(
    client: ClientConfig,
    ranges: Mapping[TopicPartition, OffsetRange],
    timeout_s: float,
    progress: Callable[[int], None] = lambda offsets: None,
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Yield the records of the ranges, in the shape `KAFKA_ROW`; `progress` gets the count of offsets newly done.

    Errors: UnreachableError when nothing comes for `timeout_s`; a range whose records are deleted meanwhile ends early.
    """
    waiting = {at: wanted for at, wanted in ranges.items() if wanted.start < wanted.end}
    if not waiting:
        return
    settings = client.librdkafka(memory_bytes=_MEMORY)
    consumer = Consumer(settings | _OWN)
    try:
        consumer.assign([Position(*at, wanted.start) for at, wanted in waiting.items()])
        positions = {at: wanted.start for at, wanted in waiting.items()}
        heard = time.monotonic()
        while waiting:
            messages = consumer.consume(_AT_ONCE, _WAIT_S)
            if not messages and time.monotonic() - heard > timeout_s:
                missing = ", ".join(map(str, list(waiting)[:3]))
                raise UnreachableError(f"nothing came for {timeout_s:g} s from {missing}")
            if messages:
                heard = time.monotonic()
            done, found = _sorted_out(messages, waiting)
            for at, records in found.items():
                progress(records[-1].offset() + 1 - positions[at])
                positions[at] = records[-1].offset() + 1
                yield at, to_arrow(records)
            for at in done & waiting.keys():
                progress(waiting.pop(at).end - positions[at])
                consumer.pause([Position(*at)])
    finally:
        consumer.close()


def _sorted_out(
    messages: list[Any], waiting: Mapping[TopicPartition, OffsetRange]
) -> tuple[set[TopicPartition], dict[TopicPartition, list[Any]]]:
    """The partitions at the end of their range, and the records within it."""
    done: set[TopicPartition] = set()
    records: dict[TopicPartition, list[Any]] = {}
    for message in messages:
        at = TopicPartition(message.topic() or "", message.partition())
        if (error := message.error()) is not None:
            if error.code() in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
                done.add(at)
            elif error.code() not in _IGNORED:
                raise UnreachableError(f"{at} cannot be read: {error.str()}")
            continue
        if at not in waiting:
            continue
        end, offset = waiting[at].end, message.offset()
        if offset < end:
            records.setdefault(at, []).append(message)
        if offset >= end - 1:
            done.add(at)
    return done, records
