"""Connect's contexts as plugins get them, in the host; what they ask and say goes to the worker."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jpype

from headrace.connectors.java.host.metrics import plugin_metrics, task_tags

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


def connector_context(name: str, ask: AskOffsets, say: Callable[[Mapping[str, Any]], None]) -> Any:
    """A connector's; `say` sends an event to the worker."""
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
    """A source task's; `transactions` is None, as in Connect, unless the connector defines them."""
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
