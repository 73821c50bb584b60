"""How often idle sources are polled, over all tasks of a worker.

Decided: ten times a second each while they are few, all together 200 times a second while they are many, because each
time costs about 0.15 ms of processor time, which 100 idle sources made a sixth of a core; loses: a line that comes to
one of 100 idle sources waits up to half a second (Apache's file source: a second, however few there are), unless its
source tells of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from headrace.plugins.idle_pause import idle_pause_s

FIRST_S: Final = 0.005
"""The pause after something new; each that follows is twice as long."""
TOLD_S: Final = 5.0
"""The pause of a source that says it tells of news, should it be wrong."""


class PollInterval:
    """Knows how many sources are polled; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sources = 0
        """How many are polled."""

    @contextlib.contextmanager
    def source(self) -> Iterator[None]:
        """Count one source more until the block ends."""
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    @property
    def longest_s(self) -> float:
        """The longest pause between two polls of a source."""
        return idle_pause_s(self.sources)

    def _add(self, sources: int) -> None:
        with self._lock:
            self.sources += sources
