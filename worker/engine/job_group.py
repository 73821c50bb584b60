"""A group of Spark jobs: those that one call of ours starts, to be ended together."""

from __future__ import annotations

import itertools
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.worker.engine.spark_internals import cancel_jobs

_numbers: Final = itertools.count(1)


class JobGroup:
    """A job group with a name of its own. `begin` is for the thread that starts the jobs, the rest for any thread."""

    def __init__(self, session: SparkSession, about: str) -> None:
        self._session = session
        self._about = about
        self._name = f"headrace-batch-{next(_numbers)}"

    def begin(self) -> None:
        """Count the jobs that this thread starts from now on among the group's."""
        self._session.sparkContext.setJobGroup(self._name, self._about, interruptOnCancel=True)

    def cancel(self) -> None:
        """End its jobs soon, also those that have not begun. Errors: Py4JError."""
        cancel_jobs(self._session, self._name)

    def runs(self) -> bool:
        """True while threads of executors work for it, also for a job that has been cancelled."""
        tracker = self._session.sparkContext.statusTracker()
        try:
            jobs = [job for number in tracker.getJobIdsForGroup(self._name) if (job := tracker.getJobInfo(number))]
            stages = [stage for job in jobs for number in job.stageIds if (stage := tracker.getStageInfo(number))]
            return any(stage.numActiveTasks for stage in stages)
        except (Py4JError, OSError):
            return False  # the driver is gone
