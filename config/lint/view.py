"""A connector's config as rules see it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.config.connector.config import consumes, converter_config, sink_group
from headrace.config.connector.error_handling import RETRY_TOPIC
from headrace.config.connector.removed_settings import RemovedSetting
from headrace.config.connector.unknown_settings import UnknownSetting
from headrace.config.name_regex import TooSlowError
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings, Type
from headrace.config.values import read
from headrace.config.variables import variables_in
from headrace.config.worker.config import WorkerConfig


@dataclass(frozen=True)
class ClusterFacts:
    """The Kafka cluster of a worker."""

    brokers: int
    partitions: Mapping[str, int]
    """The number of partitions of each topic."""


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of a connector, as far as they are known."""

    worker: WorkerConfig | None = None
    cluster: ClusterFacts | None = None
    not_asked: str = ""
    """The reason that the cluster's facts lack, if it was to be asked."""
    others: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """The configs of other connectors, by name."""
    tasks: int | None = None
    """The number of tasks that the connector has made."""


@dataclass(frozen=True)
class ConnectorView:
    """One connector with its surroundings."""

    config: Mapping[str, str]
    kind: str
    """`source` or `sink`; empty if its plugin is unknown."""
    connector: Any = None
    """An object of the connector's class; None if its plugin is unknown."""
    declared: Settings = field(default_factory=Settings)
    """All settings that its plugins declare, by full name."""
    problems: Sequence[Problem] = ()
    """The refusals of validation."""
    unread: Sequence[UnknownSetting] = ()
    removed: Mapping[str, RemovedSetting] = field(default_factory=dict)
    """Settings of the config that only former versions of its plugins had."""
    around: Surroundings = field(default_factory=Surroundings)

    @property
    def name(self) -> str:
        """The connector's name; empty if it has none."""
        return self.config.get("name", "")

    def has_variable(self, key: str) -> bool:
        """True if the value, or the name of the setting, has a variable."""
        return has_variable(self.config.get(key, "")) or has_variable(key)

    @property
    def plain(self) -> dict[str, str]:
        """The settings without variables."""
        return {key: value for key, value in self.config.items() if not self.has_variable(key)}

    def text(self, key: str) -> str:
        """The value without blanks around it; empty if it is not given, or has a variable."""
        return "" if self.has_variable(key) else self.config.get(key, "").strip()

    def items(self, key: str) -> list[str]:
        """The items of a list; none if it has a variable."""
        return [item for item in read(key, Type.LIST, self.text(key)) if item]

    def is_on(self, key: str) -> bool:
        """True if the value is `true`."""
        return self.text(key).lower() == "true"

    def number(self, key: str, default: int | None = None) -> int | None:
        """The value as a number; `default` if it is not given; None if it is none, or has a variable."""
        if key not in self.config:
            return default
        try:
            return int(self.text(key))
        except ValueError:
            return None

    @property
    def group(self) -> str:
        """The consumer group of a sink; empty if a variable gives it."""
        return group_of(self.name, self.config)

    @property
    def failed_records(self) -> Mapping[str, str]:
        """The topics of this connector's failed records, by the settings that name them."""
        return topics_of_failed(self.config)

    def others_failed(self) -> Iterator[tuple[str, Collection[str]]]:
        """The topics of the other connectors' failed records, by the connectors' names."""
        for name, config in self.around.others.items():
            if name != self.name:
                yield name, topics_of_failed(config).values()

    @property
    def cluster(self) -> ClusterFacts | None:
        """The cluster of this connector; None if it is not known, or the connector's clients have another one."""
        overridden = any(f"{kind}.override.bootstrap.servers" in self.config for kind in ("producer", "consumer"))
        return None if overridden else self.around.cluster

    def reads(self, topics: Collection[str]) -> list[str]:
        """The topics among these that this sink reads; Kafka's internal ones are never read."""
        named, regex = self.items("topics"), self.text("topics.regex")
        try:
            return [topic for topic in topics if not topic.startswith("__") and consumes(topic, named, regex)]
        except (ConfigError, TooSlowError):  # validation refuses the expression
            return []

    def value_converter(self) -> tuple[str, Mapping[str, str]] | None:
        """Class and properties of the value converter; None if it is not known."""
        if self.has_variable("value.converter"):
            return None
        if "value.converter" not in self.config and self.around.worker is None:
            return None
        worker = {} if self.around.worker is None else self.around.worker.originals
        found = converter_config("value", self.config, worker)
        return found.class_name, found.props


FAILED_RECORDS: Final = ("errors.deadletterqueue.topic.name", RETRY_TOPIC)
"""The settings that name topics of failed records."""


def has_variable(text: str) -> bool:
    """True if a text has a variable, which only a worker resolves."""
    return next(variables_in(text), None) is not None


def topics_of_failed(config: Mapping[str, str | None]) -> dict[str, str]:
    """The topics of a connector's failed records, by the settings that name them."""
    named = {key: (config.get(key) or "").strip() for key in FAILED_RECORDS}
    return {key: topic for key, topic in named.items() if topic and not has_variable(topic)}


def is_sink(config: Mapping[str, str | None]) -> bool:
    """True if a config is that of a sink by its settings."""
    return any((config.get(key) or "").strip() for key in ("topics", "topics.regex"))


def group_of(name: str, config: Mapping[str, str | None]) -> str:
    """The consumer group of a sink; empty if a variable gives it."""
    group = (config.get("consumer.override.group.id") or "").strip() or sink_group(name)
    return "" if has_variable(group) else group
