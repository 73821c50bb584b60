"""A worker within its process: herder, tasks and offsets, started once Kafka answers and stopped in order."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apscheduler.job import Job

    from headrace.config.worker.config import WorkerConfig
    from headrace.worker.herder.api import Herder
    from headrace.worker.herder.metrics import WorkerMetrics
    from headrace.worker.kafka.cluster import KafkaCluster
    from headrace.worker.process.runtime import Runtime
    from headrace.worker.storage.offset_file import SourceOffsets
    from headrace.worker.tasks.worker_tasks import WorkerTasks

log = logging.getLogger(__name__)


class FailedStart(Exception):
    """The worker cannot begin its work."""


class Worker(ABC):
    """A worker of one mode; several may share a runtime."""

    def __init__(
        self,
        runtime: Runtime,
        config: WorkerConfig,
        cluster: KafkaCluster,
        herder: Herder,
        tasks: WorkerTasks,
        offsets: SourceOffsets,
        metrics: WorkerMetrics,
    ) -> None:
        self.runtime = runtime
        self.config = config
        self.cluster = cluster
        self.herder = herder
        self.metrics = metrics
        self._tasks = tasks
        self._offsets = offsets
        self._jobs: list[Job] = []

    @abstractmethod
    def begin(self) -> None:
        """Begin the worker's work; Kafka answers. Errors: ConfigError, ConnectError, FailedStart."""

    @abstractmethod
    def end(self) -> None:
        """End what the mode began; the herder and the tasks have ended before."""

    def start(self) -> None:
        """Wait for Kafka, then begin the work; less of it if the process stops meanwhile.

        Errors: as `begin`; call `stop` then.
        """
        if self.cluster.wait(self.runtime.stopping):
            self.begin()
            self.every(self.config["offset.flush.interval.ms"] / 1000, self._flush_offsets)
            # The steps of all workers of a cluster end at the same time.
            series = self.metrics.series
            self.every(series.step_s, series.sample, start_date=datetime.fromtimestamp(0, UTC))

    def every(self, seconds: float, do: Callable[[], None], start_date: datetime | None = None) -> None:
        """Call `do` at this interval until the worker stops; in phase with `start_date`, if given."""
        again = self.runtime.scheduler.add_job(do, "interval", seconds=seconds, start_date=start_date, max_instances=1)
        self._jobs.append(again)

    def stop(self) -> None:
        """End all of the worker's work; other workers of the process go on."""
        stop_all(
            [
                ("the herder", self.herder.stop),
                ("the tasks", self._tasks.close),
                ("its scheduled work", self._end_jobs),
                ("the flush of offsets", self._flush_offsets),
                ("what the mode began", self.end),
                ("the config providers", self.config.variables.close),
            ]
        )

    def _end_jobs(self) -> None:
        while self._jobs:
            self._jobs.pop().remove()

    def _flush_offsets(self) -> None:
        try:
            self._offsets.flush()
        except OSError as error:
            log.error("Offsets could not be written, trying again later: %s; free or mend that place", error)


def stop_all(steps: Sequence[tuple[str, Callable[[], object]]]) -> None:
    """Take each named step of an end; an error is logged, and the next step follows."""
    for what, stop in steps:
        try:
            stop()
        except Exception:
            log.exception("The worker goes on stopping, but this did not end cleanly: %s", what)
