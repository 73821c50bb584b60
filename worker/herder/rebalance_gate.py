"""Decisions that need a stable group: they wait while the group rebalances, and time out if that takes too long."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from headrace.worker.errors import Conflict
from headrace.worker.hosting.herder_loop import REQUEST_SECONDS, HerderLoop

T = TypeVar("T")


@dataclass
class _HeldRequest:
    doing: str
    decide: Callable[[], Any]
    answer: Future[Any] = field(default_factory=Future)
    timed_out: bool = False
    waits: bool = False

    def refused(self, taken: Future[None]) -> None:
        """Answer with the error of a deciding thread that does not take it."""
        if (error := taken.exception()) is not None:
            self.answer.set_exception(error)


class RebalanceGate:
    """Takes requests to the deciding thread, and holds them while it is closed; closed at first."""

    def __init__(self, decider: HerderLoop) -> None:
        self._loop = decider
        self._held: list[_HeldRequest] = []
        self.is_open = False
        """Whether the group is stable, as far as this worker knows."""
        self._ended = False

    def ask(self, doing: str, decide: Callable[[], T], timeout_s: float = REQUEST_SECONDS) -> T:
        """Run `decide` on the deciding thread, in a stable group, and wait for its answer.

        Errors: Conflict where the group did not become stable in time, TimedOut where it did but the thread was busy;
        ConnectError where the worker is stopping; the decision's own error.
        """
        request = _HeldRequest(doing, decide)
        self._loop.ask(doing, lambda: self._take(request)).add_done_callback(request.refused)
        try:
            return cast(T, request.answer.result(timeout_s))
        except TimeoutError:
            if request.answer.done():
                raise
            request.timed_out = True
            if request.waits:
                raise Conflict(
                    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent "
                    "config change)"
                ) from None
            raise self._loop.timed_out() from None

    def open(self) -> None:
        """The group is stable: run the requests that waited. For the deciding thread."""
        self.is_open = True
        self._take_held()

    def close(self) -> None:
        """The group rebalances: hold the requests that come. For the deciding thread."""
        self.is_open = False

    def end(self) -> None:
        """This worker leaves the group for good: refuse what waits and what comes. For the deciding thread."""
        self.is_open, self._ended = False, True
        self._take_held()

    def _take_held(self) -> None:
        held, self._held = self._held, []
        for request in held:
            self._take(request)

    def _take(self, request: _HeldRequest) -> None:
        if request.timed_out:
            return
        if self._ended:
            request.answer.set_exception(self._loop.shutting_down())
            return
        if not self.is_open:
            request.waits = True
            self._held.append(request)
            return
        request.waits = False
        try:
            request.answer.set_result(request.decide())
        except Exception as error:
            request.answer.set_exception(error)
