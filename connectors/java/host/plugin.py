"""A plugin's class inside a host: its declarations, and its answers about configs and offsets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jpype

from headrace.connectors.java.host.contexts import Texts
from headrace.connectors.java.host.jvm import Jvm


class HostedPlugin:
    """A plugin's class, in its own class loader."""

    def __init__(self, jvm: Jvm, named: Mapping[str, Any]) -> None:
        self.loader = jvm.loader(named["location"], named["jars"])
        self.name: str = named["class"]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Set this thread's context class loader to the plugin's, as plugins expect."""
        thread = jpype.java.lang.Thread.currentThread()
        before = thread.getContextClassLoader()
        thread.setContextClassLoader(self.loader)
        try:
            yield
        finally:
            thread.setContextClassLoader(before)

    def make(self) -> Any:
        """Return a new object of the class."""
        return self._new(self.name)

    def make_task(self, config: Mapping[str, str]) -> Any:
        """Return a new task, of the class that the connector named in the task's config."""
        return self._new(config["task.class"])

    def describe(self) -> dict[str, Any]:
        """Return the class's version and settings."""
        versioned = jpype.JClass("org.apache.kafka.connect.components.Versioned")
        with self.entered():
            made = self.make()
            return {
                "version": str(made.version()) if isinstance(made, versioned) else None,
                "settings": [_setting(key) for key in made.config().configKeys().values()],
            }

    def check(self, name: str, text: str | None) -> str | None:
        """Return why the definition's validator refuses this value of a setting; None if it accepts it."""
        with self.entered():
            definition = self.make().config()
            key = definition.configKeys().get(name)
            try:
                key.validator.ensureValid(name, definition.parseType(name, text, key.type()))
            except jpype.JClass("org.apache.kafka.common.config.ConfigException") as error:
                return str(error.getMessage())
            return None

    def validate(self, config: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the results of the connector's own `validate` for each setting."""
        with self.entered():
            return [_value(one) for one in self.make().validate(java_map(config)).configValues()]

    def offers(self, config: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the answers of the definition's recommenders for each setting; needs no outside system."""
        with self.entered():
            return [_value(one) for one in self.make().config().validate(java_map(config))]

    def exactly_once(self, config: Mapping[str, str]) -> bool | None:
        """True if the source connector delivers exactly once with this config; None: it does not say."""
        with self.entered():
            return _is_supported(self.make().exactlyOnceSupport(java_map(config)))

    def defines_transactions(self, config: Mapping[str, str]) -> bool | None:
        """True if the source connector defines transactions with this config; None: it does not say."""
        with self.entered():
            return _is_supported(self.make().canDefineTransactionBoundaries(java_map(config)))

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[Sequence[str | None]]) -> bool:
        """True if the connector has checked these offsets."""
        with self.entered():
            texts, altered = Texts(), jpype.java.util.HashMap()
            for partition, offset in offsets:
                altered.put(texts.read(partition), texts.read(offset))
            return bool(self.make().alterOffsets(java_map(config), altered))

    def alter_sink_offsets(self, config: Mapping[str, str], offsets: Sequence[Sequence[Any]]) -> bool:
        """True if the sink connector has checked these offsets of Kafka's partitions; null: to be forgotten."""
        with self.entered():
            altered, partition_class = jpype.java.util.HashMap(), jpype.JClass("org.apache.kafka.common.TopicPartition")
            for topic, number, offset in offsets:
                java_offset = None if offset is None else jpype.JLong(offset)
                altered.put(partition_class(topic, number), jpype.JObject(java_offset, "java.lang.Long"))
            return bool(self.make().alterOffsets(java_map(config), altered))

    def _new(self, name: str) -> Any:
        found = jpype.java.lang.Class.forName(name, True, self.loader)
        return found.getDeclaredConstructor().newInstance()


def _is_supported(answer: Any) -> bool | None:
    return None if answer is None else str(answer.name()) == "SUPPORTED"


def java_map(texts: Mapping[str, str]) -> Any:
    """Return a config as a Java map."""
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
        "validates": key.validator is not None,
        "internal": bool(key.internalConfig),
    }
    if key.hasDefault():
        found["default"] = _text(key.defaultValue, key.type())
    return found


def _text(value: Any, of_type: Any = None) -> str | None:
    """Return a setting's value as text that parses back to it, also a password's."""
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
