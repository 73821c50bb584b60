"""A job *there* on a thread of its own, so that the thread that owns a consumer can poll on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.plugins.contracts import Reached
from headrace.worker.there import Job

_CANCEL_S = 30.0
"""How long a cancelled job may take to end."""


class RunningJob:
    """`work`, which runs `job`, begun."""

    def __init__(self, job: Job, work: Callable[[], list[Reached]]) -> None:
        self._job = job
        self._answer: list[Reached] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(work,), name="there", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        """Whether the job has ended."""
        return not self._thread.is_alive()

    def cancel_after(self, seconds: float) -> None:
        """The job has ended, by itself within the time or else because it was cancelled."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._job.cancel()
            self._thread.join(_CANCEL_S)

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
