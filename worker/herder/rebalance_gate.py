"""Decisions that need a stable group: they wait for it, and whoever asked is told when it takes too long."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from headrace.worker.errors import Conflict
from headrace.worker.hosting.herder_loop import REQUEST_SECONDS, HerderLoop

T = TypeVar("T")


@dataclass
class _Request:
    doing: str
    decide: Callable[[], Any]
    answer: Future[Any] = field(default_factory=Future)
    given_up: bool = False
    waits: bool = False


class RebalanceGate:
    """Asks the deciding thread, which holds what is asked until `release` while the group rebalances."""

    def __init__(self, decider: HerderLoop, is_stable: Callable[[], bool]) -> None:
        self._decider = decider
        self._is_stable = is_stable
        self._held: list[_Request] = []

    def ask(self, doing: str, decide: Callable[[], T], timeout_s: float = REQUEST_SECONDS) -> T:
        """What `decide` answered, on the deciding thread, in a stable group.

        Errors: Conflict where the group did not become stable in time, TimedOut where it did but was busy; what
        `decide` raised.
        """
        request = _Request(doing, decide)
        self._decider.do(doing, lambda: self._take(request))
        try:
            return cast(T, request.answer.result(timeout_s))
        except TimeoutError:
            if request.answer.done():
                raise
            request.given_up = True
            if request.waits:
                raise Conflict(
                    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent "
                    "config change)"
                ) from None
            raise self._decider.timed_out() from None

    def release(self) -> None:
        """What waited is decided; for the deciding thread."""
        held, self._held = self._held, []
        for request in held:
            self._take(request)

    def _take(self, request: _Request) -> None:
        if request.given_up:
            return
        if not self._is_stable():
            request.waits = True
            self._held.append(request)
            return
        request.waits = False
        try:
            request.answer.set_result(request.decide())
        except Exception as error:
            request.answer.set_exception(error)
