"""The jobs of a sink task, each committed after the one ahead of it.

Decided: the next job is planned, and also runs if its sink stages, before the one ahead of it is committed, because
between two jobs cores had nothing to do for a third of the time (measured with structs of three fields: 341,000 records
a second, 442,000 so); loses: if the first fails, the second one's work, its dead letters included, is done again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from headrace.plugins.offsets import TopicPartition
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.background_job import BackgroundJob
from headrace.worker.pipeline.job_size import JobSize
from headrace.worker.pipeline.sink_job import SinkJob

AHEAD: Final = 2
"""The number of jobs at once."""


class SinkJobs:
    """A task's jobs, `most` at once; for the task's own thread, except `cancel_soon`."""

    def __init__(self, least_rows: int, most: int = AHEAD) -> None:
        self.size = JobSize(least_rows)
        self._most = most
        self._jobs: list[BackgroundJob] = []
        self._last_ended = 0.0

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def are_enough(self) -> bool:
        """True if there is no room for one more."""
        return len(self._jobs) >= self._most

    @property
    def first(self) -> BackgroundJob:
        """The job ahead of all others."""
        return self._jobs[0]

    @property
    def last(self) -> BackgroundJob | None:
        """The job that the next one has to wait for."""
        return self._jobs[-1] if self._jobs else None

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """The next job's first offset, by partition that a job reads."""
        return {partition: end for job in self._jobs for partition, (_, end) in job.ranges.items()}

    def begin(self, job: SinkJob) -> None:
        """Run this job, made to follow `last`, on a thread of its own."""
        running = BackgroundJob(job)
        self._jobs.append(running)  # before it starts, so that another thread's cancel finds it
        running.start()

    def take(self) -> Outcome[TopicPartition]:
        """Remove the first job, wait for it and return its outcome. Errors: those of the job."""
        running = self._jobs.pop(0)
        outcome = running.result()
        now = time.monotonic()
        self.size.took(outcome.rows, now - max(running.began, self._last_ended))
        self._last_ended = now
        return outcome

    def cancel(self, first_after_s: float = 0) -> None:
        """End all jobs and wait; the first may end by itself within `first_after_s`."""
        jobs = list(self._jobs)
        self.cancel_following()
        for number, running in enumerate(jobs):
            running.cancel_after(0 if number else first_after_s)

    def cancel_soon(self) -> None:
        """End all jobs soon without waiting; any thread may call."""
        for running in list(self._jobs):
            running.cancel()

    def cancel_following(self) -> None:
        """End the jobs after the first soon; nothing of them becomes visible."""
        for following in self._jobs[1:]:
            following.cancel()

    def forget(self) -> None:
        """Drop all jobs, whatever they did."""
        self._jobs.clear()
