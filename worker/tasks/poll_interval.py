"""How often sources are polled, over all tasks of a worker: idle ones, and those to which little comes, but often.

Decided: ten times a second each while they are few, all together 200 times a second while they are many, because each
time costs about 0.15 ms of processor time, which 100 idle sources made a sixth of a core; loses: a line that comes to
one of 100 idle sources waits up to half a second (Apache's file source: a second, however few there are), unless its
source tells of it.

Decided: a source whose small batches follow each other closely pauses after each, if it gathers what comes meanwhile,
so that up to 20 together move 200 batches a second, because a batch costs 1-2 ms of processor time however small it
is: 20 file sources of 50 lines a second, with as many sinks, took 117 % of a core, and were late by 195 ms (p99 627)
because they waited for each other; with pauses 75 %, 62 ms (127); loses: up to 0.1 s, where there is nothing to wait
for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from headrace.plugins.idle_pause import idle_pause_s

FIRST_S: Final = 0.005
"""The pause after something new; each that follows is twice as long."""
TOLD_S: Final = 5.0
"""The pause of a source that says it tells of news, should it be wrong."""
_EACH_S: Final = 0.005
"""So long a source pauses for each whose small batches follow each other."""
_LONGEST_PAUSE_S: Final = 0.1
_WORTH_ROWS: Final = 2
"""So many rows have to be expected of a pause."""
_COUNTED_S: Final = 1.0
"""How long those sources are counted."""


class PollInterval:
    """Knows how many sources are polled; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sources = 0
        """How many are polled."""
        self._busy: set[Pace] = set()
        """Those whose small batches followed each other since they were counted last."""
        self._were_busy = 0
        self._counted_at = 0.0

    @contextlib.contextmanager
    def source(self) -> Iterator[Pace]:
        """Count one source more until the block ends, which is given its pace."""
        self._add(1)
        try:
            yield Pace(self)
        finally:
            self._add(-1)

    @property
    def longest_s(self) -> float:
        """The longest pause between two polls of a source."""
        return idle_pause_s(self.sources)

    def _add(self, sources: int) -> None:
        with self._lock:
            self.sources += sources

    def pause_s(self, pace: Pace) -> float:
        """How long a source pauses whose small batches follow each other, now that it has moved another one."""
        now = time.monotonic()
        with self._lock:
            if (since_s := now - self._counted_at) > _COUNTED_S:
                self._were_busy = len(self._busy) if since_s < 2 * _COUNTED_S else 0
                self._busy, self._counted_at = set(), now
            self._busy.add(pace)
            return min(_EACH_S * max(self._were_busy, len(self._busy)), _LONGEST_PAUSE_S)


class Pace:
    """How closely the small batches of one source follow each other; for its task's thread."""

    def __init__(self, all_sources: PollInterval) -> None:
        self._all = all_sources
        self._last = 0.0

    def small_batch(self, rows: int) -> float:
        """Note a small batch; how long to pause now, which is no time where hardly more would come meanwhile."""
        now = time.monotonic()
        since_s, self._last = now - self._last, now
        least_s = _WORTH_ROWS * since_s / max(1, rows)
        if least_s > _LONGEST_PAUSE_S:
            return 0.0
        pause_s = self._all.pause_s(self)
        return pause_s if least_s <= pause_s else 0.0
