"""How much one Spark job of a task takes.

Decided: as much as is done in `JOB_S`, because planning a job and starting it take up to a second in which nothing
moves, and because what is cancelled or fails is done again; loses: of a sink that stages, nothing is seen for so long.
"""

from __future__ import annotations

from typing import Final

from headrace.plugins.contracts import Limit

JOB_S: Final = 8.0
FIRST_JOB: Final = Limit(rows=1_000_000, bytes=128 << 20)
LARGEST_JOB: Final = Limit(rows=20_000_000, bytes=2 << 30)


class JobSize:
    """How much the next job of a task should take, by how long the last ones took."""

    def __init__(self, least_rows: int) -> None:
        self._least = least_rows
        self._rows: int | None = None

    @property
    def limit(self) -> Limit:
        """The most that it should take."""
        return FIRST_JOB if self._rows is None else LARGEST_JOB._replace(rows=self._rows)

    def took(self, rows: int, seconds: float) -> None:
        """A job did so many rows in this time. A small one says little of what a large one can do."""
        fits = min(LARGEST_JOB.rows, max(self._least, int(rows / max(seconds, 0.001) * JOB_S)))
        if self._rows is None or fits > self._rows or 2 * rows >= self._rows or seconds >= JOB_S:
            self._rows = fits
