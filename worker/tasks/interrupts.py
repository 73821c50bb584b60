"""Interrupts calls in which a task's connector is blocked, such as a query that waits for a lock.

Decided: a thread interrupts them over and over until they have ended, because cancelling a query may itself take a
connection that nobody answers, and has no effect if the query has not quite begun; loses: a thread for as long as the
blocked call of an ending task lasts.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Final

from headrace.plugins.backoff import Backoff

log = logging.getLogger(__name__)

_PAUSES: Final = Backoff(0.1, 2.0)


class Interrupts:
    """The interruptible calls of one task; any thread may call."""

    def __init__(self, about: str) -> None:
        self._about = about
        self._calls: list[_BlockingCall] = []
        self._asked = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def by(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """After `begin()`, call `interrupt` repeatedly until the block ends."""
        call = _BlockingCall(interrupt)
        with self._lock:
            self._calls.append(call)
            self._run_where_needed()
        try:
            yield
        finally:
            call.leave()
            with self._lock:
                self._calls.remove(call)

    def begin(self) -> None:
        """Interrupt all calls, also later ones, soon; does not block."""
        with self._lock:
            self._asked = True
            self._run_where_needed()

    def _run_where_needed(self) -> None:
        if self._asked and self._calls and self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"interrupt-{self._about}", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        for times in itertools.count(1):
            with self._lock:
                calls = list(self._calls)
                if not calls:
                    self._thread = None
                    return
            for call in calls:
                call.interrupt(self._about)
            time.sleep(_PAUSES.pause(times))


class _BlockingCall:
    """A call that may be blocked. Leaving it waits for an interrupt of itself that is under way, and for no other."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._context = copy_context()  # the blocked caller's: log lines name its connector
        self._said = ""
        self._left = False
        self._interrupting = threading.Lock()

    def leave(self) -> None:
        """Interrupt it no more."""
        with self._interrupting:
            self._left = True

    def interrupt(self, about: str) -> None:
        """Interrupt it unless it has been left; an error in doing so is logged, once as a warning."""
        with self._interrupting:
            if not self._left:
                self._context.run(self._try, about)

    def _try(self, about: str) -> None:
        try:
            self._interrupt()
        except Exception as error:
            level = logging.DEBUG if str(error) == self._said else logging.WARNING
            self._said = str(error)
            log.log(level, "%s: what it is blocked in cannot be broken off yet: %s", about, error)
