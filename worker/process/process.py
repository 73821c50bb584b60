"""A worker as a process, in either mode: run until a signal ends it, then taken apart.

REST answers first; meanwhile Spark starts in the background and the worker waits for Kafka.
"""

from __future__ import annotations

import contextlib
import logging
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final

from headrace.config.problems import ConfigError
from headrace.config.properties import read_properties
from headrace.config.variables import Variables
from headrace.config.worker import WorkerConfig
from headrace.plugins.catalyst.liveness import show_stacks_on_quit
from headrace.plugins.stopping import StopToken
from headrace.worker import logs
from headrace.worker.errors import ConnectError
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.plugins import worker_config
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.machine import jars
from headrace.worker.process.runtime import Runtime
from headrace.worker.redaction import log_text
from headrace.worker.storage.offset_file import SourceOffsets
from headrace.worker.tasks.worker_tasks import WorkerTasks

log = logging.getLogger(__name__)

CONFIG_ERROR: Final = 2
FAILED_START: Final = 3
_LOOK_S: Final = 1.0
"""The system may give a signal to any thread; Python's handlers run in the main one, which that does not wake."""


class FailedStart(Exception):
    """The worker cannot take up its work."""


class WorkerProcess(ABC):
    """One worker: a runtime with the herder, the tasks and the offsets of a mode."""

    def __init__(
        self,
        runtime: Runtime,
        herder: Herder,
        tasks: WorkerTasks,
        offsets: SourceOffsets,
        metrics: WorkerMetrics,
        client: RestClient | None = None,
    ) -> None:
        """`client` forwards requests to other workers."""
        self.runtime = runtime
        self._herder = herder
        self._tasks = tasks
        self._offsets = offsets
        self._metrics = metrics
        self._client = client

    @abstractmethod
    def begin(self) -> None:
        """Take up the worker's work; Kafka answers.

        Errors: ConfigError, ConnectError, FailedStart.
        """

    def end(self) -> None:  # noqa: B027 (a standalone worker has nothing to end)
        """End what `begin` began; the herder and the tasks have ended before."""

    def run(self) -> int:
        """Run until the worker has stopped; its exit code."""
        runtime = self.runtime
        runtime.server.start(self._herder, self._metrics, self._client)
        log.info("REST answers at %s", ", ".join(listener.shown for listener in runtime.server.bound))
        runtime.scheduler.start()
        try:
            if runtime.cluster.wait(runtime.stopping):
                self.begin()
                self._flush_offsets_regularly()
                log.info("Kafka Connect started")
            while not runtime.stopping.wait(_LOOK_S):
                pass
            return 0
        except (ConnectError, FailedStart) as error:
            log.error("The worker cannot start: %s", log_text(error))
            return FAILED_START
        finally:
            self._stop()

    def _flush_offsets_regularly(self) -> None:
        every_s = self.runtime.config["offset.flush.interval.ms"] / 1000
        self.runtime.scheduler.add_job(self._flush_offsets, "interval", seconds=every_s, max_instances=1)

    def _flush_offsets(self) -> None:
        try:
            self._offsets.flush()
        except OSError as error:
            log.error("Offsets could not be written, trying again later: %s; free or mend that place", error)

    def _stop(self) -> None:
        log.info("Kafka Connect stopping")
        runtime = self.runtime
        runtime.stopping.set()
        steps: list[tuple[str, Callable[[], object]]] = [
            ("the herder", self._herder.stop),
            ("the tasks", self._tasks.close),
            ("the scheduler", lambda: runtime.scheduler.shutdown(wait=False)),
            ("the flush of offsets", self._flush_offsets),
            ("what the mode began", self.end),
            ("Spark", runtime.spark.stop),
            ("the config providers", runtime.config.variables.close),
            ("the REST server", runtime.server.stop),
        ]
        for what, stop in steps:
            try:
                stop()
            except Exception:
                log.exception("The worker goes on stopping, but this did not end cleanly: %s", what)
        log.info("Kafka Connect stopped")


def run(
    worker_file: Path,
    parse: Callable[[Mapping[str, str], Variables], WorkerConfig],
    make: Callable[[WorkerConfig, StopToken], WorkerProcess],
) -> int:
    """Run a worker until a signal ends it; the process's exit code, as Apache's."""
    show_stacks_on_quit()
    logs.set_up()
    logs.take_uncaught()
    try:
        config = worker_config(read_properties(worker_file), parse)
    except ConfigError as error:
        # Invariant 8: the text names every bad setting and what to do; no trace hides it.
        log.error("%s: %s", worker_file, error)
        return CONFIG_ERROR
    try:
        with _stop_signals() as stopping:
            return make(config, stopping).run()
    except (ConfigError, jars.Unavailable) as error:
        log.error("The worker cannot start: %s", error)
        return FAILED_START


@contextlib.contextmanager
def _stop_signals() -> Iterator[StopToken]:
    """A token that SIGTERM and SIGINT set."""
    stopping = StopToken()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
