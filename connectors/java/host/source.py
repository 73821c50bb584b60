"""Connectors and source tasks inside a host; each method is one call of the worker, on its own thread."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jpype

from headrace.connectors.java.host.contexts import AskOffsets, connector_context, task_context
from headrace.connectors.java.host.jvm import Jvm
from headrace.connectors.java.host.plugin import HostedPlugin, java_map
from headrace.connectors.java.host.stage import HostedStage

log = logging.getLogger(__name__)

POLL_END_MS: Final = 1_500
"""The time that a poll may go on once its task has to end, before and after the task's `stop`."""


class HostedConnector:
    """A running connector."""

    def __init__(
        self,
        plugin: HostedPlugin,
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

    def task_configs(self, most: int, bound: int) -> list[dict[str, str]]:
        """Return the task configs, with the task class, which a connector need not know before it has started.

        `most`: maximum number of tasks to ask for; `bound`: maximum number accepted if the connector makes more.

        Errors: ValueError.
        """
        with self._plugin.entered():
            named = {"task.class": str(self._connector.taskClass().getName())}
            found = self._connector.taskConfigs(most)
            if len(found) > bound:
                raise ValueError(f"it has generated {len(found)} tasks, and the worker's tasks.max.limit is {bound}")
            return [{str(key): str(one[key]) for key in one if one[key] is not None} | named for one in found]

    def stop(self) -> None:
        """Stop the connector."""
        with self._plugin.entered():
            self._connector.stop()


class HostedTask:
    """A source task that is polled."""

    def __init__(
        self,
        jvm: Jvm,
        plugin: HostedPlugin,
        name: str,
        config: Mapping[str, str],
        stage: HostedStage,
        headers: Mapping[str, Any] | None,
        ask: AskOffsets,
        in_transactions: bool,
        bounds_transactions: bool,
    ) -> None:
        """`headers` makes the bytes of headers if the stage does not.

        `in_transactions`: the task is told of records only once their offsets are stored. `bounds_transactions`: the
        task decides where transactions end.
        """
        self._in_transactions = in_transactions
        self._plugin = plugin
        self._stage = stage
        self._committing = threading.Lock()
        self._transactions = jvm.headrace("Transactions")() if bounds_transactions else None
        try:
            converter = stage.headers(headers)
            with plugin.entered():
                self._task = plugin.make_task(config)
                props = java_map(config)
                self._task.initialize(task_context(name, props, ask, self._transactions))
                self._task.start(props)
        except BaseException:
            stage.close()
            raise
        self._records = jvm.headrace("SourceRecords")(
            self._task, stage.java, converter, self._transactions, plugin.loader, f"poll-{name}"
        )
        self._records.start()

    def take(self, wait_ms: int) -> tuple[dict[str, Any] | None, memoryview]:
        """Wait for records polled since the last call; raises the error that ended polling."""
        taken = self._records.take(wait_ms)
        if taken is None:
            return None, memoryview(b"")
        head: dict[str, Any] = json.loads(str(taken))
        if self._transactions is not None and (ends := self._records.ends()) is not None:
            head["ends_transaction"] = str(ends)
        buffer = self._records.buffer()
        return head, memoryview(buffer)[: int(buffer.limit())]

    @property
    def wants_receipts(self) -> bool:
        """True if the task asks for its records' positions in Kafka."""
        return bool(self._records.wantsReceipts())

    def reached(self, number: int, topics: Sequence[str] | None, receipts: bytearray | None) -> list[list[Any]]:
        """Tell the task that Kafka has its records up to `number` (in transactions later); return offsets to store.

        `receipts` are the records' positions in these topics, as `connectors/java/task.py` writes them; without topics
        it wants none.
        """
        buffer = None
        if topics is not None:
            buffer = jpype.nio.convertToDirectBuffer(receipts) if receipts else jpype.java.nio.ByteBuffer.allocate(0)
        names = jpype.JArray(jpype.JString)(topics or [])
        with self._plugin.entered():
            found: list[list[Any]] = json.loads(
                str(self._records.reached(number, names, buffer, self._in_transactions))
            )
            return found

    def commit(self, number: int | None) -> None:
        """Tell the task that offsets were stored; skipped while an earlier call of its `commit` runs.

        `number`: in transactions, the last record whose offset is stored; the task is told of the records up to it
        first.
        """
        if number is not None:
            with self._plugin.entered():
                self._records.tell(number)
        if self._committing.acquire(blocking=False):
            try:
                with self._plugin.entered():
                    self._task.commit()
            except jpype.JException as error:
                log.error("The task failed to commit: %s", error.stacktrace())
            finally:
                self._committing.release()

    def stop(self) -> bool:
        """End the task; return True if its poll ended, too."""
        with self._plugin.entered():
            ended = bool(self._records.end(POLL_END_MS))
            self._task.stop()
            if not ended and not self._records.end(POLL_END_MS):
                self._records.interrupt()
            ended = bool(self._records.end(POLL_END_MS))
        if ended:
            self._stage.close()
        return ended
