"""Compares the settings of a topic and its copy, as far as the replication keeps them the same."""

from __future__ import annotations

from confluent_kafka.admin import ConfigEntry, ConfigSource

from headrace.connectors.mirror.filters import ConfigPropertyFilter
from headrace.connectors.mirror.source.topic_configs import Entries, changes


def differing(source: Entries, target: Entries, properties: ConfigPropertyFilter) -> list[str]:
    """The next sync's changes of settings, each in a few words; equal values are left out."""
    names = [change.name for change in changes(source, target, properties)]
    return [
        f"{name} is {_shown(source.get(name))} at the source and {_shown(target.get(name))} at the target"
        for name in names
        if value(source, name) != value(target, name)
    ]


def value(settings: Entries, name: str) -> str:
    """The value of a topic's setting, its own or the broker's; empty if unknown."""
    return (settings[name].value or "") if name in settings else ""


def _shown(setting: ConfigEntry | None) -> str:
    if setting is None:
        return "unknown"
    own = setting.source in (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    return f"{setting.value or 'empty'}{'' if own else ' by default'}"
