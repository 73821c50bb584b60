"""The pauses between polls of sources, over all tasks of a worker: idle ones, and those of small, frequent batches.

Decided: ten times a second each while they are few, all together 200 times a second while they are many, because each
poll costs about 0.15 ms of processor time, which 100 idle sources made a sixth of a core; loses: a line that comes to
one of 100 idle sources waits up to half a second (Apache's file source: a second, however few there are), unless its
source tells of it.

Decided: a source with small batches in close succession pauses after each, if it gathers rows that come meanwhile, so
that up to 20 together move 200 batches a second, because a batch costs 1-2 ms of processor time however small it is: 20
file sources of 50 lines a second, with as many sinks, took 117 % of a core, and were late by 195 ms (p99 627) because
they waited for each other; with pauses 75 %, 62 ms (127); loses: up to 0.1 s, even if nothing else comes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from headrace.plugins.backoff import idle_pause_s

FIRST_S: Final = 0.005
"""The pause after a batch; each that follows without one is twice as long."""
TOLD_S: Final = 5.0
"""The pause of a source that says it tells of news, should it be wrong."""
_EACH_S: Final = 0.005
"""A source pauses for this time for each source with small batches in close succession."""
_LONGEST_PAUSE_S: Final = 0.1
_WORTH_ROWS: Final = 2
"""The least rows to be expected of a pause."""
_COUNTED_S: Final = 1.0
"""The time over which those sources are counted."""


class PollInterval:
    """Knows the number of sources that are polled; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sources = 0
        """The number of polled sources."""
        self._busy: set[Pace] = set()
        """Sources with small batches in close succession, since they were last counted."""
        self._were_busy = 0
        self._counted_at = 0.0

    @contextlib.contextmanager
    def source(self) -> Iterator[Pace]:
        """Count one source more until the block ends; yields its pace."""
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
        """The pause of a source with small batches in close succession, after another one."""
        now = time.monotonic()
        with self._lock:
            if (since_s := now - self._counted_at) > _COUNTED_S:
                self._were_busy = len(self._busy) if since_s < 2 * _COUNTED_S else 0
                self._busy, self._counted_at = set(), now
            self._busy.add(pace)
            return min(_EACH_S * max(self._were_busy, len(self._busy)), _LONGEST_PAUSE_S)


class Pace:
    """The succession of one source's small batches; for its task's thread."""

    def __init__(self, all_sources: PollInterval) -> None:
        self._all = all_sources
        self._last = 0.0

    def small_batch(self, rows: int) -> float:
        """Note a small batch and return the pause, which is 0 if hardly more rows would come meanwhile."""
        now = time.monotonic()
        since_s, self._last = now - self._last, now
        least_s = _WORTH_ROWS * since_s / max(1, rows)
        if least_s > _LONGEST_PAUSE_S:
            return 0.0
        pause_s = self._all.pause_s(self)
        return pause_s if least_s <= pause_s else 0.0
