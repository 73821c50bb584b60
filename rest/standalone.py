"""A standalone worker with its REST API; the connectors that the command named are created once Kafka is there."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from headrace.config.properties import ConnectorFile, read_connector
from headrace.config.worker import WorkerConfig
from headrace.plugins.stopping import StopToken
from headrace.rest import process
from headrace.worker.errors import ConnectError
from headrace.worker.herder.answers import TopicTracking
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.offset_changes import OffsetChanges
from headrace.worker.herder.plugins import InstalledPlugins
from headrace.worker.herder.standalone import StandaloneHerder
from headrace.worker.model import INITIAL_STATES
from headrace.worker.storage.offset_file import OffsetFile
from headrace.worker.storage.statuses import MemoryStatusStore
from headrace.worker.tasks.factory import WorkerTasks

log = logging.getLogger(__name__)


def run(worker_file: Path, connector_files: Sequence[Path]) -> int:
    """Runs the worker until a signal ends it; the process's exit code, as Apache's."""

    def make(config: WorkerConfig, stopping: StopToken) -> process.WorkerProcess:
        return _StandaloneWorker(config, stopping, [read_connector(path) for path in connector_files])

    return process.run(worker_file, WorkerConfig.standalone, make)


class _StandaloneWorker(process.WorkerProcess):
    def __init__(self, config: WorkerConfig, stopping: StopToken, connectors: Sequence[ConnectorFile]) -> None:
        offsets = OffsetFile(Path(config["offset.storage.file.filename"]))
        super().__init__(config, stopping)
        self._connectors = connectors
        self._offset_file = offsets
        statuses = MemoryStatusStore()
        tracking = TopicTracking(config["topic.tracking.enable"], config["topic.tracking.allow.reset"])
        tasks = WorkerTasks(config, self.plugins, self.spark, offsets, partial(tracking.used, statuses))
        self.herder = StandaloneHerder(
            self.worker_id,
            InstalledPlugins(self.plugins, config),
            tasks,
            OffsetChanges(config, offsets),
            lambda: self.cluster_id,
            statuses,
            tracking,
            config.values,
        )
        self.assemble(self.herder, tasks, offsets, WorkerMetrics(self.herder, self.worker_id, tasks.metrics))

    def begin(self) -> None:
        self._offset_file.belongs_to(self.cluster_id or "", self.config["cluster.id.accept"])
        for connector in self._connectors:
            self._create(connector)
        self.herder.ready()

    def _create(self, connector: ConnectorFile) -> None:
        try:
            self.herder.create(connector.name, connector.config, INITIAL_STATES[connector.initial_state or "RUNNING"])
        except ConnectError as error:
            raise process.FailedStart(f"Failed to create connector for {connector.path}: {error}") from error
        log.info("Created connector %s", connector.name)
