"""A sink task inside a host: one thread calls all of its methods, as Connect's contract requires."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any, Final

import jpype

from headrace.connectors.java.host.contexts import failure
from headrace.connectors.java.host.jvm import Jvm
from headrace.connectors.java.host.logs import adopt, log_context
from headrace.connectors.java.host.plugin import HostedPlugin, java_map
from headrace.connectors.java.host.sink_context import SinkContext, java_partition, java_partitions, place_of
from headrace.connectors.java.host.stage import HostedStage, read_records

log = logging.getLogger(__name__)

_END_S: Final = 1.5
"""The time that a call may go on once its task has to end, before and after its thread is interrupted."""
Work = Callable[[], Any]


class HostedSink:
    """A sink task; each method is one call of the worker, which waits for the task's own thread."""

    def __init__(
        self,
        plugin: HostedPlugin,
        name: str,
        config: Mapping[str, str],
        idle_ms: int,
        stage: Mapping[str, Any] | None,
        say: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """`idle_ms`: how long without records before `put` is called with none; `stage`: the Java stage's config."""
        self._plugin, self._config, self._name = plugin, dict(config), name
        self._context = SinkContext()
        self._given_stage = stage
        self._stage: HostedStage | None = None
        self._idle_s = idle_ms / 1000
        self._say = say
        self._log_context = log_context()
        self._work: queue.SimpleQueue[tuple[Work, Future[Any]] | None] = queue.SimpleQueue()
        self._java_thread: Any = None
        self._is_open = False
        self._failed = False
        self._pending: Any = jpype.java.util.ArrayList()
        self._last_put = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"task-{name}", daemon=True)
        self._task: Any = None
        self._thread.start()

    # -- the worker's calls --------------------------------------------------------------------------------------------

    def start(self, jvm: Jvm, headers: Mapping[str, Any] | None) -> None:
        """Make the task and start it; `headers` reads the headers that the stage does not read."""
        self._do(lambda: self._start(jvm, headers))

    def open(self, partitions: Sequence[Sequence[Any]], member: Sequence[Any] | None) -> dict[str, Any]:
        """Add these partitions to the task, as this member of its group; return its requests."""
        return self._asking(lambda: self._open(partitions, member))

    def put(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Put a batch, or only prepare its first parts; return the task's requests."""
        return self._asking(lambda: self._put(given))

    def commit(self, positions: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Ask how far the task's records are durable, given these next offsets; return that and its requests."""
        return self._asking(lambda: {"released": self._pre_commit(positions)})

    def close(self, partitions: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Take these partitions from the task."""
        return self._asking(lambda: self._close(partitions))

    def interrupt(self) -> None:
        """Interrupt the current call of the task's thread: the worker no longer waits for it."""
        if self._java_thread is not None:
            self._java_thread.interrupt()

    def stop(self) -> bool:
        """End the task; return True if all its calls ended, too. Errors: those of the task's `stop`."""
        if self._stage is not None:
            self._stage.end()
        future = self._submit(self._stop)
        self._work.put(None)
        for _ in range(2):
            try:
                future.result(_END_S)
                break
            except NotYet:
                if future.done():
                    raise
                self.interrupt()
        self._thread.join(_END_S)
        return not self._thread.is_alive()

    # -- the task's thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        adopt(self._log_context)
        self._java_thread = jpype.java.lang.Thread.currentThread()
        self._java_thread.setContextClassLoader(self._plugin.loader)
        while True:
            try:
                work = self._work.get(timeout=self._waits_s())
            except queue.Empty:
                self._put_nothing()
                continue
            if work is None:
                return
            call, future = work
            jpype.java.lang.Thread.interrupted()  # meant for an earlier call
            try:
                future.set_result(call())
            except BaseException as error:  # whatever it is, the worker must get it
                future.set_exception(error)

    def _waits_s(self) -> float | None:
        """Return how long to wait for the worker before `put` is called without records."""
        if not self._is_open or self._failed:
            return None
        timeout_ms = self._context.timeout_ms
        wait_s = self._idle_s if timeout_ms is None else min(self._idle_s, timeout_ms / 1000)
        return max(0.0, self._last_put + wait_s - time.monotonic())

    def _put_nothing(self) -> None:
        """Call `put` without records, for what is due; send the task's requests, or its error, to the worker."""
        self._context.timeout_ms = None
        try:
            self._task.put(jpype.java.util.ArrayList())
        except BaseException as error:
            told = failure(error)
            if told["kind"] != "retriable":
                self._failed = True
                self._say({"event": "sink", "error": told})
                return
            log.warning("The sink task failed to put no records and will be called again: %s", told["message"])
        self._last_put = time.monotonic()
        if asked := self._context.take():
            self._say({"event": "sink", "asked": asked})

    def _start(self, jvm: Jvm, headers: Mapping[str, Any] | None) -> None:
        stage = self._stage = HostedStage(jvm, self._given_stage, is_source=False)
        self._reader = jvm.headrace("RecordReader")(stage.headers(headers))
        self._records = jvm.headrace("SinkRecords")(stage.java, stage.tolerates)
        self._task = self._plugin.make_task(self._config)
        props = java_map(self._config)
        self._task.initialize(self._context.java(jvm, self._name, self._config, props))
        self._task.start(props)

    def _stop(self) -> None:
        try:
            if self._task is not None:
                self._task.stop()
        finally:
            if self._stage is not None:
                self._stage.close()

    def _open(self, partitions: Sequence[Sequence[Any]], member: Sequence[Any] | None) -> None:
        self._context.member = member
        self._context.assigned |= {(topic, number) for topic, number in partitions}
        self._task.open(java_partitions(partitions, jpype.java.util.ArrayList()))
        self._is_open, self._last_put = True, time.monotonic()

    def _put(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if given["begins"]:
            self._pending = jpype.java.util.ArrayList()
        read = read_records(self._reader, given)
        if not given["ends"]:
            self._pending.addAll(read)
            return {}
        if not self._pending.isEmpty():
            self._pending.addAll(read)
            read, self._pending = self._pending, jpype.java.util.ArrayList()
        self._context.timeout_ms = None
        self._task.put(self._records.passed(read))
        self._last_put = time.monotonic()
        self._context.failed(json.loads(str(self._records.failures())))
        return {"filtered": json.loads(str(self._records.filtered()))}

    def _pre_commit(self, positions: Sequence[Sequence[Any]]) -> list[list[Any]]:
        metadata = jpype.JClass("org.apache.kafka.clients.consumer.OffsetAndMetadata")
        current = jpype.java.util.HashMap()
        for topic, number, offset in positions:
            current.put(java_partition(topic, number), metadata(offset))
        released = self._task.preCommit(current)
        entries = () if released is None else released.entrySet()
        pairs = [(one.getKey(), one.getValue()) for one in entries]
        return [[*place_of(key), int(value.offset())] for key, value in pairs if value is not None]

    def _close(self, partitions: Sequence[Sequence[Any]]) -> None:
        self._context.assigned -= {(topic, number) for topic, number in partitions}
        self._is_open = bool(self._context.assigned)
        self._task.close(java_partitions(partitions, jpype.java.util.ArrayList()))

    def _asking(self, call: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
        def whole() -> dict[str, Any]:
            return {**(call() or {}), "asked": self._context.take()}

        found: dict[str, Any] = self._do(whole)
        return found

    def _do(self, call: Work) -> Any:
        return self._submit(call).result()

    def _submit(self, call: Work) -> Future[Any]:
        future = Future[Any]()
        self._work.put((call, future))
        return future
