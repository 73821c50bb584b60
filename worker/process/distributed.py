"""A worker of a cluster, over the cluster's three topics and its group."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from types import MappingProxyType

from headrace.config.connector import clients
from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.settings import CLAIMED_VERSION
from headrace.plugins.errors import StoppedError
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.worker.group.membership import Membership
from headrace.worker.herder.dead_letters import DeadLetters
from headrace.worker.herder.distributed import DistributedHerder
from headrace.worker.herder.group_urls import GroupUrls
from headrace.worker.herder.join_checks import obstacles
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.offset_changes import OffsetChanges
from headrace.worker.herder.plugins import InstalledPlugins
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.herder.services import HerderServices
from headrace.worker.herder.topic_tracking import TopicTracking
from headrace.worker.herder.zombie_fencing import TaskAdmissions, ZombieFencing, producer_fencing
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.kafka.cluster import KafkaCluster
from headrace.worker.kafka.consumer_groups import members
from headrace.worker.model import TargetState
from headrace.worker.preview.previews import WorkerPreviews
from headrace.worker.process.runtime import Address, Runtime
from headrace.worker.process.worker import Worker
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.history_topic import HistoryTopic
from headrace.worker.storage.offset_topic import OffsetTopic
from headrace.worker.storage.status_topic import KafkaStatusStore
from headrace.worker.tasks.worker_tasks import ExactlyOnce, WorkerTasks

_TOPICS_SECONDS = 900.0
_TICK_SECONDS = 1.0
_LOOK_UP_SECONDS = 0.2
_SESSION_ENDS_SECONDS = 2.0
"""The most seconds from a session's time-out until a broker notices that the member has died."""

log = logging.getLogger(__name__)


class DistributedWorker(Worker):
    """A member of a group: configs, offsets and statuses in topics."""

    def __init__(
        self,
        runtime: Runtime,
        config: WorkerConfig,
        address: Address,
        client: RestClient | None,
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`client` posts to other workers, None if they do not listen; `labels` are those of its metrics."""
        self._history = HistoryTopic.of(config, address.worker_id)
        self._config_topic = ConfigTopic(config, self._history)
        self._offset_topic = OffsetTopic(config)
        membership = Membership.of(config, address.url, self._config_topic.snapshot)
        self._statuses = KafkaStatusStore(config, membership)
        self._rest_client = client
        support = config.exactly_once
        plugins = InstalledPlugins(runtime.plugins, config, exactly_once=support == "enabled")
        fencing = ZombieFencing(self._config_topic, producer_fencing(config, plugins.variables))
        admissions = TaskAdmissions(self._config_topic, membership, fencing, client)
        exactly_once = ExactlyOnce(self._offset_topic, admissions.of) if support == "enabled" else None
        topics, starts = TopicTracking(self._statuses, config.values), StartupCounter()
        tasks = WorkerTasks(
            config,
            runtime.plugins,
            runtime.engine,
            runtime.poll_interval,
            self._offset_topic,
            topics.used,
            config["group.id"],
            membership.is_current,
            exactly_once,
        )
        cluster = KafkaCluster(config)
        services = HerderServices(
            address.worker_id,
            config.values,
            cluster,
            plugins,
            tasks,
            self._statuses,
            topics,
            OffsetChanges(config, self._offset_topic),
            starts,
            DeadLetters(config, runtime.plugins),
            WorkerPreviews(config, runtime.plugins, plugins, runtime.preview_engine, self._offset_topic),
            self._history,
        )
        self._distributed = DistributedHerder(
            services,
            self._config_topic,
            membership,
            client,
            None if support == "disabled" else fencing,
            GroupUrls(config, address.url).others,
        )
        metrics = WorkerMetrics(
            self._distributed,
            address.worker_id,
            tasks.metrics,
            starts,
            membership,
            self._distributed.rebalances,
            labels,
            config["metrics.names"],
            runtime.metrics,
            config[CLAIMED_VERSION.name],
        )
        super().__init__(runtime, config, cluster, self._distributed, tasks, self._offset_topic, metrics)

    def on_role(self, listener: Callable[[bool], None]) -> None:
        """As `DistributedHerder.on_role`."""
        self._distributed.on_role(listener)

    def begin(self) -> None:
        runtime = self.runtime
        self._read_topics()
        if runtime.stopping.is_set():
            return
        if self._history is not None:
            self._history.begin(lambda: self._config_topic.refresh(_TOPICS_SECONDS))
        self._distributed.know()
        cluster = self._config_topic.snapshot()
        found = obstacles(cluster.connectors, cluster.fencing_counts, self.config, runtime.plugins)
        if found.always or (found.beside_others and not self._is_alone()):
            problems = [*found.always, *found.beside_others]
            raise ConfigError(problems, "This worker cannot run what its cluster runs, and does not join it: it")
        for problem in found.beside_others:
            log.warning("This worker is alone in its group and starts; what needs this will have FAILED: %s", problem)
        if TargetState.STARTED in cluster.targets.values():
            # A member is assigned work at once, which cannot move before Spark is ready.
            while not runtime.spark.wait_ready(_LOOK_UP_SECONDS) and not runtime.stopping.is_set():
                continue
        if not runtime.stopping.is_set():
            self._distributed.start()
            self.every(_TICK_SECONDS, self._distributed.tick)

    def _is_alone(self) -> bool:
        """True if the group has no members. Waits for the sessions of dead members to end."""
        admin, group = admin_client(clients.internal_admin(self.config).librdkafka()), self.config["group.id"]
        until = time.monotonic() + self.config["session.timeout.ms"] / 1000 + _SESSION_ENDS_SECONDS
        while others := members(admin, group):
            if time.monotonic() >= until or self.runtime.stopping.wait(_LOOK_UP_SECONDS):
                log.info("The group %s has members: %s", group, ", ".join(other.name for other in others))
                return False
        return True

    def _read_topics(self) -> None:
        """Read the cluster's topics to their ends, unless the worker has to stop. Errors: ConfigError, ConnectError."""
        starts = [self._offset_topic.start, self._statuses.start, self._config_topic.start]
        starts += [] if self._history is None else [self._history.start]
        with ThreadPoolExecutor(len(starts), "internal-topics") as pool:
            reading = [pool.submit(start, _TOPICS_SECONDS) for start in starts]
            while (waited := wait(reading, _LOOK_UP_SECONDS, FIRST_EXCEPTION)).not_done:
                if self.runtime.stopping.is_set() or any(one.exception() for one in waited.done):
                    self._stop_topics()
                    break
        for one in reading:
            with contextlib.suppress(StoppedError):
                one.result()

    def _stop_topics(self) -> None:
        self._config_topic.stop()
        if self._history is not None:
            self._history.stop()
        self._statuses.stop()
        self._offset_topic.stop()

    def end(self) -> None:
        self._stop_topics()
        if self._rest_client is not None:
            self._rest_client.close()
