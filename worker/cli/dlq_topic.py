"""A connector's dead letters for a command: found by the config that a worker tells, or by the topic's name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.properties import read_properties
from headrace.worker.deadletters.letter_topic import Clients, LetterTopic, group_of
from headrace.worker.kafka.topic_reading import TIMEOUT_S

TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"


class DlqError(Exception):
    """A command cannot be done; `code` is its exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Found:
    """A connector's dead letters, and its config if a worker gave it."""

    topic: LetterTopic
    config: Mapping[str, str] = field(default_factory=dict, repr=False)


def find(
    connector: str, rest: str, bootstrap: str, topic: str | None, file: Path | None, cacert: Path | None = None
) -> Found:
    """Find the connector's dead letters; `file`: properties of Kafka's clients; `cacert`: trusted for REST.

    Errors: DlqError, ConfigError, OSError.
    """
    client = {} if file is None else read_properties(file)
    if topic is not None:
        return Found(_topic(connector, topic, bootstrap, client))
    config = config_of(connector, rest, cacert)
    named = (config.get(TOPIC_KEY) or "").strip()
    if not named:
        raise DlqError(f"connector {connector} has no dead letter topic: its config does not set {TOPIC_KEY}", 2)
    return Found(_topic(connector, named, bootstrap, client), config)


def _topic(connector: str, name: str, bootstrap: str, client: Mapping[str, str]) -> LetterTopic:
    def made(kind: str, own: Mapping[str, str]) -> dict[str, Any]:
        return ClientConfig(kind, {**client, "bootstrap.servers": bootstrap, **own}).librdkafka()

    group = {"group.id": group_of(connector), "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    producer = made("producer", {"acks": "all", "enable.idempotence": "true"})
    return LetterTopic(connector, name, Clients(made("consumer", group), producer, made("admin", {})))


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
