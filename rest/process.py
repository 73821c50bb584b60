"""A worker as a process, in either mode: put together, run until a signal ends it, taken apart.

REST answers first; Spark starts in the background and Kafka is waited for meanwhile.
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

from apscheduler.schedulers.background import BackgroundScheduler

from headrace.config.listeners import advertised_url, worker_id
from headrace.config.problems import ConfigError
from headrace.config.properties import read_properties
from headrace.config.variables import Variables
from headrace.config.worker import WorkerConfig
from headrace.plugins.catalyst.liveness import show_stacks_on_quit
from headrace.plugins.discovery import Plugins
from headrace.plugins.stopping import StopToken
from headrace.rest.app import admin_app, app
from headrace.rest.server import Server
from headrace.worker import logs
from headrace.worker.engine.driver import Spark
from headrace.worker.errors import ConnectError
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.plugins import worker_config
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.kafka.cluster import wait_for_cluster
from headrace.worker.machine import jars
from headrace.worker.storage.offset_file import SourceOffsets
from headrace.worker.tasks.factory import WorkerTasks

log = logging.getLogger(__name__)

CONFIG_ERROR: Final = 2
FAILED_START: Final = 3
_LOOK_S: Final = 1.0
"""The system may give a signal to any thread; Python's handlers run in the main one, which that does not wake."""


class FailedStart(Exception):
    """The worker cannot take up its work."""


class WorkerProcess(ABC):
    """One worker with its REST API, its Spark and its tasks; `assemble` completes it."""

    def __init__(self, config: WorkerConfig, stopping: StopToken) -> None:
        self.config = config
        self.stopping = stopping
        self.cluster_id: str | None = None
        """Of the Kafka cluster, once it has answered."""
        self.plugins = Plugins.discover(config["plugin.path"])
        self.server = Server(config.listeners())
        # Not set: /admin is with the rest. Empty: it is switched off.
        self._admin_server = Server(config.admin_listeners() or [], "admin.listeners")
        self.spark = Spark(config.spark_conf(), jars.fetch("spark"), self.plugins.paths)
        self.spark.start()
        self.scheduler = BackgroundScheduler(timezone="UTC")
        advertised = config.advertised(self.server.bound)
        self.url = advertised_url(advertised)
        self.worker_id = worker_id(advertised)

    def assemble(
        self,
        herder: Herder,
        tasks: WorkerTasks,
        offsets: SourceOffsets,
        metrics: WorkerMetrics,
        client: RestClient | None = None,
    ) -> None:
        """These are its parts; `client` hands requests on to other workers."""
        self._herder, self._tasks, self._offsets, self._client = herder, tasks, offsets, client
        herder.metrics = metrics

    @abstractmethod
    def begin(self) -> None:
        """The worker has taken up its work, Kafka being there.

        Errors: ConfigError, ConnectError, FailedStart.
        """

    def end(self) -> None:  # noqa: B027 (a worker of its own has nothing to end)
        """What `begin` began has ended; the herder and the tasks have before."""

    def run(self) -> int:
        """The exit code, once the worker was asked to stop and did."""
        self.server.start(app(self._herder, self.config.values, self._client))
        if self._admin_server.bound:
            self._admin_server.start(admin_app(self._herder, self.config.values, self._client))
        log.info("REST answers at %s", ", ".join(listener.shown for listener in self.server.bound))
        self.scheduler.start()
        try:
            self.cluster_id = wait_for_cluster(self.config, self.stopping)
            if self.cluster_id is not None:
                self.begin()
                self._flush_offsets_regularly()
                log.info("Kafka Connect started")
            while not self.stopping.wait(_LOOK_S):
                pass
            return 0
        except (ConnectError, FailedStart) as error:
            log.error("The worker cannot start: %s", error)
            return FAILED_START
        finally:
            self._stop()

    def _flush_offsets_regularly(self) -> None:
        every_s = self.config["offset.flush.interval.ms"] / 1000
        self.scheduler.add_job(self._flush_offsets, "interval", seconds=every_s, max_instances=1)

    def _flush_offsets(self) -> None:
        try:
            self._offsets.flush()
        except OSError as error:
            log.error("Offsets could not be written, they will be again: %s; free or mend that place", error)

    def _stop(self) -> None:
        log.info("Kafka Connect stopping")
        self.stopping.set()
        self._herder.stop()
        self._tasks.close()
        self.scheduler.shutdown(wait=False)
        self._flush_offsets()
        self.end()
        self.spark.stop()
        self.config.variables.close()
        self._admin_server.stop()
        self.server.stop()
        log.info("Kafka Connect stopped")


def run(
    worker_file: Path,
    parse: Callable[[Mapping[str, str], Variables], WorkerConfig],
    make: Callable[[WorkerConfig, StopToken], WorkerProcess],
) -> int:
    """Runs a worker until a signal ends it; the process's exit code, as Apache's."""
    show_stacks_on_quit()
    logs.set_up()
    logs.take_uncaught()
    try:
        config = worker_config(read_properties(worker_file), parse)
    except ConfigError as error:
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
