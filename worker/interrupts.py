"""What breaks off the calls in which a task's connector is blocked, such as a query that waits for a lock.

Decided: they are broken off by a thread of their own, over and over until they have ended, because to break off a query
may itself take a connection that nobody answers, and comes to nothing where the query has not quite begun; loses: a
thread for as long as the blocked call of a task that has to end lasts.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0


class Interrupts:
    """Those of one task; any thread may call."""

    def __init__(self, about: str) -> None:
        self._about = about
        self._calls: dict[object, Callable[[], None]] = {}
        self._asked = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._calling = threading.Lock()

    @contextlib.contextmanager
    def by(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Within it `interrupt` is called, now and then, once `begin` was; behind it it never is."""
        key = object()
        with self._lock:
            self._calls[key] = interrupt
            self._begin()
        try:
            yield
        finally:
            with self._calling, self._lock:
                del self._calls[key]

    def begin(self) -> None:
        """What is blocked, or will be, ends soon; waits for nothing."""
        with self._lock:
            self._asked = True
            self._begin()

    def _begin(self) -> None:
        if self._asked and self._calls and self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"interrupt-{self._about}", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            with self._calling:
                with self._lock:
                    calls = list(self._calls.values())
                    if not calls:
                        self._thread = None
                        return
                for call in calls:
                    try:
                        call()
                    except Exception as error:
                        log.warning("%s: what it is blocked in cannot be broken off yet: %s", self._about, error)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
