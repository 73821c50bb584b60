"""Checks a plugin class when it is loaded, so that an author's slip is named instead of causing a crash."""

from __future__ import annotations

from typing import Any

from headrace.config.providers import ConfigProvider
from headrace.config.settings import Settings


def fault_of(kind: str, loaded: Any) -> str | None:
    """Return why `loaded` cannot be a plugin of this kind, naming the wrong member; None if it can."""
    if not isinstance(loaded, type):
        return "is not a class"
    if kind == "config_provider":
        return None if issubclass(loaded, ConfigProvider) else "is no subclass of ConfigProvider"
    from headrace.plugins import contracts  # loads Spark; config providers are needed earlier

    tasks = {"source": contracts.SourceTask, "sink": contracts.SinkTask}
    bases: dict[str, type] = {
        "source": contracts.Connector,
        "sink": contracts.Connector,
        "transformation": contracts.Transform,
        "predicate": contracts.Predicate,
        "converter": contracts.Converter,
        "header_converter": contracts.HeaderConverter,
    }
    if issubclass(loaded, contracts.SourceTask | contracts.SinkTask):
        return "is a task: name the Connector whose attribute `task` it is"
    base = bases[kind]
    if not issubclass(loaded, base):
        return f"is no subclass of {base.__name__}, as a plugin of kind {kind} has to be"
    if not isinstance(getattr(loaded, "settings", None), Settings):
        return "has no attribute `settings` of type Settings"
    if not isinstance(getattr(loaded, "version", None), str):
        return "has no attribute `version`, a str"
    if missing := sorted(getattr(loaded, "__abstractmethods__", ())):
        return f"does not define {', '.join(missing)}"
    if kind in tasks:
        return _fault_of_task(loaded, tasks[kind])
    return None


def _fault_of_task(connector: type[Any], base: type) -> str | None:
    task = getattr(connector, "task", None)
    if not (isinstance(task, type) and issubclass(task, base)):
        return f"has no attribute `task` that is a subclass of {base.__name__}"
    if missing := sorted(getattr(task, "__abstractmethods__", ())):
        return f"has a task {task.__name__} that does not define {', '.join(missing)}"
    return None
