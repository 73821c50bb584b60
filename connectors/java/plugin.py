"""Classes that represent Java plugins: one for each Java class, made when a config first names it.

They are found as an entry point of the group `headrace.jar_plugin` (`plugins/interop/discovery.py`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.config.plugin_path import JarPlugin
from headrace.connectors.java.connector import VALIDATION_S, JavaConnector, JavaSinkConnector, JavaSourceConnector
from headrace.connectors.java.definition import Offers, settings_of
from headrace.connectors.java.hosts import running_host
from headrace.connectors.java.provider import JavaConfigProvider
from headrace.connectors.java.sink_task import JavaSinkTask
from headrace.connectors.java.stage import named
from headrace.connectors.java.stand_ins import STAND_INS
from headrace.connectors.java.task import JavaSourceTask

log = logging.getLogger(__name__)

_made: Final[dict[JarPlugin, type[Any]]] = {}
_making: Final = threading.Lock()


def source_connector(jar_plugin: JarPlugin) -> type[Any]:
    """Return the connector class of a Java source connector, with its declared settings.

    Errors: those of the host and of the plugin.
    """
    return _once(jar_plugin, lambda: _connector(jar_plugin, JavaSourceConnector, JavaSourceTask))


def sink_connector(jar_plugin: JarPlugin) -> type[Any]:
    """Return the connector class of a Java sink connector; as `source_connector`."""
    return _once(jar_plugin, lambda: _connector(jar_plugin, JavaSinkConnector, JavaSinkTask))


def part(jar_plugin: JarPlugin) -> type[Any]:
    """Return the class of a Java transform, predicate or converter; as `source_connector`."""
    return _once(jar_plugin, lambda: _part(jar_plugin))


def config_provider(jar_plugin: JarPlugin) -> type[JavaConfigProvider]:
    """Return the class of a Java config provider; starts no host."""
    members = {"plugin": named(jar_plugin), "version": jar_plugin.version}
    return type(jar_plugin.class_name.rpartition(".")[2], (JavaConfigProvider,), members)


def _once(jar_plugin: JarPlugin, make: Callable[[], type[Any]]) -> type[Any]:
    with _making:
        if jar_plugin not in _made:
            _made[jar_plugin] = make()
        return _made[jar_plugin]


def _connector(
    jar_plugin: JarPlugin, connector: type[JavaConnector], base: type[JavaSourceTask | JavaSinkTask]
) -> type[JavaConnector]:
    plugin = named(jar_plugin)
    described = running_host().call("plugin.describe", VALIDATION_S, plugin=plugin)
    name = jar_plugin.class_name.rpartition(".")[2]
    task = type(f"{name}Task", (base,), {"plugin": plugin})
    members = {
        "plugin": plugin,
        "settings": settings_of(described["settings"], _offers(plugin)),
        "version": described["version"],
        "task": task,
    }
    return type(name, (connector,), members)


def _part(jar_plugin: JarPlugin) -> type[Any]:
    plugin = named(jar_plugin)
    described = running_host().call("plugin.describe", VALIDATION_S, plugin=plugin)

    def check(name: str, text: str | None) -> str | None:
        objection: str | None = running_host().call("plugin.check", VALIDATION_S, plugin=plugin, name=name, text=text)
        return objection

    members = {
        "jar": jar_plugin,
        "settings": settings_of(described["settings"], _offers(plugin), check),
        "version": described["version"] or jar_plugin.version or "undefined",
        "undeclared": () if described["settings"] else ("",),  # a converter need not declare what it reads
    }
    return type(jar_plugin.class_name.rpartition(".")[2], (STAND_INS[jar_plugin.kind],), members)


def _offers(plugin: Mapping[str, Any]) -> Offers:
    def offers(config: Mapping[str, str]) -> dict[str, Any]:
        said = running_host().call("plugin.offers", VALIDATION_S, plugin=plugin, config=dict(config))
        return {one["name"]: one for one in said}

    return offers
