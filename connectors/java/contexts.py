"""Connect's contexts as plugins get them, in the host; what they ask and say goes to the worker."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jpype
from jpype import JImplements, JOverride

AskOffsets = Callable[[Sequence[str]], Sequence[str | None]]
"""The stored offsets of source partitions, both as JSON texts, by a request to the worker."""


class Texts:
    """Converts between Java's maps and JSON as Connect's offset topic has it, by Apache's own converter."""

    def __init__(self) -> None:
        self._json = jpype.JClass("org.apache.kafka.connect.json.JsonConverter")()
        self._json.configure({"schemas.enable": "false"}, False)

    def of(self, data: Any) -> str:
        """The JSON of a map."""
        return "null" if data is None else bytes(self._json.fromConnectData("", None, data)).decode()

    def read(self, text: str | None) -> Any:
        """The map that a JSON text is, None for null."""
        if text is None:
            return None
        return self._json.toConnectData("", jpype.JArray(jpype.JByte)(text.encode())).value()


@JImplements("org.apache.kafka.connect.storage.OffsetStorageReader", deferred=True)
class OffsetReader:
    """Reads the worker's stored offsets."""

    def __init__(self, ask: AskOffsets, texts: Texts) -> None:
        self._ask = ask
        self._texts = texts

    @JOverride
    def offset(self, partition: Any) -> Any:
        return self._texts.read(self._ask([self._texts.of(partition)])[0])

    @JOverride
    def offsets(self, partitions: Any) -> Any:
        wanted, found = list(partitions), jpype.java.util.HashMap()
        for partition, text in zip(wanted, self._ask([self._texts.of(one) for one in wanted]), strict=True):
            found.put(partition, self._texts.read(text))
        return found


def plugin_metrics(tags: Mapping[str, str]) -> Any:
    """Metrics that a plugin may add its own to."""
    metrics = jpype.JClass("org.apache.kafka.common.metrics.Metrics")()
    named = jpype.java.util.LinkedHashMap()
    for key, value in tags.items():
        named.put(key, value)
    return jpype.JClass("org.apache.kafka.common.metrics.internals.PluginMetricsImpl")(metrics, named)


@JImplements("org.apache.kafka.connect.source.SourceConnectorContext", deferred=True)
class ConnectorContext:
    """A connector's."""

    def __init__(self, reader: OffsetReader, metrics: Any, say: Callable[[Mapping[str, Any]], None]) -> None:
        self._reader = reader
        self._metrics = metrics
        self._say = say

    @JOverride
    def offsetStorageReader(self) -> Any:  # noqa: N802
        return self._reader

    @JOverride
    def requestTaskReconfiguration(self) -> None:  # noqa: N802
        self._say({"event": "reconfigure"})

    @JOverride
    def raiseError(self, error: Any) -> None:  # noqa: N802
        self._say({"event": "fail", "error": failure(error)})

    @JOverride
    def pluginMetrics(self) -> Any:  # noqa: N802
        return self._metrics


@JImplements("org.apache.kafka.connect.source.SourceTaskContext", deferred=True)
class TaskContext:
    """A task's."""

    def __init__(self, configs: Any, reader: OffsetReader, metrics: Any) -> None:
        self._configs = configs
        self._reader = reader
        self._metrics = metrics

    @JOverride
    def configs(self) -> Any:
        return self._configs

    @JOverride
    def offsetStorageReader(self) -> Any:  # noqa: N802
        return self._reader

    @JOverride
    def transactionContext(self) -> Any:  # noqa: N802
        return None  # as Connect's where the connector defines no transactions

    @JOverride
    def pluginMetrics(self) -> Any:  # noqa: N802
        return self._metrics


def failure(error: BaseException) -> dict[str, Any]:
    """An error as the worker is told of it: its class, text and trace, and whether a retry may help."""
    if not isinstance(error, jpype.JException):
        trace = "".join(traceback.format_exception(error))
        return {"class": type(error).__name__, "message": str(error), "trace": trace, "kind": "other"}
    writer = jpype.java.io.StringWriter()
    error.printStackTrace(jpype.java.io.PrintWriter(writer))
    kind = "other"
    for name, names in (
        ("retriable", "org.apache.kafka.connect.errors.RetriableException"),
        ("config", "org.apache.kafka.common.config.ConfigException"),
        ("unsupported", "java.lang.UnsupportedOperationException"),
    ):
        if isinstance(error, jpype.JClass(names)):
            kind = name
    return {
        "class": str(error.getClass().getName()),
        "message": str(error.getMessage() or ""),
        "trace": str(writer.toString()),
        "kind": kind,
    }
