"""The duties of a mirror connector beside its tasks, such as looking for new topics, each at its own interval.

One duty runs at a time, on its own thread. An error is logged and fails nothing: the duty comes again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)
_scheduler_log = logging.getLogger(f"{__name__}.scheduler")
_scheduler_log.setLevel(logging.ERROR)  # it warns each second that a duty of each second still waits for a cluster

_AGAIN_S: Final = 30
"""A duty that has to succeed once is tried again after so long."""

Duty = Callable[[], None]


class Duties:
    """The duties of one connector; `label` names it in the log."""

    def __init__(self, label: str) -> None:
        self.stopping = StopToken()
        """Set by `stop`: a duty that waits ends soon."""
        self._label = label
        self._scheduler = BackgroundScheduler(
            timezone="UTC",
            logger=_scheduler_log,
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "misfire_grace_time": None},
        )
        self._scheduler.start()

    def once(self, what: str, duty: Duty) -> None:
        """Do this now; and again after half a minute, until it succeeds."""

        def attempt() -> None:
            if self._done(what, duty):
                with suppress(JobLookupError):
                    self._scheduler.remove_job(what)

        # Not a job with a date: the scheduler fails if it is stopped while it removes one.
        now = datetime.now(UTC)
        self._scheduler.add_job(attempt, "interval", seconds=_AGAIN_S, next_run_time=now, id=what)

    def every(self, seconds: int, what: str, duty: Duty, at_once: bool = False) -> None:
        """Do this every so many seconds, first now (`at_once`) or after them; never if they are below 0."""
        if seconds < 0:
            return
        first = {"next_run_time": datetime.now(UTC)} if at_once else {}
        self._scheduler.add_job(lambda: self._done(what, duty), "interval", seconds=max(1, seconds), **first)

    def stop(self) -> None:
        """End the duties; one that runs ends by itself, soon."""
        self.stopping.set()
        self._scheduler.shutdown(wait=False)

    def _done(self, what: str, duty: Duty) -> bool:
        """Do the duty; True if it succeeded."""
        if self.stopping.is_set():
            return True
        try:
            duty()
        except StoppedError:
            return True
        except Exception as error:
            log.error("%s: %s failed and will be tried again: %s", self._label, what, error)
            return False
        return True
