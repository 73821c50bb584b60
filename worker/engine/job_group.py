"""A group of Spark jobs, started by one call of ours, to be inspected and ended together."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Sequence
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.worker.engine.spark_internals import cancel_jobs, jvm_thread, sql_metrics, thread_dumps

_DRIVER: Final = "driver"
"""Spark's id of the driver among the executors."""
_COMPUTING: Final = re.compile(r'"(?P<name>[^"\n]*)"[^"\n]* Id=(?P<id>\d+) RUNNABLE$', re.MULTILINE)
"""A thread of Spark's thread dump that computes. "(in native)" follows if it is in native code, in which threads wait
for sockets and files."""
_numbers: Final = itertools.count(1)


class JobGroup:
    """A job group with a name of its own. `begin` and `end` are for the thread that starts the jobs, all else for any.

    Errors: Py4JError or OSError if the driver is gone, unless said otherwise.
    """

    def __init__(self, session: SparkSession, about: str) -> None:
        self._session = session
        self._about = about
        self._name = f"headrace-{next(_numbers)}"
        self._planner: str | None = None
        """The driver's thread that plans its jobs and waits for them."""

    def begin(self) -> None:
        """Count the jobs that this thread starts from now on among the group's."""
        self._planner = jvm_thread(self._session)
        self._session.sparkContext.setJobGroup(self._name, self._about, interruptOnCancel=True)

    def end(self) -> None:
        """Note that this thread starts no more of them."""
        self._planner = None

    def cancel(self) -> None:
        """End its jobs soon, also those that have not begun. Nothing is done if the driver is gone."""
        with contextlib.suppress(Py4JError, OSError):
            cancel_jobs(self._session, self._name)

    def runs(self) -> bool:
        """True while threads of executors work for it, also for a job that has been cancelled."""
        return self._run(self._jobs())

    def waits(self) -> bool:
        """True while its jobs have begun and executors have no slot for them."""
        jobs = self._jobs()
        return bool(jobs) and not self._run(jobs)

    def rows(self) -> int:
        """A number that grows with each row that executors have reported, with their heartbeats."""
        told = [metric for job in self._jobs() for metric in sql_metrics(self._session, job)]  # such as 12 -> 3,400
        values = [metric.rpartition("-> ")[2].replace(",", "") for metric in told]
        return sum(int(value) for value in values if value.isdigit())  # the others have units

    def computes(self) -> bool:
        """True if a thread that plans it or runs its tasks computes now."""
        names = tuple(f" in stage {number}." for number in self._stages(self._jobs()))
        return any(
            any(name in thread["name"] for name in names) or (executor == _DRIVER and thread["id"] == self._planner)
            for executor, threads in thread_dumps(self._session)
            for thread in _COMPUTING.finditer(threads)
        )

    def _jobs(self) -> list[int]:
        return list(self._session.sparkContext.statusTracker().getJobIdsForGroup(self._name))

    def _stages(self, jobs: Sequence[int]) -> list[int]:
        tracker = self._session.sparkContext.statusTracker()
        return [stage for number in jobs if (job := tracker.getJobInfo(number)) for stage in job.stageIds]

    def _run(self, jobs: Sequence[int]) -> bool:
        tracker = self._session.sparkContext.statusTracker()
        stages = [stage for number in self._stages(jobs) if (stage := tracker.getStageInfo(number))]
        return any(stage.numActiveTasks for stage in stages)
