"""Finds settings in a connector's config that only former versions of its plugins had."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headrace.config.connector.enrichment import PluginClass, PluginLookup
from headrace.config.connector.plugin_versions import compared, of_version
from headrace.config.connector.settings import CONVERTER_KINDS
from headrace.config.problems import ConfigError, Problem
from headrace.config.removed import removed
from headrace.config.settings import Type
from headrace.config.values import read

log = logging.getLogger(__name__)


class RemovedSetting(NamedTuple):
    """A setting that its plugin no longer has, with advice."""

    advice: str
    protects: bool

    def problem(self, key: str, value: str | None) -> Problem:
        """The refusal of a setting that kept data back."""
        return Problem(key, value, f"The setting {key} has no effect, and what it kept back would pass: {self.advice}.")


def removed_settings(
    config: Mapping[str, str | None], connector: PluginClass, plugins: PluginLookup
) -> dict[str, RemovedSetting]:
    """Removed settings of the connector, its transforms, predicates and converters, by their full names."""
    found: dict[str, RemovedSetting] = {}
    for plugin, prefix in _plugins(config, connector, plugins.beside(connector)):
        for key in config:
            name = key.removeprefix(prefix)
            was = removed(plugin.class_name, name) if key.startswith(prefix) else None
            if was is None or compared(plugin.version or was.since, was.since) < 0:
                continue
            if name not in plugin.load().settings:
                found[key] = RemovedSetting(was.advice(prefix), was.protects)
    return found


def check_removed(about: str, config: Mapping[str, str], connector: PluginClass, plugins: PluginLookup) -> None:
    """Refuses a stored config with a removed setting that kept data back; warns of others. Errors: ConfigError."""
    found = removed_settings(config, connector, plugins)
    if problems := [one.problem(key, config[key]) for key, one in found.items() if one.protects]:
        raise ConfigError(problems)
    for key, one in found.items():
        log.warning("%s: the setting %s has no effect: %s", about, key, one.advice)


def _plugins(
    config: Mapping[str, str | None], connector: PluginClass, plugins: PluginLookup
) -> Iterator[tuple[PluginClass, str]]:
    """The known plugins in the config, each with the prefix of its settings."""
    yield connector, ""
    named: list[tuple[str, str, tuple[str, ...]]]
    named = [(f"{side}.converter", "", ("converter", "header_converter")) for side in CONVERTER_KINDS]
    for chain, kind in (("transforms", "transformation"), ("predicates", "predicate")):
        aliases = read(chain, Type.LIST, config.get(chain) or "")
        named += [(f"{chain}.{alias}", ".type", (kind,)) for alias in dict.fromkeys(aliases)]
    for before, of_class, kinds in named:
        full = plugins.full_name((config.get(before + of_class) or "").strip())
        plugin = next((one for one in plugins.of_kind(*kinds) if one.class_name == full), None)
        chosen = None if plugin is None else of_version(plugin, config.get(f"{before}.plugin.version"))
        if chosen is not None:
            yield chosen, f"{before}."
