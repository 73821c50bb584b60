"""`headrace topic show`: reads records of a topic, and shows them by a converter or by a guess."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.config.instants import epoch_ms
from headrace.config.kafka.client_config import ClientConfig
from headrace.config.kafka.client_settings import CONSUMER
from headrace.config.problems import ConfigError, Problem
from headrace.config.properties import read_properties
from headrace.config.worker.config import WorkerConfig
from headrace.worker.cli.record_lines import RecordLines, side_of
from headrace.worker.errors import NotFound
from headrace.worker.herder.plugins import worker_config
from headrace.worker.kafka.topic_reading import TIMEOUT_S, KafkaSilent, TopicReading, ends_of

_LAST: Final = 10
_MEMORY: Final = 32 << 20
_POLL_S: Final = 0.5
_OWN: Final = {
    "group.id": "headrace-topic-show",  # nothing is committed: librdkafka needs a group's name all the same
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "allow.auto.create.topics": "false",
}
_HARMLESS: Final = (KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED)
"""Errors of a consumer that needs no group."""


@dataclass(frozen=True)
class Wanted:
    """The records to show."""

    topic: str
    last: int | None
    begin: str | None
    limit: int | None
    partition: int | None
    follow: bool
    as_json: bool


@dataclass(frozen=True)
class Source:
    """A Kafka cluster, and the converters of its records."""

    client: ClientConfig
    settings: Mapping[str, str] = field(repr=False)
    """Settings of converters, as of a connector."""
    registry: str | None


def source_of(
    worker: Path | None,
    command_config: Path | None,
    bootstrap: str | None,
    converters: Mapping[str, str | None],
    properties: Sequence[str],
    registry: str | None,
) -> Source:
    """Read what the options name: a worker's properties, under those of a client. Errors: ConfigError, OSError."""
    client: dict[str, str] = {"bootstrap.servers": "127.0.0.1:9092"}
    settings: dict[str, str] = {}
    if worker is not None:
        given = read_properties(worker)
        config = worker_config(given, WorkerConfig.distributed if "group.id" in given else WorkerConfig.standalone)
        client |= {key: value for key, value in config.originals.items() if key in CONSUMER and key != "group.id"}
        client |= config.with_prefix("consumer.")
        settings |= {key: value for key, value in config.originals.items() if ".converter" in key}
    client |= {} if command_config is None else read_properties(command_config)
    client |= {} if bootstrap is None else {"bootstrap.servers": bootstrap}
    for side, name in converters.items():
        if name is not None:
            settings = {key: value for key, value in settings.items() if not key.startswith(side)} | {side: name}
    for text in properties:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(Problem("--property", text, "It is no setting.", "Write it as KEY=VALUE."))
        settings[key.strip()] = value.strip()
    return Source(ClientConfig("consumer", {**client, **_OWN}), settings, registry)


def show(wanted: Wanted, source: Source) -> None:
    """Print the records. Errors: ConfigError, NotFound, KafkaSilent."""
    with ExitStack() as held:
        key, value = (held.enter_context(side_of(side, source.settings, source.registry)) for side in ("key", "value"))
        shown = RecordLines(wanted.topic, key, value, wanted.as_json, wanted.limit)
        consumer = held.enter_context(_consumer(source))
        ends = ends_of(consumer, wanted.topic)
        if wanted.partition is not None:
            ends = {number: both for number, both in ends.items() if number == wanted.partition}
        if not ends:
            raise NotFound(f"The topic {wanted.topic} has no partition {wanted.partition}")
        begin = _begin(wanted, consumer, ends)
        reading = TopicReading(consumer, wanted.topic, begin, {number: high for number, (_, high) in ends.items()})
        for message in _newest(reading, _LAST if wanted.last is None else wanted.last, wanted):
            if shown.is_full:
                break
            shown.show(message)
        if wanted.follow:
            _follow(consumer, wanted.topic, reading.next, shown)
        shown.tell()


@contextmanager
def _consumer(source: Source) -> Iterator[Any]:
    try:
        consumer = Consumer({**source.client.librdkafka(_MEMORY), "enable.partition.eof": True})
        try:
            yield consumer
        finally:
            consumer.close()
    except KafkaException as error:
        raise KafkaSilent(f"Kafka at {source.client.java['bootstrap.servers']}: {error}") from error


def _begin(wanted: Wanted, consumer: Any, ends: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """The offset of each partition to begin at. Errors: ConfigError for a place that is none; KafkaException."""
    text = wanted.begin
    if text is None:
        count = _LAST if wanted.last is None else wanted.last
        return {number: max(low, high - count) for number, (low, high) in ends.items()}
    if text == "earliest":
        return {number: low for number, (low, _) in ends.items()}
    if text.isascii() and text.isdecimal():
        return {number: min(high, max(low, int(text))) for number, (low, high) in ends.items()}
    try:
        ms = epoch_ms(text, zone=None)
    except ValueError:
        remedy = "Write earliest, an offset, or a time such as 2026-11-28T09:30."
        raise ConfigError(Problem("--from", text, "It is no place to begin at.", remedy)) from None
    asked = [TopicPartition(wanted.topic, number, ms) for number in ends]
    found = {one.partition: one.offset for one in consumer.offsets_for_times(asked, timeout=TIMEOUT_S)}
    return {number: high if found[number] < 0 else found[number] for number, (_, high) in ends.items()}


def _newest(reading: TopicReading, last: int, wanted: Wanted) -> Iterator[Any]:
    """The messages to show: the last ones of all partitions together in the order of time, or all as they come."""
    if wanted.begin is not None:
        yield from reading.messages()
        return
    numbered = ((one.timestamp()[1], number, one) for number, one in enumerate(reading.messages()))
    for _, _, message in sorted(heapq.nlargest(last, numbered)):
        yield message


def _follow(consumer: Any, topic: str, begin: Mapping[int, int], shown: RecordLines) -> None:
    """Show what comes until Ctrl-C. Errors: KafkaException."""
    consumer.assign([TopicPartition(topic, number, offset) for number, offset in begin.items()])
    try:
        while not shown.is_full:
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                shown.show(message)
            elif error.code() not in _HARMLESS and not error.retriable():
                raise KafkaException(error)
    except KeyboardInterrupt:
        return
