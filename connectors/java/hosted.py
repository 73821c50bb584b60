"""The plugins, connectors and tasks inside a host; each method is one call of the worker, on a thread of its own."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import jpype

from headrace.connectors.java.contexts import AskOffsets, Texts, connector_context, task_context
from headrace.connectors.java.jvm import Jvm

log = logging.getLogger(__name__)

POLL_END_MS: Final = 1_500
"""How long a poll may go on when its task has to end, before and after the task's `stop`."""


class Plugin:
    """A plugin's class, in its own class loader."""

    def __init__(self, jvm: Jvm, named: Mapping[str, Any]) -> None:
        self.loader = jvm.loader(named["location"], named["jars"])
        self.name: str = named["class"]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, this thread's context class loader is the plugin's, as plugins expect."""
        thread = jpype.java.lang.Thread.currentThread()
        before = thread.getContextClassLoader()
        thread.setContextClassLoader(self.loader)
        try:
            yield
        finally:
            thread.setContextClassLoader(before)

    def make(self) -> Any:
        """A new object of the class."""
        found = jpype.java.lang.Class.forName(self.name, True, self.loader)
        return found.getDeclaredConstructor().newInstance()

    def describe(self) -> dict[str, Any]:
        """What the class declares."""
        with self.entered():
            connector = self.make()
            keys = connector.config().configKeys().values()
            return {
                "version": str(connector.version()),
                "task": str(connector.taskClass().getName()),
                "settings": [_setting(key) for key in keys],
            }

    def validate(self, config: Mapping[str, str]) -> list[dict[str, Any]]:
        """What the connector's own `validate` says of each setting."""
        with self.entered():
            return [_value(one) for one in self.make().validate(java_map(config)).configValues()]

    def offers(self, config: Mapping[str, str]) -> list[dict[str, Any]]:
        """What the definition's recommenders say of each setting; asks nothing outside."""
        with self.entered():
            return [_value(one) for one in self.make().config().validate(java_map(config))]

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[Sequence[str | None]]) -> bool:
        """Whether the connector has checked these offsets."""
        with self.entered():
            texts, altered = Texts(), jpype.java.util.HashMap()
            for partition, offset in offsets:
                altered.put(texts.read(partition), texts.read(offset))
            return bool(self.make().alterOffsets(java_map(config), altered))

    def alter_sink_offsets(self, config: Mapping[str, str], offsets: Sequence[Sequence[Any]]) -> bool:
        """Whether the sink connector has checked these offsets of Kafka's partitions; null: to be forgotten."""
        with self.entered():
            altered, partition_class = jpype.java.util.HashMap(), jpype.JClass("org.apache.kafka.common.TopicPartition")
            for topic, number, offset in offsets:
                java_offset = None if offset is None else jpype.JLong(offset)
                altered.put(partition_class(topic, number), jpype.JObject(java_offset, "java.lang.Long"))
            return bool(self.make().alterOffsets(java_map(config), altered))


class HostedConnector:
    """A connector that runs."""

    def __init__(
        self,
        plugin: Plugin,
        name: str,
        config: Mapping[str, str],
        ask: AskOffsets,
        say: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._plugin = plugin
        with plugin.entered():
            self._connector = plugin.make()
            self._connector.initialize(connector_context(name, ask, say))
            self._connector.start(java_map(config))

    def task_configs(self, most: int) -> list[dict[str, str]]:
        """The configs of its tasks."""
        with self._plugin.entered():
            found = self._connector.taskConfigs(most)
            return [{str(key): str(one[key]) for key in one if one[key] is not None} for one in found]

    def stop(self) -> None:
        """End it."""
        with self._plugin.entered():
            self._connector.stop()


class HostedTask:
    """A source task that is polled."""

    def __init__(self, jvm: Jvm, plugin: Plugin, name: str, config: Mapping[str, str], ask: AskOffsets) -> None:
        self._plugin = plugin
        self._committing = threading.Lock()
        with plugin.entered():
            task_class = plugin.make().taskClass()
            self._task = task_class.getDeclaredConstructor().newInstance()
            props = java_map(config)
            self._task.initialize(task_context(name, props, ask))
            self._task.start(props)
            self._records = jvm.source_records(self._task, plugin.loader, f"poll-{name}")
            self._records.start()

    def take(self, wait_ms: int) -> tuple[dict[str, Any] | None, memoryview]:
        """The records polled since the last call, waited for; what ended polling is raised."""
        head = self._records.take(wait_ms)
        if head is None:
            return None, memoryview(b"")
        buffer = self._records.buffer()
        return json.loads(str(head)), memoryview(buffer)[: int(buffer.limit())]

    def reached(self, number: int) -> list[list[Any]]:
        """Tell the task that Kafka has its records up to this number; the offsets to store."""
        with self._plugin.entered():
            found: list[list[Any]] = json.loads(str(self._records.reached(number)))
            return found

    def commit(self) -> None:
        """Tell the task that offsets were stored; not while it is still being told."""
        if self._committing.acquire(blocking=False):
            try:
                with self._plugin.entered():
                    self._task.commit()
            except jpype.JException as error:
                log.error("The task failed to commit: %s", error.stacktrace())
            finally:
                self._committing.release()

    def stop(self) -> bool:
        """End it; whether its poll ended, too."""
        with self._plugin.entered():
            ended = bool(self._records.end(POLL_END_MS))
            self._task.stop()
            if not ended and not self._records.end(POLL_END_MS):
                self._records.interrupt()
            return bool(self._records.end(POLL_END_MS))


def java_map(texts: Mapping[str, str]) -> Any:
    """A config as a Java map."""
    made = jpype.java.util.HashMap()
    for key, value in texts.items():
        made.put(key, value)
    return made


def _setting(key: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": str(key.name),
        "type": str(key.type().name()),
        "importance": str(key.importance.name()),
        "documentation": str(key.documentation or ""),
        "group": None if key.group is None else str(key.group),
        "order": int(key.orderInGroup),
        "width": str(key.width.name()),
        "display_name": str(key.displayName or ""),
        "dependents": [str(one) for one in key.dependents],
        "recommends": key.recommender is not None,
        "internal": bool(key.internalConfig),
    }
    if key.hasDefault():
        found["default"] = _text(key.defaultValue, key.type())
    return found


def _text(value: Any, of_type: Any = None) -> str | None:
    """A setting's value as a text that reads back as it, also a password's."""
    if value is None:
        return None
    if isinstance(value, jpype.JClass("org.apache.kafka.common.config.types.Password")):
        return str(value.value())
    if of_type is not None:
        return str(jpype.JClass("org.apache.kafka.common.config.ConfigDef").convertToString(value, of_type))
    if isinstance(value, jpype.java.lang.Class):
        return str(value.getName())
    return str(value)


def _value(one: Any) -> dict[str, Any]:
    return {
        "name": str(one.name()),
        "errors": [str(text) for text in one.errorMessages()],
        "offers": [_text(value) for value in one.recommendedValues()],
        "visible": bool(one.visible()),
    }
