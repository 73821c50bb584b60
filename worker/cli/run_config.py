"""The config of the connector that `headrace run` runs, found in a plugin and checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.config.problems import ConfigError
from headrace.config.properties import read_properties
from headrace.plugins.interop.discovery import CONNECTORS, PluginEntry, Plugins, found_in
from headrace.plugins.interop.plugin_places import places_of
from headrace.worker.cli.own_worker import WrongUse
from headrace.worker.cli.plugin_listing import gathered
from headrace.worker.errors import ConnectError
from headrace.worker.herder.plugins import InstalledPlugins

TOPIC: Final = "records"
"""Topic of a sink whose config names none."""


def settings_of(given: Sequence[str]) -> dict[str, str]:
    """Read `key=value` pairs and properties files, the later before the earlier. Errors: WrongUse."""
    config: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        try:
            config |= {key.strip(): value} if equals else read_properties(one)
        except ConfigError as error:
            raise WrongUse(
                f"{one}: write key=value, or name a properties file ({error.problems[0].message})"
            ) from error
    return config


def connector_in(plugin: Path, wanted: str | None) -> PluginEntry:
    """Return the connector of a file, folder or wheel; `wanted` is its class. Errors: WrongUse."""
    if not plugin.exists():
        raise WrongUse(f"{plugin} does not exist")
    told: list[str] = []
    with gathered(told):
        found = [entry for place in places_of(plugin.absolute()) for entry in found_in(place)]
    connectors = [entry for entry in found if entry.kind in CONNECTORS]
    named = [entry for entry in connectors if wanted is None or wanted in (entry.class_name, *entry.aliases())]
    if len(named) == 1:
        return named[0]
    if told:
        raise WrongUse("\n".join(told))
    if not connectors:
        others = ", ".join(f"the {one.kind} {one.class_name}" for one in found)
        raise WrongUse(f"{plugin} has no source and no sink" + (f": it has {others}" if others else ""))
    names = ", ".join(sorted(one.class_name for one in connectors))
    raise WrongUse(f"{plugin} has {names}: say which, as in --config connector.class={connectors[0].class_name}")


def completed(connector: PluginEntry, given: dict[str, str]) -> dict[str, str]:
    """Return the config with what may be left out: name, class, tasks, a sink's topic, copies of dead letters."""
    simple = connector.class_name.rpartition(".")[2]
    config = {"name": simple, "tasks.max": "1", **given, "connector.class": connector.class_name}
    if "errors.deadletterqueue.topic.name" in config:
        config.setdefault("errors.deadletterqueue.topic.replication.factor", "1")
    if connector.kind == "sink" and not config.keys() & {"topics", "topics.regex"}:
        config["topics"] = TOPIC
    return config


def plugin_path(plugin: Path) -> list[str]:
    """Return `plugin.path` of the worker: the plugin, and what the environment names."""
    others = os.environ.get("CONNECT_PLUGIN_PATH", "").split(",")
    return [str(plugin.absolute()), *(one.strip() for one in others if one.strip())]


def check(plugin: Path, config: dict[str, str]) -> None:
    """Import the plugin and validate the config. Errors: WrongUse with all that is wrong."""
    with gathered([]):
        found = Plugins.discover(plugin_path(plugin))
    try:
        found.find("connector", config["connector.class"]).load()
        problems = InstalledPlugins(found).validate({**config}).problems
    except (ConfigError, ConnectError) as error:
        raise WrongUse(str(error)) from error
    if problems:
        first = {problem.key: problem for problem in reversed(problems)}
        lines = [f"  {one.key}: {one.message.rstrip('.')}. {one.remedy}".rstrip() for one in reversed(first.values())]
        raise WrongUse("\n".join([f"the config of {config['connector.class']} is wrong:", *lines]))
