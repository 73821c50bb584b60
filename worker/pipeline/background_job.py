"""A sink's Spark job on a thread of its own, so that the thread that owns a consumer can poll on."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Mapping
from time import monotonic
from typing import Final, Protocol

from headrace.plugins.offsets import TopicPartition
from headrace.worker.outcome import Outcome

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Offsets `[from, to)` of partitions."""

_CANCEL_S: Final = 30.0
"""The time in which a cancelled job should end."""


class Work(Protocol):
    """A job that can run in the background."""

    ranges: Ranges
    """The offsets that it reads."""

    def run(self) -> Outcome[TopicPartition]:
        """Move the ranges."""

    def cancel(self) -> None:
        """End `run` soon."""


class BackgroundJob:
    """A job of a sink that runs on its own thread, from `start` on."""

    def __init__(self, work: Work) -> None:
        self.ranges = work.ranges
        self.began = monotonic()
        self._work = work
        self._outcome = Outcome[TopicPartition]()
        self._error: BaseException | None = None
        # In its task's context, so that the log's lines name the task.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="sink-job", daemon=True)

    def start(self) -> None:
        """Start the thread; called once."""
        self._thread.start()

    def done(self) -> bool:
        """True once the job has ended."""
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """End the job soon; nothing is committed unless the commit has begun."""
        self._work.cancel()

    def cancel_after(self, seconds: float) -> None:
        """Wait `seconds` for the job to end, then cancel it and wait again.

        A job that does not end in time still runs: `result` waits for it, however long, because nobody else may write
        its rows while it may.
        """
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._work.cancel()
            self._thread.join(_CANCEL_S)

    def did_all(self) -> bool:
        """Wait until the job has ended; true if it did the whole of its ranges."""
        self._thread.join()
        return self._error is None and not self._outcome.stops

    def result(self) -> Outcome[TopicPartition]:
        """Wait until the job has ended and return its outcome. Errors: those of the job."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._outcome

    def _run(self) -> None:
        try:
            self._outcome = self._work.run()
        except BaseException as error:
            self._error = error
