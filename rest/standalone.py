"""A standalone worker with its REST API: put together, run until it is asked to stop, taken apart.

REST answers first; Spark starts in the background and Kafka is waited for meanwhile. The connectors that the command
named are created once Kafka is there.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Final

from apscheduler.schedulers.background import BackgroundScheduler

from headrace.config.problems import ConfigError
from headrace.config.properties import ConnectorFile, read_connector, read_properties
from headrace.config.worker import WorkerConfig
from headrace.plugins.discovery import Plugins
from headrace.rest.app import app
from headrace.rest.server import Server
from headrace.worker import jars, logs
from headrace.worker.cluster import wait_for_cluster
from headrace.worker.herder import ConnectError, TargetState
from headrace.worker.installed import InstalledPlugins
from headrace.worker.offsets import OffsetFile
from headrace.worker.spark import Spark
from headrace.worker.standalone import StandaloneHerder, TopicTracking
from headrace.worker.tasks import WorkerTasks

log = logging.getLogger(__name__)

CONFIG_ERROR: Final = 2
FAILED_START: Final = 3
_TARGETS: Final = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}


def run(worker_file: Path, connector_files: Sequence[Path]) -> int:
    """Runs the worker until a signal ends it; the process's exit code, as Apache's."""
    logs.set_up()
    try:
        config = WorkerConfig.standalone(read_properties(worker_file))
    except ConfigError as error:
        log.error("%s: %s", worker_file, error)
        return CONFIG_ERROR
    try:
        connectors = [read_connector(path) for path in connector_files]
        with _stop_signals() as stopping:
            return _StandaloneWorker(config, stopping).run(connectors)
    except (ConfigError, jars.Unavailable) as error:
        log.error("The worker cannot start: %s", error)
        return FAILED_START


class _StandaloneWorker:
    def __init__(self, config: WorkerConfig, stopping: threading.Event) -> None:
        self._config = config
        self._stopping = stopping
        self._cluster_id: str | None = None
        self._offsets = OffsetFile(Path(config["offset.storage.file.filename"]))
        plugins = Plugins.discover(config["plugin.path"])
        self._server = Server(config.listeners())
        self._spark = Spark(config.spark_conf(), jars.fetch("spark"), plugins.paths)
        self._spark.start()
        self._tasks = WorkerTasks(config, plugins, self._spark, self._offsets)
        where = config.advertised(self._server.bound)
        self._herder = StandaloneHerder(
            f"{where.host}:{where.port}",
            InstalledPlugins(plugins, config),
            self._tasks,
            lambda: self._cluster_id,
            tracking=TopicTracking(config["topic.tracking.enable"], config["topic.tracking.allow.reset"]),
        )
        self._tasks.topic_used = self._herder.topic_used
        self._scheduler = BackgroundScheduler(timezone="UTC")

    def run(self, connectors: Sequence[ConnectorFile]) -> int:
        """The exit code, once the worker was asked to stop and did."""
        self._server.start(app(self._herder, self._config.values))
        log.info("REST answers at %s", ", ".join(str(listener) for listener in self._server.bound))
        try:
            self._cluster_id = wait_for_cluster(self._config, self._stopping.is_set)
            if self._cluster_id is not None:
                self._offsets.belongs_to(self._cluster_id, self._config["cluster.id.accept"])
                self._flush_offsets_regularly()
                if not self._create(connectors):
                    return FAILED_START
                self._herder.ready()
                log.info("Kafka Connect started")
            self._stopping.wait()
            return 0
        finally:
            self._stop()

    def _create(self, connectors: Sequence[ConnectorFile]) -> bool:
        for connector in connectors:
            try:
                target = _TARGETS[connector.initial_state or "RUNNING"]
                self._herder.create(connector.name, connector.config, target)
                log.info("Created connector %s", connector.name)
            except ConnectError as error:
                log.error("Failed to create connector for %s: %s", connector.path, error)
                return False
        return True

    def _flush_offsets_regularly(self) -> None:
        every = timedelta(milliseconds=self._config["offset.flush.interval.ms"])
        self._scheduler.add_job(self._flush_offsets, "interval", seconds=every.total_seconds(), max_instances=1)
        self._scheduler.start()

    def _flush_offsets(self) -> None:
        try:
            self._offsets.flush()
        except OSError as error:
            log.error("Offsets could not be written, they will be again: %s; free or mend that place", error)

    def _stop(self) -> None:
        log.info("Kafka Connect stopping")
        self._stopping.set()
        self._herder.stop()
        self._tasks.close()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        self._flush_offsets()
        self._spark.stop()
        self._server.stop()
        log.info("Kafka Connect stopped")


@contextlib.contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
