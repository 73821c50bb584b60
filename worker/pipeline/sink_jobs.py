"""The jobs of a sink task, each committed after the one ahead of it.

Decided: the next job is planned, and also runs if its sink stages, before the one ahead of it is committed, because
between two jobs cores had nothing to do for a third of the time (measured with structs of three fields: 341,000 records
a second, 442,000 so); loses: if the first fails, the second one's work, its dead letters included, is done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from headrace.plugins.offsets import TopicPartition
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.executor import Ranges
from headrace.worker.pipeline.job_size import JobSize
from headrace.worker.pipeline.placement import JOB_ROWS
from headrace.worker.pipeline.sink_job import SinkJob
from headrace.worker.pipeline.stages import Stages

AHEAD: Final = 2
"""The number of jobs at once."""


class SinkJobs:
    """A task's jobs, handed over by `begin` and taken by `take`; for the task's own thread, except `cancel_soon`."""

    def __init__(
        self, make: Callable[[Ranges, int, SinkJob | None], SinkJob], stages: Stages, most: int = AHEAD
    ) -> None:
        """`make`: makes a job of ranges, the largest size of a record, and the job ahead; `most`: jobs at once."""
        self.size = JobSize(JOB_ROWS)
        self._stages = stages
        self._make = make
        self._most = most
        self._jobs: list[SinkJob] = []
        self._last_ended = 0.0

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def are_enough(self) -> bool:
        """True if there is no room for one more."""
        return len(self._jobs) >= self._most

    @property
    def first_is_done(self) -> bool:
        """True once the job ahead of all others has ended, or if there is none."""
        return not self._jobs or self._jobs[0].done()

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """The next job's first offset, by partition that a job reads."""
        return {partition: end for job in self._jobs for partition, (_, end) in job.ranges.items()}

    def begin(self, ranges: Ranges, row_bytes: int) -> None:
        """Run a job for these ranges after those before; `row_bytes`: the largest size of a record."""
        job = self._make(ranges, row_bytes, self._jobs[-1] if self._jobs else None)
        self._jobs.append(job)  # before it starts, so that another thread's cancel finds it
        job.start()

    def take(self) -> Outcome[TopicPartition]:
        """Remove the first job, wait for it and return its outcome. Errors: those of the job."""
        job = self._jobs.pop(0)
        outcome = job.result()
        now = time.monotonic()
        took_s = now - max(job.began, self._last_ended)
        self.size.took(outcome.rows, took_s)
        self._stages.add("job", took_s)
        self._last_ended = now
        return outcome

    def cancel(self, first_after_s: float = 0) -> None:
        """End all jobs and wait; the first may end by itself within `first_after_s`."""
        jobs = list(self._jobs)
        self.cancel_following()
        for number, job in enumerate(jobs):
            job.cancel_after(0 if number else first_after_s)

    def cancel_soon(self) -> None:
        """End all jobs soon without waiting; any thread may call."""
        for job in list(self._jobs):
            job.cancel()

    def cancel_following(self) -> None:
        """End the jobs after the first soon; nothing of them becomes visible."""
        for job in self._jobs[1:]:
            job.cancel()

    def forget(self) -> None:
        """Drop all jobs, whatever they did."""
        self._jobs.clear()
