"""Chooses the settings of a topic that are copied to its remote topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigSource

from headrace.connectors.mirror.filters import ConfigPropertyFilter

Entries = Mapping[str, ConfigEntry]


class ConfigChange(NamedTuple):
    """One setting of a remote topic to be changed."""

    name: str
    value: str | None
    """None: it is removed, and the target's default holds."""

    def entry(self) -> ConfigEntry:
        """The change in the form of Kafka's client."""
        kind = AlterConfigOpType.DELETE if self.value is None else AlterConfigOpType.SET
        return ConfigEntry(self.name, self.value, incremental_operation=kind)

    def __str__(self) -> str:
        return f"{self.name} removed" if self.value is None else f"{self.name}={self.value}"


def of_new_topic(source: Entries, properties: ConfigPropertyFilter) -> dict[str, str]:
    """The settings that a remote topic is created with."""
    wanted = _wanted(source, properties)
    return {name: value for name, value in wanted if value is not None}


def changes(source: Entries, target: Entries | None, properties: ConfigPropertyFilter) -> list[ConfigChange]:
    """The changes that give a remote topic its source's settings; all of them if the target's are unknown."""
    return [ConfigChange(*one) for one in _wanted(source, properties) if target is None or not _holds(target, *one)]


def _wanted(source: Entries, properties: ConfigPropertyFilter) -> Iterator[tuple[str, str | None]]:
    for name, entry in source.items():
        of_broker = _is_from(entry, ConfigSource.STATIC_BROKER_CONFIG)
        if entry.is_read_only or entry.is_sensitive or of_broker or not properties.passes(name):
            continue
        yield name, None if entry.is_default and not properties.defaults_from_source else entry.value


def _holds(target: Entries, name: str, value: str | None) -> bool:
    """True if a topic has this setting of its own; for None, if it has none of its own."""
    entry = target.get(name)
    own = entry is not None and _is_from(entry, ConfigSource.DYNAMIC_TOPIC_CONFIG)
    if value is None or entry is None:
        return value is None and not own
    return own and entry.value == value


def _is_from(entry: ConfigEntry, source: ConfigSource) -> bool:
    """True if the setting is of this kind; the client gives the kind as a number."""
    return entry.source in (source, source.value)
