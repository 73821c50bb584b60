"""The classes that stand for Java plugins: one is made for each Java class, when a config names it first.

They are found as an entry point of the group `headrace.jar_plugin` (`plugins/discovery.py`).
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from headrace.connectors.java.connector import VALIDATION_S, JavaConnector, JavaSinkConnector, JavaSourceConnector
from headrace.connectors.java.definition import settings_of
from headrace.connectors.java.hosts import running_host
from headrace.connectors.java.provider import JavaConfigProvider
from headrace.connectors.java.sink_task import JavaSinkTask
from headrace.connectors.java.task import JavaSourceTask
from headrace.plugins.jars import JarPlugin

log = logging.getLogger(__name__)

_made: Final[dict[JarPlugin, type[JavaConnector]]] = {}
_making: Final = threading.Lock()


def source_connector(jar_plugin: JarPlugin) -> type[JavaConnector]:
    """The connector class of a Java source connector, with the settings that it declares.

    Errors: those of the host and of the plugin.
    """
    return _class_of(jar_plugin, JavaSourceConnector, JavaSourceTask)


def sink_connector(jar_plugin: JarPlugin) -> type[JavaConnector]:
    """The connector class of a Java sink connector; as `source_connector`."""
    return _class_of(jar_plugin, JavaSinkConnector, JavaSinkTask)


def config_provider(jar_plugin: JarPlugin) -> type[JavaConfigProvider]:
    """The class of a Java config provider; starts no host."""
    members = {"plugin": _named(jar_plugin), "version": jar_plugin.version}
    return type(jar_plugin.class_name.rpartition(".")[2], (JavaConfigProvider,), members)


def _named(jar_plugin: JarPlugin) -> dict[str, Any]:
    """The class with its jars, as a host is told."""
    return {
        "class": jar_plugin.class_name,
        "location": str(jar_plugin.location),
        "jars": [str(jar) for jar in jar_plugin.jars],
    }


def _class_of(
    jar_plugin: JarPlugin, connector: type[JavaConnector], task: type[JavaSourceTask | JavaSinkTask]
) -> type[JavaConnector]:
    with _making:
        if jar_plugin not in _made:
            _made[jar_plugin] = _new_class(jar_plugin, connector, task)
        return _made[jar_plugin]


def _new_class(
    jar_plugin: JarPlugin, connector: type[JavaConnector], base: type[JavaSourceTask | JavaSinkTask]
) -> type[JavaConnector]:
    plugin = _named(jar_plugin)
    described = running_host().call("plugin.describe", VALIDATION_S, plugin=plugin)

    def offers(config: Any) -> dict[str, Any]:
        said = running_host().call("plugin.offers", VALIDATION_S, plugin=plugin, config=dict(config))
        return {one["name"]: one for one in said}

    name = jar_plugin.class_name.rpartition(".")[2]
    task = type(f"{name}Task", (base,), {"plugin": plugin})
    members = {
        "plugin": plugin,
        "settings": settings_of(described["settings"], offers),
        "version": described["version"],
        "task_class": described["task"],
        "task": task,
    }
    return type(name, (connector,), members)
