"""Upkeep of places, such as folders or tables, on a thread beside the commits that fill them.

A place is looked at when enough has come to it, the one that is due first before others. A failure is logged once and
tried again; commits go on.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from headrace.plugins.backoff import Backoff

P = TypeVar("P", bound=Hashable)

_BACKOFF: Final = Backoff(1, 600)
_LAST_S: Final = 2.0
"""The end of a task waits so long for the look that is under way; the worker grants 5 s for all of it."""
_MOST_PLACES: Final = 10_000
"""The most places that are known. Another look at a forgotten one does no harm."""
_TURN_S: Final = 0.2
"""A thread that waits for its turn checks at this interval if it has to end."""

log = logging.getLogger(__name__)


class Closing(Exception):
    """The task ends."""


@dataclass(eq=False)
class _Place:
    came: int = 0
    """So much has come since the last look began."""
    enough: float = 1
    """So much is worth a look; infinite during one."""
    due_at: float | None = None
    """The time of the next look, by the monotonic clock; None: once enough has come."""
    failures: int = 0
    """Failures in a row."""
    error: str = ""
    """The last logged error."""

    def look_if_enough(self) -> None:
        """Make a look due."""
        if self.due_at is None and self.came >= self.enough:
            self.due_at = time.monotonic()


class Upkeep(Generic[P]):
    """The places of one task; `look` brings one into order, and returns how much has to come until another look."""

    def __init__(
        self,
        thread: str,
        look: Callable[[P], int],
        described: Callable[[P], str],
        turn: threading.Lock,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """`described`: the small files of a place; `turn`: that of the process; `ended`: called by a thread that ends.

        A `look` that takes long asks `check_open`.
        """
        self._name, self._look, self._described, self._lock, self._ended = thread, look, described, turn, ended
        self._places: dict[P, _Place] = {}
        self._failures = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def due(self) -> int:
        """The number of places that are to be looked at."""
        with self._changed:
            return sum(known.due_at is not None for known in self._places.values())

    @property
    def failures(self) -> int:
        """The number of looks that failed."""
        return self._failures

    def came(self, place: P, count: int = 1) -> None:
        """Learn of what has come to a place; waits for nothing. The first news make a look due."""
        with self._changed:
            known = self._places.setdefault(place, _Place())
            known.came += count
            known.look_if_enough()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def forget(self, goes: Callable[[P], bool]) -> None:
        """Forget the places that go. A look that is under way may fail for it, in silence."""
        with self._changed:
            for place in [place for place in self._places if goes(place)]:
                del self._places[place]

    def end_soon(self) -> None:
        """Look at no more places; waits for nothing."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def close(self) -> None:
        """End soon. What is not done is done when the next news come."""
        self.end_soon()
        if self._thread is not None:
            self._thread.join(_LAST_S)

    # -- on the thread -------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """End a look if the task ends. Errors: Closing."""
        if self._closing:
            raise Closing

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn, which is one for all tasks of the process. Errors: Closing."""
        self.check_open()
        while not self._lock.acquire(timeout=_TURN_S):
            self.check_open()
        try:
            yield
        finally:
            self._lock.release()

    def _run(self) -> None:
        try:
            with suppress(Closing):
                while True:
                    self._keep_up(*self._next())
        finally:
            self._ended()

    def _next(self) -> tuple[P, _Place]:
        """The place that is due first, once it is. Errors: Closing."""
        with self._changed:
            while True:
                self.check_open()
                due = ((known.due_at, place) for place, known in self._places.items() if known.due_at is not None)
                at, place = min(due, default=(None, None), key=lambda one: one[0])
                if at is not None and place is not None and at <= time.monotonic():
                    known = self._places[place]
                    known.came, known.enough, known.due_at = 0, math.inf, None
                    return place, known
                self._changed.wait(None if at is None else at - time.monotonic())

    def _keep_up(self, place: P, known: _Place) -> None:
        try:
            enough = self._look(place)
        except Closing:
            raise
        except Exception as error:  # of any kind: rows go on, and it is tried again
            self._failed(place, known, str(error) or type(error).__name__)
            return
        if known.error:
            log.info("%s are merged again", self._described(place))
        with self._changed:
            known.enough, known.failures, known.error = enough, 0, ""
            known.look_if_enough()
            self._bound()

    def _bound(self) -> None:
        """Forget the oldest places."""
        if (over := len(self._places) - _MOST_PLACES) > 0:
            for place in [place for place, known in self._places.items() if known.due_at is None][:over]:
                del self._places[place]

    def _failed(self, place: P, known: _Place, error: str) -> None:
        with self._changed:
            self.check_open()
            if self._places.get(place) is not known:
                return  # it is forgotten, which is why
            self._failures += 1
            known.failures += 1
            known.due_at = time.monotonic() + _BACKOFF.pause(known.failures)
            is_new, known.error = known.error != error, error
        if is_new:
            text = "%s are not merged: %s. Rows go on; it is tried again."
            log.warning(text, self._described(place), error.rstrip("."))
