"""The Java stage inside a host: the transforms and converters for a task's records.

Decided: batches of a task in the worker are processed on the host's own threads, one at a time, and not on one of the
task's, because nothing in Connect ties a transform or a converter to a thread. Loses: plugins that keep something by
thread.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

import jpype
import jpype.nio

from headrace.connectors.java.host.jvm import Jvm
from headrace.connectors.java.host.plugin import HostedPlugin, java_map

log = logging.getLogger(__name__)

_END_S: Final = 1.5
"""The time that a call may go on once its task has to end, before and after its thread is interrupted."""
_USUAL_HEADERS: Final = {
    "plugin": {"class": "org.apache.kafka.connect.storage.SimpleHeaderConverter", "location": "", "jars": []},
    "config": {},
}


class HostedStage:
    """The stage of one task; `java` applies it."""

    def __init__(self, jvm: Jvm, given: Mapping[str, Any] | None, is_source: bool, comes_back: bool = False) -> None:
        """Make and configure all plugins; `given` comes from `told_stage`. Errors: those of the plugins.

        `comes_back`: records come from the worker and return to it, with headers as Kafka's bytes.
        """
        self._jvm = jvm
        self._made: list[tuple[HostedPlugin, Any]] = []
        self.java: Any = None
        """The `JavaStage.java` object; None: nothing to do."""
        self.tolerates = given is None or bool(given["tolerate"])
        self.converts = given is not None and bool(given["converters"])
        """True if it reads or makes Kafka's bytes."""
        if given is None:
            return
        self.java = jvm.headrace("JavaStage")(given["retry_ms"], given["most_delay_ms"])
        try:
            made = self._converters(given["converters"]) if self.converts or comes_back else (None, None, None)
            headers = None, None, made[2]
            if comes_back or (self.converts and not is_source):
                self.java.decode(*(headers if is_source else made))
            for step in given["steps"]:
                self._add(step)
            if comes_back or (self.converts and is_source):
                self.java.encode(*(made if is_source else headers))
        except BaseException:
            self.close()
            raise

    def headers(self, given: Mapping[str, Any] | None) -> Any:
        """Return the header converter, configured or default; None if the stage converts headers."""
        return None if self.converts else self._configured(given or _USUAL_HEADERS)[1]

    def end(self) -> None:
        """End a wait for a retry."""
        if self.java is not None:
            self.java.end()

    def close(self) -> None:
        """Close all plugins; errors are logged."""
        for plugin, made in self._made:
            try:
                with plugin.entered():
                    made.close()
            except jpype.JException as error:
                log.warning("The plugin %s failed to close: %s", plugin.name, error.stacktrace())
        self._made.clear()

    def _add(self, step: Mapping[str, Any]) -> None:
        plugin, transform = self._configured(step["transform"])
        test, loader = None, None
        if step["predicate"] is not None:
            of, test = self._configured(step["predicate"])
            loader = of.loader
        self.java.transform(transform, plugin.loader, test, loader, step["negate"])

    def _configured(self, given: Mapping[str, Any], *more: Any) -> tuple[HostedPlugin, Any]:
        plugin = HostedPlugin(self._jvm, given["plugin"])
        with plugin.entered():
            made = plugin.make()
            made.configure(java_map(given["config"]), *more)
        self._made.append((plugin, made))
        return plugin, made

    def _converters(self, given: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return the converters of keys, values and headers; headers always have one."""
        sides = {side: given.get(side) for side in ("key", "value")}
        made = [None if one is None else self._configured(one, side == "key")[1] for side, one in sides.items()]
        return made[0], made[1], self._configured(given.get("header", _USUAL_HEADERS))[1]


class CrossedStage:
    """The stage of a task that runs in the worker: a batch arrives and returns at once."""

    def __init__(self, jvm: Jvm, given: Mapping[str, Any], is_source: bool) -> None:
        """Make and configure all plugins; `given` comes from `told_stage`. Errors: those of the plugins."""
        self._stage = HostedStage(jvm, given, is_source, comes_back=True)
        self._reader = jvm.headrace("RecordReader")(None)
        self._java = jvm.headrace("WorkerRecords")(self._stage.java, self._stage.tolerates)
        self._applying = threading.Lock()
        self._java_thread: Any = None
        self._interrupting = threading.Lock()

    def apply(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], memoryview]:
        """Apply the stage to a batch; return a result for each record. The bytes are valid until the next call."""
        with self._applying:
            jpype.java.lang.Thread.interrupted()  # left by a plugin called earlier on this thread
            self._java_thread = jpype.java.lang.Thread.currentThread()
            try:
                head = json.loads(str(self._java.apply(read_records(self._reader, given))))
            finally:
                with self._interrupting:
                    self._java_thread = None
                    jpype.java.lang.Thread.interrupted()  # the thread's next call is another one's
            buffer = self._java.buffer()
            return head, memoryview(buffer)[: int(buffer.limit())]

    def interrupt(self) -> None:
        """End a wait for a retry, and interrupt the current call: the worker no longer waits for it."""
        self.end_waits()
        with self._interrupting:
            if self._java_thread is not None:
                self._java_thread.interrupt()

    def end_waits(self) -> None:
        """End a wait for a retry, and prevent further ones; the current call continues."""
        self._stage.end()

    def stop(self) -> bool:
        """Close all plugins; return True if none is in a call."""
        self.end_waits()
        if not self._applying.acquire(timeout=_END_S):
            self.interrupt()
            if not self._applying.acquire(timeout=_END_S):
                return False
        self._stage.close()
        return True


def read_records(reader: Any, given: Mapping[str, Any]) -> Any:
    """Return the Java records of columns that a worker sent; `partition`: their source partition, as JSON."""
    for side, is_keys in (("keys", True), ("values", False)):
        for number, description in given["schemas"][side]:
            reader.learn(is_keys, number, json.dumps(description))
    buffer, ints = jpype.nio.convertToDirectBuffer(given["data"]), jpype.JArray(jpype.JInt)
    return reader.read(buffer, given["rows"], ints(given["keys"]), ints(given["values"]), given.get("partition"))
