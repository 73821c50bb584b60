"""The number of rows in one Spark job of a task.

Decided: as many as are done in `JOB_S`, because planning and starting a job take up to a second in which nothing moves,
and because a job that is cancelled or fails is done again; loses: the rows of a sink that stages are seen that late.
"""

from __future__ import annotations

from typing import Final

from headrace.plugins.contracts import Limit

JOB_S: Final = 8.0
FIRST_JOB: Final = Limit(rows=1_000_000, bytes=128 << 20)
LARGEST_JOB: Final = Limit(rows=20_000_000, bytes=2 << 30)


class JobSize:
    """Sizes the next job of a task by the duration of the last ones."""

    def __init__(self, least_rows: int) -> None:
        self._least = least_rows
        self._rows: int | None = None

    @property
    def limit(self) -> Limit:
        """The most that the next job should take."""
        return FIRST_JOB if self._rows is None else LARGEST_JOB._replace(rows=self._rows)

    def took(self, rows: int, seconds: float) -> None:
        """Note a job's rows and duration. A small job says little about the speed of a large one."""
        fits = min(LARGEST_JOB.rows, max(self._least, int(rows / max(seconds, 0.001) * JOB_S)))
        if self._rows is None or fits > self._rows or 2 * rows >= self._rows or seconds >= JOB_S:
            self._rows = fits
