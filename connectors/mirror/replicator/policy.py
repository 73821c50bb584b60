"""The names of copies by `topic.rename.format`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.policy import ReplicationPolicy

NAME: Final = "headrace.connectors.mirror.RenamePolicy"
FORMAT: Final = "topic.rename.format"
TOPIC: Final = "${topic}"


class RenamePolicy(ReplicationPolicy):
    """Puts a prefix before a topic's name and a suffix behind it; no name tells a topic's origin."""

    prefix: str
    suffix: str

    def configure(self, config: Mapping[str, str]) -> None:
        given = config.get(FORMAT, TOPIC).strip()
        self.prefix, found, self.suffix = given.partition(TOPIC)
        if not found or TOPIC in self.suffix:
            why = f"It has to have {TOPIC} once: a constant would merge all topics in one."
            raise ConfigError(Problem(FORMAT, given, why, f"Write {TOPIC}, or such as {TOPIC}.replica."))

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return f"{self.prefix}{topic}{self.suffix}"

    def topic_source(self, topic: str) -> str | None:
        return None

    def upstream_topic(self, topic: str) -> str | None:
        return None
