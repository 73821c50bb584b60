"""The parts that a process has once, shared by its one or several workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from apscheduler.schedulers.background import BackgroundScheduler

from headrace.config.worker.listeners import Listener, advertised_url, worker_id
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.interop.java_hosts import JAVA_HOSTS
from headrace.plugins.interop.kafka import admin_clients, group_offsets
from headrace.plugins.interop.kafka.known_brokers import CHECK_EVERY_S
from headrace.plugins.stopping import StopToken
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from headrace.worker.engine.jvm_metrics import JvmMetrics
from headrace.worker.engine.programs import Engine
from headrace.worker.engine.quota import Quota
from headrace.worker.herder.process_metrics import ProcessMetrics
from headrace.worker.tasks.poll_interval import PollInterval

BATCH_BYTES: Final = 64 << 20
"""Bytes of batches that the process holds at once, over all its tasks."""
PREVIEW_BYTES: Final = 16 << 20
"""Bytes of batches of previews, beside those of tasks."""
JOBS: Final = 2
"""Spark jobs at once on the worker's own cores; more wait their turn."""
JOBS_ON_CLUSTER: Final = 16
"""Spark jobs at once on a cluster, whose cores Spark shares out; the worker only plans the jobs."""


@dataclass(frozen=True)
class Address:
    """A worker's URL towards other workers, and its id in statuses."""

    url: str
    worker_id: str

    @classmethod
    def of(cls, advertised: Listener) -> Self:
        """The address of a worker that others reach at this listener."""
        return cls(advertised_url(advertised), worker_id(advertised))


class Runtime:
    """Plugins, Spark with the engine over it, and the scheduler, which does nothing before `start`."""

    def __init__(self, plugins: Plugins, spark: Spark, stopping: StopToken) -> None:
        """`spark` has begun to start; `stopping` is set once the process has to end."""
        self.stopping = stopping
        self.plugins = plugins
        self.spark = spark
        jobs = Quota(JOBS if self.spark.is_local else JOBS_ON_CLUSTER)
        self.engine = Engine(ProjectionPool(self.spark), jobs, Quota(BATCH_BYTES))
        self.preview_engine = Engine(ProjectionPool(self.spark, 1), Quota(1), Quota(PREVIEW_BYTES))
        self.poll_interval = PollInterval()
        self.scheduler = BackgroundScheduler(timezone="UTC")
        self.metrics = ProcessMetrics(
            lambda: self.spark.executors.trouble, spark=JvmMetrics(self.spark), java=JAVA_HOSTS
        )

    def start(self) -> None:
        """Start the scheduler."""
        for clients in (admin_clients, group_offsets):
            self.scheduler.add_job(clients.poll_clients, "interval", seconds=CHECK_EVERY_S)
        self.scheduler.start()
