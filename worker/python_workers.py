"""Spark's Python workers that stand still.

Spark itself ends a Python worker that neither takes nor gives data for `spark.python.worker.idleTimeoutSeconds`, by
SIGTERM; the job fails then and is tried again. A process that was stopped never hears that signal, and Spark waits for
it for ever: it is killed here. Only those on this host are seen, which with a local master is all of them.
"""

from __future__ import annotations

import contextlib
import logging

import psutil

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often to look; a process that is found stopped twice in a row is killed."""


class StoppedWorkers:
    """The processes below one driver, looked at again and again."""

    def __init__(self, driver: int) -> None:
        self._driver = driver
        self._suspects: set[psutil.Process] = set()

    def kill(self) -> None:
        """Whatever was stopped at the last look and still is, is gone."""
        stopped = set()
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self._driver).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if process.status() == psutil.STATUS_STOPPED:
                        stopped.add(process)
        for process in stopped & self._suspects:
            log.error("Spark's Python worker %d is stopped and cannot go on; it is killed, its batch tried again",
                      process.pid)  # fmt: skip
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._suspects = stopped - self._suspects
