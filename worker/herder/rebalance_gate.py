"""Holds decisions that need a stable group while the group rebalances; they time out if that takes too long."""

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
        """Answer with the deciding thread's error if it does not take the request."""
        if (error := taken.exception()) is not None:
            self.answer.set_exception(error)


class RebalanceGate:
    """Passes requests to the deciding thread, or holds them while closed; closed at first."""

    def __init__(self, decider: HerderLoop) -> None:
        self._loop = decider
        self._held: list[_HeldRequest] = []
        self.is_open = False
        """True if this worker knows the group to be stable."""
        self._ended = False

    def ask(self, doing: str, decide: Callable[[], T], timeout_s: float = REQUEST_SECONDS) -> T:
        """Run `decide` on the deciding thread, in a stable group, and wait for its answer.

        Errors: Conflict if the group did not become stable in time; TimedOut if it did but the thread was busy;
        ConnectError if the worker is stopping; the decision's own.
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
        """Run the held requests, since the group is stable. For the deciding thread."""
        self.is_open = True
        self._take_held()

    def close(self) -> None:
        """Hold requests from now on, since the group rebalances. For the deciding thread."""
        self.is_open = False

    def end(self) -> None:
        """Refuse held and later requests, since this worker leaves the group for good. For the deciding thread."""
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
