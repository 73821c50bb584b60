"""Bounded shares of a scarce resource, first come first served: Spark jobs at once, bytes of batches in memory."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator

from headrace.plugins.stopping import StopToken


class Quota:
    """`total` units, given in the order of requests, so that no task starves another."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._used = 0
        self._line: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        """Units that are taken."""
        return self._used

    @contextlib.contextmanager
    def take(self, units: int = 1, stop: StopToken | None = None) -> Iterator[None]:
        """Hold `units`, at most all of them: a larger request goes alone. Errors: StoppedError while waiting."""
        units = min(units, self._total)
        ticket = object()
        with self._changed:
            self._line.append(ticket)
            try:
                while self._line[0] is not ticket or self._used + units > self._total:
                    self._changed.wait(0.25)
                    if stop is not None:
                        stop.raise_if_set("waiting for a turn")
                self._used += units
            finally:
                self._line.remove(ticket)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._used -= units
                self._changed.notify_all()
