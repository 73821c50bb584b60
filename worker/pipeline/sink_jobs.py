"""The jobs of a sink task, each behind the one before it.

Decided: the next job is planned, and where its sink stages also runs, before the one in front of it is committed:
between two jobs cores had nothing to do for a third of the time (measured with structs of three fields: 341,000 records
a second, 442,000 so). Loses: what the second one did where the first fails, its dead letters among it, is done again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from headrace.plugins.offsets import Reached, TopicPartition
from headrace.worker.pipeline.background_job import Ranges, RunningJob
from headrace.worker.pipeline.job import Job, JobCancelled
from headrace.worker.pipeline.job_size import JobSize

log = logging.getLogger(__name__)

AHEAD: Final = 2
"""So many jobs there are at once."""


class SinkJobs:
    """At most `AHEAD` jobs of one task; for the task's own thread, but for `cancel_soon`."""

    def __init__(self, least_rows: int) -> None:
        self.size = JobSize(least_rows)
        self._jobs: list[RunningJob] = []
        self._last_ended = 0.0

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def are_enough(self) -> bool:
        """Whether there is no room for one more."""
        return len(self._jobs) >= AHEAD

    @property
    def first(self) -> RunningJob:
        """The one in front."""
        return self._jobs[0]

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Where the next job begins, by partition; those that no job reads are not among them."""
        return {partition: end for job in self._jobs for partition, (_, end) in job.ranges.items()}

    def begin(self, job: Job, ranges: Ranges, work: Callable[[RunningJob | None], list[Reached]]) -> None:
        """This job runs, behind the others; `work` is told which one it has to wait for before anything is seen.

        Where that one did not do all, or this one is cancelled, `take` gets JobCancelled for whatever it failed of.
        """
        before = self._jobs[-1] if self._jobs else None

        def in_turn() -> list[Reached]:
            try:
                return work(before)
            except Exception as error:
                # What is void fails of being cancelled, and of what the one in front will be tried again for.
                if job.cancelled or (before is not None and not before.did_all()):
                    if not isinstance(error, JobCancelled):
                        log.info("a job that is void failed: %s", error)
                    raise JobCancelled(str(error)) from error
                raise

        self._jobs.append(RunningJob(job, ranges, in_turn))

    def take(self) -> list[Reached]:
        """What the first job reached, once it has ended; it is no longer among these. Errors: those of the job."""
        running = self._jobs.pop(0)
        reached = running.result()
        rows = sum(one.written + one.dropped + one.bad for one in reached)
        now = time.monotonic()
        self.size.took(rows, now - max(running.began, self._last_ended))
        self._last_ended = now
        return reached

    def cancel(self, first_after_s: float = 0) -> None:
        """All have ended, the first one by itself if it did within the time."""
        jobs = list(self._jobs)
        self.cancel_following()
        for number, running in enumerate(jobs):
            running.cancel_after(0 if number else first_after_s)

    def cancel_soon(self) -> None:
        """All end soon, which is not waited for; any thread may call."""
        for running in list(self._jobs):
            running.cancel()

    def cancel_following(self) -> None:
        """Those behind the first one end soon, and nothing is seen of them."""
        for following in self._jobs[1:]:
            following.cancel()

    def forget(self) -> None:
        """There are none, whatever they did."""
        self._jobs.clear()
