"""The process of Java plugins: `python -m headrace.connectors.java.host FD`, started by `process.py`.

Each request has its own thread, so a plugin that never returns blocks no other; the worker sets the limits. The process
ends when its connection does, which the worker's death closes. Output of plugins is the process's output, which the
worker copies to its log.
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import jpype

from headrace.connectors.java.host.contexts import failure
from headrace.connectors.java.host.jvm import Jvm
from headrace.connectors.java.host.logs import HostFormatter, logged_as, set_levels
from headrace.connectors.java.host.metrics import close_metrics
from headrace.connectors.java.host.plugin import HostedPlugin
from headrace.connectors.java.host.provider import HostedProvider
from headrace.connectors.java.host.sink import HostedSink
from headrace.connectors.java.host.source import HostedConnector, HostedTask
from headrace.connectors.java.host.stage import CrossedStage, HostedStage
from headrace.connectors.java.wire import Wire

MOST_THREADS: Final = 1_000
OFFSETS_S: Final = 60.0
"""The time that a plugin waits for the worker to answer with its stored offsets."""


class _Ends(Protocol):
    def stop(self) -> bool:
        """End it; return True if all its calls ended, too."""


_T = TypeVar("_T", bound=_Ends)


class Host:
    """Answers a worker's requests."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="call")
        self._asked: dict[int, Future[list[str | None]]] = {}
        self._numbers = itertools.count(1)
        self._connectors: dict[int, HostedConnector] = {}
        self._tasks: dict[int, HostedTask] = {}
        self._starting: set[int] = set()
        self._sinks: dict[int, HostedSink] = {}
        self._stages: dict[int, CrossedStage] = {}
        self._providers: dict[str, HostedProvider] = {}
        self._making_provider = threading.Lock()
        self._jvm: Jvm | None = None
        self._is_settled = False

    def serve(self) -> None:
        """Answer until the connection ends."""
        while True:
            try:
                message, data = self._wire.receive()
            except (EOFError, OSError):
                return
            if "answer" in message:
                if (asked := self._asked.pop(message["answer"], None)) is not None:  # else it came too late
                    asked.set_result(message["offsets"])
            else:
                self._threads.submit(self._answer, {**message, "data": data} if data else message)

    def _answer(self, message: Mapping[str, Any]) -> None:
        number, data = message["id"], memoryview(b"")
        try:
            result = self._called(message)
            if message["call"] in ("task.take", "stage.apply"):
                result, data = result
            answer = {"id": number, "result": result}
        except jpype.JVMNotRunning:
            return  # a plugin called System.exit; the worker notices this process's end
        except BaseException as error:  # whatever it is, the worker must get it
            answer = {"id": number, "error": failure(error)}
        try:
            self._wire.send(answer, data)
        except OSError:
            os._exit(0)  # the worker is gone

    def _called(self, message: Mapping[str, Any]) -> Any:
        """Make a call on behalf of its connector or task; the metrics of an ended one are removed."""
        name, number = message["call"], message.get("connector", message.get("task"))
        has_ended = name.endswith(".stop")
        try:
            with logged_as(number):
                return self._call(name, message)
        except BaseException:
            has_ended = has_ended or name.endswith(".start")
            raise
        finally:
            if has_ended:
                close_metrics(number)

    def _call(self, name: str, given: Mapping[str, Any]) -> Any:
        if name == "open":
            self._jvm = Jvm(given["class_path"], given["options"])
            gc.freeze()  # JPype makes Python collect after each of Java's collections
            return str(os.getpid())
        if name == "levels":
            return set_levels(given["levels"])
        if name == "beans":
            assert self._jvm is not None
            return str(self._jvm.headrace("Beans").read(given["most"]))
        area, _, method = name.partition(".")
        return getattr(self, f"_{area}")(method, given)

    def _plugin(self, method: str, given: Mapping[str, Any]) -> Any:
        plugin = self._plugin_of(given)
        calls: Mapping[str, Callable[[], Any]] = {
            "describe": plugin.describe,
            "check": lambda: plugin.check(given["name"], given["text"]),
            "validate": lambda: plugin.validate(given["config"]),
            "offers": lambda: plugin.offers(given["config"]),
            "exactly_once": lambda: plugin.exactly_once(given["config"]),
            "defines_transactions": lambda: plugin.defines_transactions(given["config"]),
            "alter_offsets": lambda: plugin.alter_offsets(given["config"], given["offsets"]),
            "alter_sink_offsets": lambda: plugin.alter_sink_offsets(given["config"], given["offsets"]),
        }
        return calls[method]()

    def _connector(self, method: str, given: Mapping[str, Any]) -> Any:
        number: int = given["connector"]
        if method == "start":
            say = partial(self._say, number)
            ask = partial(self._ask, number)
            plugin = self._plugin_of(given)
            self._connectors[number] = HostedConnector(plugin, given["name"], given["config"], ask, say)
            return None
        if method == "stop":
            connector = self._connectors.pop(number, None)
            return None if connector is None else connector.stop()
        return self._connectors[number].task_configs(given["most"], given["bound"])

    def _task(self, method: str, given: Mapping[str, Any]) -> Any:
        number: int = given["task"]
        if method == "start":
            return self._start_task(number, given)
        if method == "stop":
            return self._ended(number, self._tasks)
        task = self._tasks[number]
        if method == "take":
            return task.take(given["wait_ms"])
        if method == "reached":
            return task.reached(given["row"], given["topics"], given.get("data"))
        return task.commit(given["row"])

    def _start_task(self, number: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Start a task; return what its worker has to know of it."""
        jvm, ask = self._jvm, partial(self._ask, number)
        assert jvm is not None

        def make() -> HostedTask:
            stage = HostedStage(jvm, given["stage"], is_source=True)
            plugin, config = self._plugin_of(given), given["config"]
            in_transactions, bounds = given["in_transactions"], given["bounds_transactions"]
            return HostedTask(jvm, plugin, given["name"], config, stage, given["headers"], ask, in_transactions, bounds)

        return {"wants_receipts": self._started(number, self._tasks, make).wants_receipts}

    def _started(self, number: int, known: dict[int, _T], make: Callable[[], _T]) -> _T:
        """Make what has this number; it is stopped at once if it was asked to end meanwhile."""
        self._starting.add(number)
        try:
            made = known[number] = make()
        except BaseException:
            self._starting.discard(number)
            raise
        try:
            self._starting.remove(number)
        except KeyError:
            known.pop(number).stop()
        self._settle()
        return made

    def _settle(self) -> None:
        """Freeze the objects of the first task, too: JPype's wrappers of Java classes, which most other tasks share."""
        if not self._is_settled:
            self._is_settled = True
            gc.collect()  # current garbage would otherwise stay for ever
            gc.freeze()

    def _ended(self, number: int, known: dict[int, _T]) -> bool:
        """End what has this number; return True if all its calls ended, too."""
        try:
            self._starting.remove(number)
        except KeyError:
            ending = known.pop(number, None)
            return True if ending is None else ending.stop()
        return False

    def _sink(self, method: str, given: Mapping[str, Any]) -> Any:
        number: int = given["task"]
        if method == "start":
            assert self._jvm is not None
            plugin, say = self._plugin_of(given), partial(self._say, number)
            made = HostedSink(plugin, given["name"], given["config"], given["idle_ms"], given["stage"], say)
            self._sinks[number] = made
            made.start(self._jvm, given["headers"])
            self._settle()
            return None
        if method == "stop":
            sink = self._sinks.pop(number, None)
            return True if sink is None else sink.stop()
        sink = self._sinks[number]
        calls: Mapping[str, Callable[[], Any]] = {
            "open": lambda: sink.open(given["partitions"], given["member"]),
            "put": lambda: sink.put(given),
            "commit": lambda: sink.commit(given["positions"]),
            "close": lambda: sink.close(given["partitions"]),
            "interrupt": sink.interrupt,
        }
        return calls[method]()

    def _stage(self, method: str, given: Mapping[str, Any]) -> Any:
        number: int = given["task"]
        if method == "start":
            jvm = self._jvm
            assert jvm is not None
            self._started(number, self._stages, lambda: CrossedStage(jvm, given["stage"], given["is_source"]))
            return None
        if method == "stop":
            return self._ended(number, self._stages)
        stage = self._stages[number]
        calls: Mapping[str, Callable[[], Any]] = {
            "apply": lambda: stage.apply(given),
            "end_waits": stage.end_waits,
            "interrupt": stage.interrupt,
        }
        return calls[method]()

    def _provider(self, method: str, given: Mapping[str, Any]) -> Any:
        name: str = given["provider"]
        if method == "close":
            ending = self._providers.pop(name, None)
            return None if ending is None else ending.close()
        with self._making_provider:
            if name not in self._providers:
                self._providers[name] = HostedProvider(self._plugin_of(given), given["params"])
        return self._providers[name].get(given["path"], given["keys"]) if method == "get" else None

    def _plugin_of(self, given: Mapping[str, Any]) -> HostedPlugin:
        assert self._jvm is not None
        return HostedPlugin(self._jvm, given["plugin"])

    def _say(self, connector: int, event: Mapping[str, Any]) -> None:
        self._wire.send({**event, "connector": connector})

    def _ask(self, of: int, partitions: Sequence[str]) -> Sequence[str | None]:
        number = next(self._numbers)
        answer = self._asked[number] = Future[list[str | None]]()
        try:
            self._wire.send({"ask": number, "of": of, "partitions": list(partitions)})
            return answer.result(OFFSETS_S)
        finally:
            self._asked.pop(number, None)


def main() -> None:
    """Serve the connection that the parent opened."""
    output = logging.StreamHandler(sys.stdout)
    output.setFormatter(HostFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[output])
    threading.current_thread().name = "requests"
    Host(Wire(socket.socket(fileno=int(sys.argv[1])))).serve()
    os._exit(0)  # threads of plugins would go on


if __name__ == "__main__":
    main()
