"""Connect's contexts that plugins get in the host; their requests and events go to the worker."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jpype

from headrace.connectors.java.host.metrics import plugin_metrics, task_tags

AskOffsets = Callable[[Sequence[str]], Sequence[str | None]]
"""Requests the stored offsets of source partitions from the worker; both are JSON texts."""


class Texts:
    """Converts between Java's maps and the JSON of Connect's offset topic, by Apache's own converter."""

    def __init__(self) -> None:
        self._json = jpype.JClass("org.apache.kafka.connect.json.JsonConverter")()
        self._json.configure({"schemas.enable": "false"}, False)

    def of(self, data: Any) -> str:
        """Return the JSON of a map."""
        return "null" if data is None else bytes(self._json.fromConnectData("", None, data)).decode()

    def read(self, text: str | None) -> Any:
        """Return the map of a JSON text, None for null."""
        if text is None:
            return None
        return self._json.toConnectData("", jpype.JArray(jpype.JByte)(text.encode())).value()


def connector_context(name: str, ask: AskOffsets, say: Callable[[Mapping[str, Any]], None]) -> Any:
    """Return a connector's context; `say` sends an event to the worker."""
    reader, metrics = _offset_reader(ask), plugin_metrics({"connector": name})
    return jpype.JProxy(
        (
            "org.apache.kafka.connect.source.SourceConnectorContext",
            "org.apache.kafka.connect.sink.SinkConnectorContext",
        ),
        dict={
            "offsetStorageReader": lambda: reader,
            "pluginMetrics": lambda: metrics,
            "requestTaskReconfiguration": lambda: say({"event": "reconfigure"}),
            "raiseError": lambda error: say({"event": "fail", "error": failure(error)}),
        },
    )


def task_context(name: str, configs: Any, ask: AskOffsets, transactions: Any) -> Any:
    """Return a source task's context; `transactions` is None, as in Connect, unless the connector defines them."""
    reader, metrics = _offset_reader(ask), plugin_metrics(task_tags(name))
    return jpype.JProxy(
        "org.apache.kafka.connect.source.SourceTaskContext",
        dict={
            "configs": lambda: configs,
            "offsetStorageReader": lambda: reader,
            "pluginMetrics": lambda: metrics,
            "transactionContext": lambda: transactions,
        },
    )


def _offset_reader(ask: AskOffsets) -> Any:
    texts = Texts()

    def offset(partition: Any) -> Any:
        return texts.read(ask([texts.of(partition)])[0])

    def offsets(partitions: Any) -> Any:
        wanted, found = list(partitions), jpype.java.util.HashMap()
        for partition, text in zip(wanted, ask([texts.of(one) for one in wanted]), strict=True):
            found.put(partition, texts.read(text))
        return found

    members = {"offset": offset, "offsets": offsets}
    return jpype.JProxy("org.apache.kafka.connect.storage.OffsetStorageReader", dict=members)


def failure(error: BaseException) -> dict[str, Any]:
    """Return an error in the form sent to the worker: class, message, trace, and kind (may a retry help)."""
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
