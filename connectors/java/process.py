"""A host process on the worker's side: requests with limits, its output in the log, and notice of its end.

Decided: a separate process and not Spark's driver, because a plugin that leaks, hangs, exits or crashes then costs only
the tasks in its host; loses: about 100 MB. One host runs all Java plugins of a worker, each in its own class loader,
because a second JVM costs more than it protects.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import logging
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
from typing import IO, Any, Final

from headrace.connectors.java import log_lines
from headrace.connectors.java.errors import HostLost, HostTimeout, JavaError, JvmRefused, error_of
from headrace.connectors.java.wire import Wire
from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.2
"""The time until a wait checks again if its task has to stop."""
_MOST_LEFT: Final = 100
"""Number of ended connectors and tasks whose last log lines may still arrive."""
_LAST_WORDS_S: Final = 5.0
"""The time that the output of a JVM that did not start or has ended is waited for."""
START_S: Final = 120.0

Answer = tuple[Any, bytearray]


class JavaHost:
    """A running host; thread-safe."""

    def __init__(self, class_path: Sequence[Path], options: Sequence[str]) -> None:
        """Start the process and wait for its JVM, which gets these options. Errors: HostLost, JvmRefused."""
        self.offsets: dict[int, Callable[[Sequence[str]], list[str | None]]] = {}
        """By connector or task: returns stored offsets to its plugin; by default None for each partition."""
        self.events: dict[int, Callable[[Mapping[str, Any]], None]] = {}
        """By connector: receives its events."""
        self.on_lost: dict[int, Callable[[], None]] = {}
        """By connector: called when the host has ended."""
        self.is_retired = False
        """True if nothing new may start in it, because it has threads that never end."""
        self._numbers = itertools.count(1)
        self._contexts: dict[int, contextvars.Context] = {}
        """By connector or task: context for its log lines, and for its restart."""
        self._left: deque[int] = deque()
        self._waiting: dict[int, Future[Answer]] = {}
        self._lost: str | None = None
        self._lock = threading.Lock()
        self._last_output: deque[str] = deque(maxlen=5)
        self._printed: deque[str] = deque(maxlen=3)
        ours, its = socket.socketpair()
        command = [sys.executable, "-P", "-m", "headrace.connectors.java.host", str(its.fileno())]
        with its:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
        self._wire = Wire(ours)
        assert self._process.stdout is not None
        self._reader = self._start(self._log_output, self._process.stdout)
        self._start(self._receive)
        self._open(class_path, options)
        log.info("The Java host has started as process %d", self._process.pid)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_lost(self) -> bool:
        """True if it has ended."""
        return self._lost is not None

    def raise_if_lost(self) -> None:
        """Raise once the host has ended. Errors: HostLost."""
        if self._lost is not None:
            raise HostLost(self._lost)

    def number(self) -> int:
        """Return a new number for a connector or a task; its log lines use the context of this call."""
        number = next(self._numbers)
        self.offsets[number] = lambda partitions: [None for _ in partitions]
        self._contexts[number] = contextvars.copy_context()
        return number

    def call(
        self, name: str, limit_s: float, /, *, stop: StopToken | None = None, data: bytes = b"", **given: Any
    ) -> Any:
        """Return the result of a request. Errors: as `call_for_data`."""
        return self.call_for_data(name, limit_s, stop=stop, data=data, **given)[0]

    def call_for_data(
        self, name: str, limit_s: float, /, *, stop: StopToken | None = None, data: bytes = b"", **given: Any
    ) -> Answer:
        """Return the result of a request and the bytes that came with it; `data` are the bytes to send.

        Errors: HostLost, HostTimeout, StoppedError once `stop` is set, and those of `error_of`.
        """
        future, until = self.ask(name, data, **given), time.monotonic() + limit_s
        while True:
            try:
                return future.result(min(_LOOK_S, max(0.0, until - time.monotonic())))
            except NotYet:
                if future.done():
                    continue
            if stop is not None and stop.is_set():
                raise StoppedError(f"the task was asked to stop while its Java plugin was in {name}")
            if time.monotonic() >= until:
                raise HostTimeout(
                    f"The Java plugin did not return from {name} within {limit_s:g} s; "
                    f"jstack {self.pid} shows what it waits for"
                )

    def post(self, name: str, /, **given: Any) -> None:
        """Send a request without waiting for its result. Errors: HostLost."""
        self.ask(name, **given)

    def ask(self, name: str, data: bytes = b"", /, **given: Any) -> Future[Answer]:
        """Send a request; return its future result. Errors: HostLost."""
        number, future = next(self._numbers), Future[Answer]()
        with self._lock:
            if self._lost is not None:
                raise HostLost(self._lost)
            self._waiting[number] = future
        with contextlib.suppress(OSError):  # `_receive` learns the reason and ends the future
            self._wire.send({"id": number, "call": name, **given}, data)
        return future

    def end_task(self, name: str, limit_s: float, number: int) -> None:
        """End a task by this request; a host in which one of its calls goes on gets no new plugins.

        Errors: HostLost, those of the plugin.
        """
        try:
            if not self._has_ended(name, limit_s, number):
                self.is_retired = True
                log.warning("The Java task did not end; what starts from now on starts in another Java host")
        finally:
            self.leave(number)

    def _has_ended(self, name: str, limit_s: float, number: int) -> bool:
        try:
            return bool(self.call(name, limit_s, task=number))
        except HostTimeout as late:
            log.warning("%s", late)
            return False

    def leave(self, number: int) -> None:
        """Forget a connector or task that has ended; a retired host ends with its last one."""
        for known in (self.offsets, self.events, self.on_lost):
            known.pop(number, None)
        self._left.append(number)
        while len(self._left) > _MOST_LEFT:
            self._contexts.pop(self._left.popleft(), None)
        if self.is_retired and not self.offsets:
            self._start(self.end)

    def end(self) -> None:
        """End the process, and wait until its last lines are written."""
        self.on_lost.clear()
        self._wire.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader.join(_LAST_WORDS_S)  # not for ever: a process that a plugin started may hold the pipe

    def _open(self, class_path: Sequence[Path], options: Sequence[str]) -> None:
        jars, all_options = [str(jar) for jar in class_path], ["-XX:+ExitOnOutOfMemoryError", *options]
        try:
            self.call("open", START_S, class_path=jars, options=all_options)
        except (HostLost, HostTimeout, JavaError) as error:
            self.end()
            if self._printed:  # no plugin runs yet: the JVM printed it
                raise JvmRefused(f"The Java host does not start: {' | '.join(self._printed)}") from error
            raise HostLost(f"The Java host does not start: {error}") from error

    def _receive(self) -> None:
        try:
            while True:
                message, data = self._wire.receive()
                if "id" in message:
                    self._settle(message, data)
                elif "ask" in message:
                    self._start(self._answer, message)
                else:
                    self._start(self.events.get(message["connector"], lambda _: None), message)
        except (EOFError, OSError):
            self._end()

    def _settle(self, message: Mapping[str, Any], data: bytearray) -> None:
        with self._lock:
            future = self._waiting.pop(message["id"])
        if "error" in message:
            future.set_exception(error_of(message["error"]))
        else:
            future.set_result((message["result"], data))

    def _answer(self, message: Mapping[str, Any]) -> None:
        partitions = message["partitions"]
        found: list[str | None] = [None] * len(partitions)
        try:
            found = self.offsets[message["of"]](partitions)
        finally:
            with contextlib.suppress(OSError):
                self._wire.send({"answer": message["ask"], "offsets": found})

    def _end(self) -> None:
        """Note the end, and fail all waiting requests."""
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        shown = f"; its last output: {' | '.join(self._last_output)}" if self._last_output else ""
        why = f"The Java host (process {self.pid}) {how}, and all Java plugins in it with it{shown}"
        with self._lock:
            self._lost, waiting = why, list(self._waiting.values())
            self._waiting.clear()
        log.log(logging.WARNING if waiting or self.on_lost else logging.INFO, "%s", why)
        for future in waiting:
            future.set_exception(HostLost(why))
        for number, call in list(self.on_lost.items()):
            self._start(self._contexts[number].copy().run, call)

    def _log_output(self, output: IO[bytes]) -> None:
        outside = contextvars.Context()
        for line in output:
            for logged in log_lines.parsed(line.decode(errors="replace").rstrip("\r\n")):
                if logged.logger == log_lines.PRINTED:
                    self._printed.append(logged.message[:300])
                elif logged.level >= logging.WARNING:
                    self._last_output.append(logged.message[:300])
                self._contexts.get(logged.number or 0, outside).run(log_lines.write, logged)

    def _start(self, target: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, name="java-host", daemon=True)
        thread.start()
        return thread
