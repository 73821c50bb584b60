"""A worker of a cluster with its REST API: put together over the cluster's three topics and its group."""

from __future__ import annotations

import contextlib
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

from headrace.config.problems import ConfigError
from headrace.config.worker import WorkerConfig
from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken
from headrace.rest import process
from headrace.worker.group.membership import Membership
from headrace.worker.herder.answers import TopicTracking
from headrace.worker.herder.distributed import DistributedHerder
from headrace.worker.herder.join_checks import obstacles
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.offset_changes import OffsetChanges
from headrace.worker.herder.plugins import InstalledPlugins
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.model import TargetState
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.offset_topic import OffsetTopic
from headrace.worker.storage.status_topic import KafkaStatusStore
from headrace.worker.tasks.factory import WorkerTasks

_TOPICS_SECONDS = 900.0
_TICK_SECONDS = 1.0
_LOOK_UP_SECONDS = 0.2


def run(worker_file: Path) -> int:
    """Runs the worker until a signal ends it; the process's exit code, as Apache's."""
    return process.run(worker_file, WorkerConfig.distributed, _DistributedWorker)


class _DistributedWorker(process.WorkerProcess):
    def __init__(self, config: WorkerConfig, stopping: StopToken) -> None:
        super().__init__(config, stopping)
        self._config_topic = ConfigTopic(config)
        self._offset_topic = OffsetTopic(config)
        self._membership = Membership.of(config, self.url, self._config_topic.snapshot)
        self._statuses = KafkaStatusStore(config, lambda: self._membership.generation)
        self._rest_client = RestClient(config["inter.worker.signature.algorithm"])
        tracking = TopicTracking(config["topic.tracking.enable"], config["topic.tracking.allow.reset"])
        tasks = WorkerTasks(
            config,
            self.plugins,
            self.spark,
            self._offset_topic,
            partial(tracking.used, self._statuses),
            self._membership.is_current,
        )
        self.herder = DistributedHerder(
            self.worker_id,
            InstalledPlugins(self.plugins, config, exactly_once=False),
            tasks,
            self._config_topic,
            self._statuses,
            OffsetChanges(config, self._offset_topic),
            self._membership,
            self._rest_client,
            config.values,
            lambda: self.cluster_id,
        )
        metrics = WorkerMetrics(
            self.herder, self.worker_id, tasks.metrics, group=self._membership, rebalances=self.herder.rebalances
        )
        self.assemble(self.herder, tasks, self._offset_topic, metrics, self._rest_client)

    def begin(self) -> None:
        self._read_topics()
        cluster = self._config_topic.snapshot()
        found = obstacles(cluster.connectors, cluster.fencing_counts, self.config, self.plugins)
        if found:
            raise ConfigError(found, "This worker cannot run what its cluster runs, and does not join it: it")
        if TargetState.STARTED in cluster.targets.values():
            # Who joins is given work: not before it can move.
            while not self.spark.wait_ready(_LOOK_UP_SECONDS) and not self.stopping.is_set():
                continue
        if not self.stopping.is_set():
            self.herder.start()
            self.scheduler.add_job(self.herder.tick, "interval", seconds=_TICK_SECONDS, max_instances=1)

    def _read_topics(self) -> None:
        """What the cluster's topics say is known, unless the worker was asked to stop.

        Errors: ConfigError, ConnectError.
        """
        topics = (self._offset_topic, self._statuses, self._config_topic)
        with ThreadPoolExecutor(len(topics), "internal-topics") as pool:
            reading = [pool.submit(topic.start, _TOPICS_SECONDS) for topic in topics]
            while (waited := wait(reading, _LOOK_UP_SECONDS, FIRST_EXCEPTION)).not_done:
                if self.stopping.is_set() or any(one.exception() for one in waited.done):
                    self._stop_topics()
                    break
        for one in reading:
            with contextlib.suppress(StoppedError):
                one.result()

    def _stop_topics(self) -> None:
        self._config_topic.stop()
        self._statuses.stop()
        self._offset_topic.stop()

    def end(self) -> None:
        self._stop_topics()
        self._rest_client.close()
