"""Tells a job whose expressions do not end from one that is long, or that waits for others.

Decided: a job is given up if its threads computed for the time limit while fewer than `LEAST_ROWS` rows got further.
Time that they wait is subtracted: a database's lock or a slow broker may hold a job up for as long as it likes. Many
rows reset it, because a job of many may compute for an hour; a few do not, because each may compute for a minute.
Loses: code that hangs natively, or in a Python worker (`python_workers`, or Spark after
`spark.python.worker.idleTimeoutSeconds`, end that one).

A job that ends before the first look costs nothing. The stacks of threads are taken only if rows stand still.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from py4j.protocol import Py4JError

from headrace.worker.engine.bounds import LOOK_S, Bounds
from headrace.worker.engine.job_group import JobGroup

LEAST_ROWS: Final = 1000
EVERY: Final = 10
"""Seconds between two looks at the job: executors report rows each `spark.executor.heartbeatInterval`."""
LEAST_S: float = 60.0
"""The least time limit: executors report rows late, and a new JVM on a busy machine plans a job for long."""


class JobWatch:
    """The looks at one job, for the thread that waits for it."""

    def __init__(self, group: JobGroup, bounds: Bounds) -> None:
        self._group = group
        self._bounds = replace(bounds, limit_s=max(bounds.limit_s, LEAST_S))
        self._rows = 0
        self._computed_s = 0.0
        """Seconds computed minus seconds waited, since the last `LEAST_ROWS` rows."""

    def look(self, looks: int) -> None:
        """Look at the job when due. Errors: TooSlow if it is given up."""
        if looks % EVERY:
            return
        with contextlib.suppress(Py4JError, OSError):  # the driver is gone, which the job tells
            self._count()
        if self._computed_s >= self._bounds.limit_s:
            raise self._bounds.too_slow("a part of a large batch")

    def _count(self) -> None:
        rows = self._group.rows()
        if rows >= self._rows + LEAST_ROWS:
            self._rows, self._computed_s = rows, 0.0
        elif self._group.computes():
            self._computed_s += EVERY * LOOK_S
        else:
            self._computed_s = max(0.0, self._computed_s - EVERY * LOOK_S)
