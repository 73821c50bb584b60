"""A connector's dead letters for a command: found by the config that a worker tells, or by the topic's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.properties import read_properties
from headrace.worker.cli.exits import CommandFailed
from headrace.worker.cli.login import Login
from headrace.worker.cli.worker_rest import Refused, WorkerRest, connector_path
from headrace.worker.deadletters.letter_topic import Clients, LetterTopic

TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"


@dataclass(frozen=True)
class Found:
    """A connector's dead letters, and its config if a worker gave it."""

    topic: LetterTopic
    config: Mapping[str, str] = field(default_factory=dict, repr=False)


def find(connector: str, login: Login, bootstrap: str, topic: str | None, file: Path | None) -> Found:
    """Find the connector's dead letters; `file`: properties of Kafka's clients.

    Errors: CommandFailed, ConfigError, OSError.
    """
    client = {} if file is None else read_properties(file)
    if topic is not None:
        return Found(_topic(connector, topic, bootstrap, client))
    config = config_of(connector, login)
    named = (config.get(TOPIC_KEY) or "").strip()
    if not named:
        raise CommandFailed(f"connector {connector} has no dead letter topic: its config does not set {TOPIC_KEY}", 2)
    return Found(_topic(connector, named, bootstrap, client), config)


def _topic(connector: str, name: str, bootstrap: str, client: Mapping[str, str]) -> LetterTopic:
    def made(kind: str, own: Mapping[str, str]) -> dict[str, Any]:
        return ClientConfig(kind, {**client, "bootstrap.servers": bootstrap, **own}).librdkafka()

    own = {"group.id": "none", "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    producer, admin = made("producer", {"acks": "all", "enable.idempotence": "true"}), made("admin", {})
    return LetterTopic(connector, name, Clients(made("consumer", own), producer, admin, admin))


def config_of(connector: str, login: Login) -> dict[str, str]:
    """Get a connector's config from a worker. Errors: CommandFailed."""
    try:
        with WorkerRest(login) as rest:
            said = rest.asked("GET", f"{connector_path(connector)}/config")
            with rest.understood():
                return {str(key): str(value) for key, value in dict(said).items() if value is not None}
    except CommandFailed as error:
        is_unknown = isinstance(error, Refused) and error.status == 404
        text = f"{error}; --topic names the dead letter topic, and no worker is asked"
        raise CommandFailed(text, 2 if is_unknown else error.code) from error
