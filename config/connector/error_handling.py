"""A connector's settings for failed records: tolerance, log, dead letters, retries.

Beyond Connect, sources have dead letters too, by the same settings, and a sink may have a retry topic. Connect's lists
of a connector's settings do not have them; they are checked all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.config.connector.config import Fault, consumption, framework_settings
from headrace.config.connector.settings import SINK
from headrace.config.problems import Problem
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.values import read

RETRY_TOPIC: Final = "errors.retry.topic.name"
_DEAD_LETTERS: Final = tuple(setting for setting in SINK if setting.name.startswith("errors.deadletterqueue."))
OWN: Final = {
    "source": Settings(*_DEAD_LETTERS),
    "sink": Settings(
        Setting(
            RETRY_TOPIC,
            Type.STRING,
            "",
            importance=Importance.LOW,
            documentation="The topic in which records wait whose write failed with a retriable error; none if empty.",
        )
    ),
}
"""Headrace's own settings by kind of connector."""


@dataclass(frozen=True)
class ErrorHandling:
    """A connector's handling of failed records."""

    tolerate: bool
    retry_timeout_ms: int
    """Counted from the first try; 0: no retry, -1: for ever."""
    retry_delay_max_ms: int
    log: bool
    log_records: bool
    dead_letters: str
    """The dead letter topic; empty: none."""
    replication_factor: int
    context_headers: bool
    retry_topic: str
    """The retry topic; empty: none."""

    @classmethod
    def of(cls, kind: str, connector: Mapping[str, str]) -> ErrorHandling:
        """The error handling of this config. Errors: ConfigError."""
        found = framework_settings(kind).parse(connector) | OWN[kind].parse(connector)
        return cls(
            found["errors.tolerance"] == "all",
            found["errors.retry.timeout"],
            found["errors.retry.delay.max.ms"],
            found["errors.log.enable"],
            found["errors.log.include.messages"],
            found["errors.deadletterqueue.topic.name"].strip(),
            found["errors.deadletterqueue.topic.replication.factor"],
            found["errors.deadletterqueue.context.headers.enable"],
            found.get(RETRY_TOPIC, "").strip(),
        )


def error_problems(kind: str, connector: Mapping[str, str | None]) -> list[Problem]:
    """Problems of Headrace's own settings and of their combinations."""
    given = {key: value for key, value in connector.items() if value is not None}
    problems = OWN[kind].problems(given)
    topic = given.get(RETRY_TOPIC, "").strip()
    if kind == "sink" and topic:
        problems += [Problem(RETRY_TOPIC, topic, text, remedy) for text, remedy in _retry_topic_conflicts(topic, given)]
    return problems


def _retry_topic_conflicts(topic: str, given: Mapping[str, str]) -> list[Fault]:
    found = list[Fault]()
    if given.get("errors.retry.timeout", "0").strip() == "0":
        found.append(
            (
                "A retry topic needs errors.retry.timeout: with 0 no record is tried again.",
                "Set errors.retry.timeout to the milliseconds in which a record is to be tried again, or to -1.",
            )
        )
    if topic == given.get("errors.deadletterqueue.topic.name", "").strip():
        found.append((f"The retry topic '{topic}' is the dead letter topic, too.", "Name two topics."))
    refused = SINK["topics.regex"].judge(given).errors  # reported by that setting's validation
    regex = "" if refused else given.get("topics.regex", "")
    consumed = (
        f"The retry topic '{topic}' is among the topics that the connector consumes.",
        "The connector reads its retry topic by itself: name one that neither topics nor topics.regex covers.",
    )
    return found + consumption(topic, read("topics", Type.LIST, given.get("topics", "")), regex, consumed)
