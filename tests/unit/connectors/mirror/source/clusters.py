"""A cluster of the unit tests, which answers as `source.cluster.ClusterAdmin` does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import ConfigEntry, ConfigSource

from headrace.connectors.mirror.source.cluster import Topic
from headrace.plugins.offsets import TopicPartition


def entry(name: str, value: str | None, source: ConfigSource = ConfigSource.DYNAMIC_TOPIC_CONFIG, **more: Any) -> Any:
    """A setting as it is described."""
    number: Any = source.value
    return ConfigEntry(name, value, number, is_default=source is ConfigSource.DEFAULT_CONFIG, **more)


class FakeCluster:
    """Topics are kept; `refuse` says with which error a topic cannot be created, grown or changed."""

    def __init__(self, alias: str, **topics: int) -> None:
        self.alias = alias
        self.there = {name.replace("__", "."): Topic(f"{alias}-{name}", count) for name, count in topics.items()}
        self.settings: dict[str, dict[str, ConfigEntry]] = {}
        self.refuse: dict[str, int] = {}
        self.hidden: set[str] = set()
        self.created: list[Any] = []
        self.changed: dict[str, list[tuple[str, str | None]]] = {}
        self.ended: dict[TopicPartition, int] = {}
        self.bindings: list[Any] | Exception = []
        self.new_bindings: list[Any] = []
        self.id = alias
        self.when_listed: Callable[[], object] = lambda: None

    def listed(self) -> tuple[str, int, list[str]]:
        self.when_listed()
        return self.id, 1, list(self.there)

    def topics(self, names: Collection[str]) -> dict[str, Any]:
        hidden = {name: KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED) for name in names if name in self.hidden}
        return hidden | {name: self.there[name] for name in names if name in self.there}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: self.ended.get(one, 0) for one in partitions}

    def create(self, topics: Sequence[Any]) -> dict[str, Any]:
        for new in topics:
            if new.topic not in self.refuse:
                self.created.append(new)
                self.there[new.topic] = Topic(f"{self.alias}-{new.topic}-{len(self.created)}", new.num_partitions)
        return self._outcome(new.topic for new in topics)

    def grow(self, counts: Mapping[str, int]) -> dict[str, Any]:
        for topic, count in counts.items():
            if topic not in self.refuse:
                self.there[topic] = self.there[topic]._replace(partitions=count)
        return self._outcome(counts)

    def configs(self, topics: Collection[str]) -> dict[str, Any]:
        denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        return {name: denied if name in self.hidden else self.settings.get(name, {}) for name in topics}

    def alter_configs(self, changes: Mapping[str, Sequence[ConfigEntry]]) -> dict[str, Any]:
        self.changed |= {topic: [(one.name, one.value) for one in entries] for topic, entries in changes.items()}
        return self._outcome(changes)

    def acls(self) -> list[Any]:
        if isinstance(self.bindings, Exception):
            raise self.bindings
        return self.bindings

    def create_acls(self, bindings: Sequence[Any]) -> dict[Any, Any]:
        self.new_bindings += bindings
        return dict.fromkeys(bindings)

    def _outcome(self, topics: Iterable[str]) -> dict[str, Any]:
        return {name: KafkaError(self.refuse[name]) if name in self.refuse else None for name in topics}
