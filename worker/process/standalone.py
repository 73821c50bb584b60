"""A standalone worker; it creates the connectors of its command line once Kafka answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from headrace.config.properties import ConnectorFile
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.settings import CLAIMED_VERSION
from headrace.worker.errors import ConnectError
from headrace.worker.herder.dead_letters import DeadLetters
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.offset_changes import OffsetChanges
from headrace.worker.herder.plugins import InstalledPlugins
from headrace.worker.herder.services import HerderServices
from headrace.worker.herder.standalone import StandaloneHerder
from headrace.worker.herder.topic_tracking import TopicTracking
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.kafka.cluster import KafkaCluster
from headrace.worker.model import INITIAL_STATES
from headrace.worker.preview.previews import WorkerPreviews
from headrace.worker.process.runtime import Address, Runtime
from headrace.worker.process.worker import FailedStart, Worker
from headrace.worker.requester import Requester, asked_by
from headrace.worker.storage.offset_file import OffsetFile
from headrace.worker.storage.statuses import MemoryStatusStore
from headrace.worker.storage.worker_identity import WorkerIdentity
from headrace.worker.tasks.worker_tasks import WorkerTasks

log = logging.getLogger(__name__)


class StandaloneWorker(Worker):
    """A worker alone: statuses in memory, offsets in a file."""

    def __init__(
        self, runtime: Runtime, config: WorkerConfig, address: Address, connectors: Sequence[ConnectorFile]
    ) -> None:
        path = Path(config["offset.storage.file.filename"])
        cluster, offsets, self._identity = KafkaCluster(config), OffsetFile(path), WorkerIdentity(path)
        statuses, starts = MemoryStatusStore(), StartupCounter()
        topics = TopicTracking(statuses, config.values)
        tasks = WorkerTasks(
            config,
            runtime.plugins,
            runtime.engine,
            runtime.poll_interval,
            offsets,
            topics.used,
            self._identity.name,
        )
        plugins = InstalledPlugins(runtime.plugins, config)
        self._standalone = StandaloneHerder(
            HerderServices(
                address.worker_id,
                config.values,
                cluster,
                plugins,
                tasks,
                statuses,
                topics,
                OffsetChanges(config, offsets),
                starts,
                DeadLetters(config, runtime.plugins),
                WorkerPreviews(config, runtime.plugins, plugins, runtime.preview_engine, offsets),
            )
        )
        metrics = WorkerMetrics(
            self._standalone,
            address.worker_id,
            tasks.metrics,
            starts,
            names=config["metrics.names"],
            process=runtime.metrics,
            version=config[CLAIMED_VERSION.name],
        )
        super().__init__(runtime, config, cluster, self._standalone, tasks, offsets, metrics)
        self._offset_file = offsets
        self._connectors = connectors

    def begin(self) -> None:
        self._offset_file.belongs_to(self.cluster.id or "", self.config["cluster.id.accept"])
        for connector in self._connectors:
            self._create(connector)
        self._standalone.know()

    def end(self) -> None:
        self._identity.release()

    def _create(self, connector: ConnectorFile) -> None:
        target = INITIAL_STATES[connector.initial_state or "RUNNING"]
        try:
            with asked_by(Requester(None, "the worker's command line")):
                self._standalone.create(connector.name, connector.config, target)
        except ConnectError as error:
            raise FailedStart(f"Failed to create connector for {connector.path}: {error}") from error
        log.info("Created connector %s", connector.name)
