"""Metrics of plugins inside a host (`pluginMetrics()`), as beans like Connect's."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from headrace.connectors.java.host.connect_internals import new_plugin_metrics
from headrace.connectors.java.host.logs import current_number

_made: Final[dict[int | None, list[Any]]] = {}
_lock: Final = threading.Lock()


def plugin_metrics(tags: Mapping[str, str]) -> Any:
    """Return metrics for a plugin, until `close_metrics` of the connector or task that this thread works for.

    Each has its own registry: a new task may have a metric of the same name before the old one has ended.
    """
    made = new_plugin_metrics(tags)
    with _lock:
        _made.setdefault(current_number(), []).append(made)
    return made


def task_tags(name: str) -> dict[str, str]:
    """Return Connect's tags for a task, by its name `connector-0`."""
    connector, _, task = name.rpartition("-")
    return {"connector": connector, "task": task}


def close_metrics(number: int | None) -> None:
    """Remove the metrics of a connector or task."""
    with _lock:
        ended = _made.pop(number, [])
    for one in ended:
        one.close()
