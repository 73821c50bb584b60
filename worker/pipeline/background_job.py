"""A job *there* on a thread of its own, so that the thread that owns a consumer can poll on."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from time import monotonic

from headrace.plugins.offsets import Reached, TopicPartition
from headrace.worker.pipeline.job import Job

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Offsets `[from, to)` of partitions."""

_CANCEL_S = 30.0
"""How long a cancelled job may take to end."""


class RunningJob:
    """`work`, which runs `job` over these ranges, begun."""

    def __init__(self, job: Job, ranges: Ranges, work: Callable[[], list[Reached]]) -> None:
        self.ranges = ranges
        self.began = monotonic()
        self._job = job
        self._answer: list[Reached] = []
        self._error: BaseException | None = None
        # In its task's context: the log's lines say whose job it is.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._work, work), name="there", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        """Whether the job has ended."""
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """The job will end soon, and commit nothing if it has not begun to."""
        self._job.cancel()

    def cancel_after(self, seconds: float) -> None:
        """The job has ended, by itself within the time or else because it was cancelled.

        One that does not heed that in time still runs: `result` waits for it, however long, because nobody else may
        write what it may yet write.
        """
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._job.cancel()
            self._thread.join(_CANCEL_S)

    def did_all(self) -> bool:
        """Whether the job, once it has ended, did the whole of its ranges."""
        self._thread.join()
        return self._error is None and all(one.stop is None for one in self._answer)

    def result(self) -> list[Reached]:
        """What the job reached, once it has ended. Errors: those of the job."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._answer

    def _work(self, work: Callable[[], list[Reached]]) -> None:
        try:
            self._answer = work()
        except BaseException as error:
            self._error = error
