"""The last hour of each connector that runs here, in steps of ten seconds: what the plots show.

All figures stand in one array: a connector has a row, a step a column, which the step of an hour later takes over.
Memory follows the connectors that run here, and up to `_KEPT` that did within the hour (8.6 kB each).

Decided: each series of several tasks, or workers, follows from those of its parts, by a sum or the greatest, because
then the worker that is asked merges what others answer; loses: the batch time is that of the longest batch of a step,
and no average.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.worker.tasks.metrics import Sampled, TasksMetrics

STEP_S: Final = 10
STEPS: Final = 360
MOST_MINUTES: Final = STEPS * STEP_S // 60
SUMMED: Final = ("records_per_s", "bytes_per_s", "lag_records", "errors")
GREATEST: Final = ("lag_s", "batch_ms")
SERIES: Final = (*SUMMED, *GREATEST)
_KEPT: Final = 1_000
"""The connectors that have gone and are kept until their hour is over."""

_APART_S: Final = 3 * STEP_S
"""The most by which the last steps of two workers are apart."""

Figures = dict[str, float | None]
"""A figure of each of `SERIES`; None if it is not known."""
_Figures = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Plotted:
    """Some steps of all series. Units: `until` is the end of the last step, in seconds of the epoch."""

    until: int
    figures: _Figures
    """Shape: a row for each of `SERIES`, a column for each step; NaN if nothing is known."""

    def other(self, answer: Mapping[str, Any]) -> Plotted:
        """Read the figures in another worker's answer to the same request.

        Errors: ValueError, KeyError, TypeError if they are of other steps.
        """
        if answer["step_s"] != STEP_S or abs(answer["until"] - self.until) > _APART_S:
            raise ValueError("its steps are others; are the clocks of both machines right?")
        rows = [[math.nan if one is None else one for one in answer["series"][name]] for name in SERIES]
        figures = np.array(rows, np.float32)
        if figures.shape != self.figures.shape:
            raise ValueError("it has another number of steps")
        return Plotted(int(answer["until"]), figures)

    def with_(self, others: Sequence[Plotted]) -> Plotted:
        """Merge with other workers' figures of as many steps, up to the last step that all of them know."""
        until = min(one.until for one in (self, *others))
        return Plotted(until, _merged(np.stack([one._ended(until) for one in (self, *others)])))

    def _ended(self, until: int) -> _Figures:
        """Return the figures as they were at an earlier end; nothing is known of the first steps then."""
        later = min((self.until - until) // STEP_S, self.figures.shape[1])
        unknown = np.full_like(self.figures[:, :later], np.nan)
        return np.concatenate([unknown, self.figures[:, : self.figures.shape[1] - later]], axis=1)

    def series(self) -> dict[str, list[float | None]]:
        """Return each series by its name; None if nothing is known."""
        return {name: _plain(row) for name, row in zip(SERIES, self.figures, strict=True)}


class Series:
    """The figures of the connectors that run, or ran, on this worker; any thread may ask."""

    step_s: Final = STEP_S

    def __init__(
        self,
        tasks: TasksMetrics,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()
        self._figures = np.full((0, len(SERIES), STEPS), np.nan, np.float32)
        self._rows: dict[str, int] = {}
        """Each connector's row, the longest gone first."""
        self._free: list[int] = []
        self._seen: dict[str, int] = {}
        """The last step in which each connector ran here."""
        self._step = int(now()) // STEP_S
        self._sampled = clock()

    @property
    def nbytes(self) -> int:
        """The memory of all figures."""
        return self._figures.nbytes

    def sample(self) -> None:
        """Note the step that ends now; to be called every `step_s`. Steps that were missed get the same figures."""
        with self._lock:
            step, at = int(self._now()) // STEP_S, self._clock()
            if step <= self._step:
                return  # the machine's clock was set back: the next step has it all
            passed = [one % STEPS for one in range(max(self._step, step - STEPS) + 1, step + 1)]
            sampled = self._tasks.sampled()
            seconds = max(at - self._sampled, 1e-3)
            self._figures[:, :, passed] = np.nan
            if sampled:
                rows = [self._row(name, step) for name in sampled]
                found = np.array([_rates(one, seconds) for one in sampled.values()], np.float32)
                self._figures[np.ix_(rows, range(len(SERIES)), passed)] = found[:, :, np.newaxis]
            self._step, self._sampled = step, at
            self._forget(step - STEPS)

    def together(self, names: Collection[str], minutes: int) -> Plotted:
        """Return the last minutes of all these connectors together."""
        steps = minutes * 60 // STEP_S
        with self._lock:
            rows = [self._rows[name] for name in names if name in self._rows]
            columns = [one % STEPS for one in range(self._step - steps + 1, self._step + 1)]
            found = self._figures[rows][:, :, columns]
            return Plotted(self._step * STEP_S, _merged(found))

    def latest(self, names: Collection[str]) -> dict[str, Figures]:
        """Return the figures of the last step of each of these connectors that runs here."""
        with self._lock:
            running = [name for name in names if self._seen.get(name) == self._step]
            rows = [self._rows[name] for name in running]
            found = self._figures[rows, :, self._step % STEPS]
        return {name: dict(zip(SERIES, _plain(row), strict=True)) for name, row in zip(running, found, strict=True)}

    def _row(self, name: str, step: int) -> int:
        row = self._rows.pop(name, None)
        if row is None:
            row = self._free.pop() if self._free else self._made_row()
        self._rows[name], self._seen[name] = row, step
        return row

    def _made_row(self) -> int:
        before = len(self._figures)
        more = np.full((max(8, before // 2), *self._figures.shape[1:]), np.nan, np.float32)
        self._figures = np.concatenate([self._figures, more])
        self._free = list(range(before + 1, len(self._figures)))
        return before

    def _forget(self, oldest: int) -> None:
        """Free the rows of connectors that went an hour ago, and of those longest gone if there are too many."""
        gone = [name for name in self._rows if self._seen[name] < self._step]
        for number, name in enumerate(gone):
            if self._seen[name] <= oldest or number < len(gone) - _KEPT:
                row = self._rows.pop(name)
                del self._seen[name]
                self._figures[row] = np.nan
                self._free.append(row)


def merged_figures(one: Mapping[str, float | None], other: Mapping[str, float | None]) -> Figures:
    """Merge the figures of two workers."""
    both = {name: [known for known in (one[name], other[name]) if known is not None] for name in SERIES}
    return {name: (sum if name in SUMMED else max)(known) if known else None for name, known in both.items()}


def _rates(sampled: Sampled, seconds: float) -> list[float]:
    of: Mapping[str, float] = {
        **sampled._asdict(),
        "records_per_s": sampled.records / seconds,
        "bytes_per_s": sampled.bytes / seconds,
    }
    return [of[name] for name in SERIES]


def _plain(row: _Figures) -> list[float | None]:
    return [None if math.isnan(one) else round(one, 3) for one in row.tolist()]


def _merged(figures: npt.NDArray[np.float32]) -> _Figures:
    """Merge the first dimension's parts; each may know nothing (NaN)."""
    known = ~np.isnan(figures)
    filled = np.where(known, figures, np.float32(0))
    split = len(SUMMED)
    merged = np.concatenate([filled[:, :split].sum(axis=0), filled[:, split:].max(axis=0, initial=0)])
    return np.where(known.any(axis=0), merged, np.float32(np.nan))
