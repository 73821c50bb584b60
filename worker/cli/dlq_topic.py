"""A connector's dead letter topic: found by its config, read from outside, without other connectors' letters."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.properties import read_properties
from headrace.worker.deadletters.failed_records import PREFIX
from headrace.worker.deadletters.retry_topic import PREFIX as RETRY_PREFIX

TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"
TIMEOUT_S: Final = 15.0
_NOTHING: Final = KafkaError(KafkaError._TIMED_OUT, "no broker says why", False, True)


class DlqError(Exception):
    """A command cannot be done; `code` is its exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class DeadLetters:
    """A connector's dead letters, and the way to reach them."""

    connector: str
    topic: str
    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the Kafka clients by Java's names, such as a login."""
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The connector's config, if a worker gave it."""

    @property
    def group(self) -> str:
        """The group for which replayed letters are committed."""
        return f"headrace-dlq-{self.connector}"

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Yield a consumer that may commit for the group without being a member.

        Errors: DlqError for errors of Kafka or its client inside.
        """
        try:
            consumer = self._consumer()
            try:
                yield consumer
            finally:
                consumer.close()
        except KafkaException as error:
            text = f"Kafka at {self.bootstrap}: {error}; another is named by --bootstrap-server, a login by "
            raise DlqError(f"{text}--command-config", 3) from error

    def _consumer(self) -> Any:
        own = {"group.id": self.group, "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
        return Consumer({**self._client("consumer", own), "enable.partition.eof": True})

    def producer(self) -> Any:
        """Make a producer that keeps the order. Errors: KafkaException."""
        return Producer(self._client("producer", {"acks": "all", "enable.idempotence": "true"}))

    def _client(self, kind: str, own: Mapping[str, str]) -> dict[str, Any]:
        return ClientConfig(kind, {**self.client, "bootstrap.servers": self.bootstrap, **own}).librdkafka()

    def ends(self, consumer: Any) -> dict[int, tuple[int, int]]:
        """Each partition's first and next offset. Errors: KafkaException, DlqError."""
        found = consumer.list_topics(self.topic, timeout=TIMEOUT_S).topics[self.topic]
        if found.error is not None:
            raise DlqError(f"topic {self.topic} cannot be read: {found.error.str()}")
        return {
            number: consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=TIMEOUT_S)
            for number in found.partitions
        }

    def read(self, consumer: Any, begin: Mapping[int, int], ends: Mapping[int, tuple[int, int]]) -> Iterator[Any]:
        """Yield the messages from `begin` to the ends, each partition's in order. Errors: KafkaException, DlqError."""
        open_ = {number for number, (_, high) in ends.items() if begin[number] < high}
        if not open_:
            return
        consumer.assign([TopicPartition(self.topic, number, begin[number]) for number in open_])
        until = time.monotonic() + TIMEOUT_S
        while open_:
            message = consumer.poll(max(0.0, until - time.monotonic()))
            error = _NOTHING if message is None else message.error()
            if error is None:
                number, high = message.partition(), ends[message.partition()][1]
                if number in open_ and message.offset() < high:
                    yield message
                if message.offset() + 1 >= high:
                    open_.discard(number)
                until = time.monotonic() + TIMEOUT_S
            elif error.code() == KafkaError._PARTITION_EOF:
                open_.discard(message.partition())
            elif not error.retriable():
                raise KafkaException(error)
            elif time.monotonic() >= until:
                raise DlqError(f"Kafka gives no records of {self.topic} for {TIMEOUT_S:.0f} s: {error.str()}", 3)

    def has(self, message: Any) -> bool:
        """True if the letter is this connector's by its headers: several connectors may share a topic."""
        return context(message).get("connector.name", self.connector) == self.connector


def find(
    connector: str, rest: str, bootstrap: str, topic: str | None, file: Path | None, cacert: Path | None = None
) -> DeadLetters:
    """Find the connector's dead letters; `file`: properties of Kafka's clients; `cacert`: trusted for REST.

    Errors: DlqError, ConfigError, OSError.
    """
    client = {} if file is None else read_properties(file)
    if topic is not None:
        return DeadLetters(connector, topic, bootstrap, client)
    config = config_of(connector, rest, cacert)
    named = (config.get(TOPIC_KEY) or "").strip()
    if not named:
        raise DlqError(f"connector {connector} has no dead letter topic: its config does not set {TOPIC_KEY}", 2)
    return DeadLetters(connector, named, bootstrap, client, config)


def config_of(connector: str, rest: str, cacert: Path | None = None) -> dict[str, str]:
    """Get a connector's config from a worker. Errors: DlqError."""
    try:
        trusted = True if cacert is None else ssl.create_default_context(cafile=cacert)
    except OSError as error:
        raise DlqError(f"--cacert {cacert}: the certificates cannot be read: {error.strerror or error}", 2) from error
    url = f"{rest.rstrip('/')}/connectors/{quote(connector, safe='')}/config"
    other = "name one with --rest, or the topic with --topic"
    try:
        answer = httpx.get(url, timeout=TIMEOUT_S, follow_redirects=True, verify=trusted)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DlqError(f"no worker answers at {rest}: {error}; {other}", 3) from error
    if answer.status_code == 404:
        raise DlqError(f"there is no connector {connector} at {rest}; its topic can be named with --topic", 2)
    if answer.is_error:
        raise DlqError(f"the worker at {rest} answers {answer.status_code}: {answer.text[:300]!r}")
    try:
        return {str(key): str(value) for key, value in dict(answer.json()).items() if value is not None}
    except (ValueError, TypeError) as error:
        raise DlqError(f"what answers at {rest} is no worker: {answer.text[:100]!r}; {other}", 3) from error


def context(message: Any) -> dict[str, str]:
    """The letter's headers about the error and the record's origin."""
    return {
        key.removeprefix(PREFIX): (value or b"").decode("utf-8", "replace")
        for key, value in message.headers() or ()
        if key.startswith(PREFIX)
    }


def own_headers(message: Any) -> list[tuple[str, bytes | None]]:
    """The headers that the record had before it failed."""
    return [pair for pair in message.headers() or () if not pair[0].startswith((PREFIX, RETRY_PREFIX))]
