"""A process with its work, in any mode: run until a signal ends it, then taken apart.

REST answers first; meanwhile Spark starts in the background and each worker waits for its Kafka cluster.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.config.problems import ConfigError
from headrace.config.properties import read_properties
from headrace.config.variables import Variables
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.java_only import warn_of_variables
from headrace.config.worker.listeners import Listener
from headrace.config.worker.settings import CLAIMED_VERSION
from headrace.plugins.interop.catalyst.liveness import show_stacks_on_quit
from headrace.plugins.interop.java_hosts import JAVA_HOSTS
from headrace.plugins.interop.jvm import jars
from headrace.plugins.stopping import StopToken
from headrace.worker.errors import ConnectError
from headrace.worker.herder.plugins import worker_config
from headrace.worker.logging import logs
from headrace.worker.logging.redaction import log_text
from headrace.worker.machine.kept_memory import keep_freed_memory
from headrace.worker.machine.open_files import allow_open_files
from headrace.worker.process.worker import FailedStart, stop_all

if TYPE_CHECKING:
    from headrace.worker.herder.api import Herder
    from headrace.worker.herder.metrics import WorkerMetrics
    from headrace.worker.herder.rest_client import RestClient
    from headrace.worker.process.runtime import Runtime

log = logging.getLogger(__name__)

T = TypeVar("T")

CONFIG_ERROR: Final = 2
FAILED_START: Final = 3
_OBJECTS: Final = 10_000
"""Python's collector looks for garbage after this many new objects."""
_LOOK_S: Final = 1.0
"""The system may give a signal to any thread, which does not wake the main one that runs Python's handlers."""


class Server(Protocol):
    """Serves HTTP; its listeners are bound from its construction."""

    @property
    def bound(self) -> list[Listener]:
        """The listeners with their actual ports."""

    def stop(self) -> None:
        """Answer no request any more."""


class HerderServer(Server, Protocol):
    """Serves a herder over HTTP."""

    def start(self, herder: Herder, metrics: WorkerMetrics, client: RestClient | None) -> None:
        """Answer requests; `client` forwards those that another worker decides, None if there is no other."""


Serve = Callable[[WorkerConfig], HerderServer]
"""Binds the listeners of a worker's settings. Errors: ConfigError if one cannot be bound."""


class Work(Protocol):
    """The worker of a process, or its workers."""

    def start(self) -> None:
        """Begin the work, or as much of it as possible before the process has to stop.

        Errors: ConfigError, ConnectError, FailedStart.
        """

    def stop(self) -> None:
        """End all that was begun."""


class Process:
    """A process: its runtime, its REST server and its work."""

    def __init__(
        self,
        runtime: Runtime,
        server: Server,
        answer: Callable[[], None],
        work: Work,
        name: str = "Kafka Connect",
    ) -> None:
        """`answer` has the server answer requests; `name`: the process's name in the log."""
        self._runtime = runtime
        self._server = server
        self._answer = answer
        self._work = work
        self._name = name

    def run(self) -> int:
        """Run until the process has to stop; returns its exit code."""
        stopping = self._runtime.stopping
        self._runtime.start()
        self._answer()
        if self._server.bound:
            log.info("REST answers at %s", ", ".join(listener.shown for listener in self._server.bound))
        try:
            self._work.start()
            if not stopping.is_set():
                log.info("%s started", self._name)
            _keep_what_is_there()
            while not stopping.wait(_LOOK_S):
                pass
            return 0
        except (ConnectError, FailedStart) as error:
            log.error("The worker cannot start: %s", log_text(error))
            return FAILED_START
        finally:
            self._stop()

    def _stop(self) -> None:
        log.info("%s stopping", self._name)
        runtime = self._runtime
        runtime.stopping.set()
        stop_all(
            [
                ("the work", self._work.stop),
                ("Java plugins", JAVA_HOSTS.end),
                ("the scheduler", lambda: runtime.scheduler.shutdown(wait=False)),
                ("Spark's expressions", runtime.engine.stop),
                ("those of previews", runtime.preview_engine.projections.stop),
                ("Spark", runtime.spark.stop),
                ("the REST server", self._server.stop),
            ]
        )
        log.info("%s stopped", self._name)


def _keep_what_is_there() -> None:
    """Exempt all existing objects from Python's collector: modules and the worker itself, 150,000 objects.

    Looking at them took 0.15 s, in which no thread ran, each time that connectors had made some tens of thousands more.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])


def run_worker(
    worker_file: Path,
    parse: Callable[[Mapping[str, str], Variables], WorkerConfig],
    make: Callable[[WorkerConfig, StopToken], Process],
) -> int:
    """Run the process of one worker until a signal ends it; returns its exit code, as Apache's."""
    JAVA_HOSTS.worker_file = worker_file.absolute()

    def read(props: Mapping[str, str]) -> WorkerConfig:
        config = worker_config(props, parse)
        log.info("Kafka version: %s", config[CLAIMED_VERSION.name])
        return config

    return run_process(worker_file, read, make)


def run_process(
    config_file: Path, parse: Callable[[Mapping[str, str]], T], make: Callable[[T, StopToken], Process]
) -> int:
    """Run a process until a signal ends it; returns its exit code, as Apache's."""
    show_stacks_on_quit()
    allow_open_files()
    keep_freed_memory()
    logs.set_up()
    logs.take_uncaught()
    with _stop_signals() as stopping:
        warn_of_variables(os.environ)
        try:
            config = parse(read_properties(config_file))
        except ConfigError as error:
            if stopping.is_set():  # after a signal the file may be gone
                return 0
            # Invariant 8: the text names every bad setting and what to do; no trace hides it.
            log.error("%s: %s", config_file, error)
            return CONFIG_ERROR
        if stopping.is_set():
            return 0
        try:
            return make(config, stopping).run()
        except (ConfigError, jars.Unavailable) as error:
            log.error("The worker cannot start: %s", error)
            return FAILED_START


@contextlib.contextmanager
def _stop_signals() -> Iterator[StopToken]:
    """Yield a token that SIGTERM, SIGINT and SIGHUP set; under nohup SIGHUP stays ignored."""
    stopping = StopToken()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    ending = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in ending}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
