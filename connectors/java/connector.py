"""Connectors that run in the Java host; sources and sinks only differ in their offsets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from headrace.config.problems import Problem
from headrace.config.worker.settings import TASKS_BOUND
from headrace.connectors.java.errors import Unsupported, error_of
from headrace.connectors.java.hosts import running_host
from headrace.connectors.java.process import JavaHost
from headrace.plugins.contracts import Connector, ConnectorContext, SourceOffset, SourcePartition
from headrace.plugins.offsets import kafka_offsets

log = logging.getLogger(__name__)

VALIDATION_S: Final = 60.0
START_S: Final = 120.0
STOP_S: Final = 4.0
"""Below the worker's own limit, so that the log names the plugin that does not end."""


class JavaConnector(Connector):
    """Base of source and sink connectors; `plugin.py` makes a subclass for each Java class."""

    plugin: ClassVar[Mapping[str, Any]]
    """Class with its jars, as sent to the host."""
    task_class = ""
    """Each task's config names its own."""
    undeclared = (
        "",
    )  # Debezium's has settings of its schema history, of its drivers and others that it does not declare

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return the problems of the plugin's own `validate` that its definition does not already find."""
        judged = self.settings.validate(config)
        values = running_host().call("plugin.validate", VALIDATION_S, plugin=self.plugin, config=dict(config))
        return [
            Problem(one["name"], config.get(one["name"]), message)
            for one in values
            for message in one["errors"]
            if one["name"] not in judged or message not in judged[one["name"]].errors
        ]

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Start the connector in the host. Errors: HostLost, HostTimeout, those of the plugin."""
        self._config = dict(config)
        self._context = context
        self._stopped = False
        self._host, self._number = self._begun()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the plugin's task configs, with `task.class`."""
        found: list[dict[str, str]] = self._host.call(
            "connector.tasks",
            START_S,
            connector=self._number,
            most=max_tasks,
            bound=self.worker.get(TASKS_BOUND.name, TASKS_BOUND.default),
        )
        return found

    def stop(self) -> None:
        """Stop the connector in the host."""
        self._stopped = True
        host = getattr(self, "_host", None)
        if host is None or host.is_lost:
            return
        host.on_lost.pop(self._number, None)
        try:
            host.call("connector.stop", STOP_S, connector=self._number)
        finally:
            host.leave(self._number)

    def _begun(self) -> tuple[JavaHost, int]:
        host = running_host()
        number = host.number()
        host.events[number] = self._heard
        host.offsets[number] = lambda partitions: stored_texts(self._context.stored_offsets, partitions)
        name = self._config.get("name", "")
        try:
            host.call("connector.start", START_S, connector=number, plugin=self.plugin, name=name, config=self._config)
        except BaseException:
            host.leave(number)
            raise
        host.on_lost[number] = self._start_again
        return host, number

    def _start_again(self) -> None:
        if self._stopped:
            return
        try:
            self._host, self._number = self._begun()
            log.info("The connector %s runs again in a new Java host", self._config.get("name"))
            self._context.reconfigure()
        except Exception as error:
            self._context.fail(error)

    def _heard(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "reconfigure":
            self._context.reconfigure()
        else:
            self._context.fail(error_of(event["error"]))

    def _altered(self, call: str, config: Mapping[str, str], offsets: Sequence[Sequence[Any]]) -> bool | None:
        try:
            checked = running_host().call(call, VALIDATION_S, plugin=self.plugin, config=dict(config), offsets=offsets)
        except Unsupported as error:
            raise NotImplementedError(str(error)) from error
        return True if checked else None


class JavaSourceConnector(JavaConnector):
    """A source connector, which makes its offsets (maps) itself."""

    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        """Return the answer of the plugin's `exactlyOnceSupport`; None if it does not say."""
        return self._says("plugin.exactly_once", config)

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool | None:
        """Return the answer of the plugin's `canDefineTransactionBoundaries`; None if it does not say."""
        return self._says("plugin.defines_transactions", config)

    def _says(self, call: str, config: Mapping[str, str]) -> bool | None:
        said: bool | None = running_host().call(call, VALIDATION_S, plugin=self.plugin, config=dict(config))
        return said

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool | None:
        """Return the answer of the plugin's `alterOffsets`; None if it does not check offsets."""
        pairs = [[_json(one["partition"]), _json(one["offset"])] for one in offsets["offsets"]]
        return self._altered("plugin.alter_offsets", config, pairs)


class JavaSinkConnector(JavaConnector):
    """A sink connector, whose offsets are Kafka's."""

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool | None:
        """As `JavaSourceConnector.check_offsets`."""
        given = [[*partition, offset] for partition, offset in kafka_offsets(offsets).items()]
        return self._altered("plugin.alter_sink_offsets", config, given)


def stored_texts(
    stored: Callable[[Sequence[SourcePartition]], Sequence[SourceOffset | None]], partitions: Sequence[str]
) -> list[str | None]:
    """Return the stored offsets of these partitions; partitions and offsets are JSON texts."""
    return [_json(one) for one in stored([json.loads(one) for one in partitions])]


def _json(data: Any) -> str | None:
    return None if data is None else json.dumps(data, separators=(",", ":"), ensure_ascii=False)
