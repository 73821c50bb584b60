"""Admission: order, bound, what is too large, and how a wait ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken
from headrace.worker.engine.quota import Quota

SOON_S = 60


class LookedAt(StopToken):
    """Only what stands in line looks whether it still should."""

    def __init__(self, looked: threading.Event) -> None:
        super().__init__()
        self._looked = looked

    def is_set(self) -> bool:
        self._looked.set()
        return super().is_set()


class Waiter:
    """Takes a turn on a thread of its own; `asked` is set once it stands in line."""

    def __init__(self, turns: Quota, units: int, got: list[str] | None = None, name: str = "") -> None:
        self.asked, self.has, self.go = (threading.Event() for _ in range(3))
        self.stop = LookedAt(self.asked)
        self.stopped = False
        self._turns, self._units, self._got, self._name = turns, units, got, name
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._turns.take(self._units, self.stop):
                if self._got is not None:
                    self._got.append(self._name)
                self.has.set()
                self.go.wait(SOON_S)
        except StoppedError:
            self.stopped = True

    def join(self) -> None:
        self.go.set()
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()


@contextlib.contextmanager
def waiting(turns: Quota, units: int, got: list[str] | None = None, name: str = "") -> Iterator[Waiter]:
    """A waiter that stands in line and has nothing yet."""
    waiter = Waiter(turns, units, got, name)
    assert waiter.asked.wait(SOON_S)
    assert not waiter.has.is_set()
    try:
        yield waiter
    finally:
        waiter.stop.set()
        waiter.join()


def test_no_more_is_out_than_there_is() -> None:
    turns = Quota(10)
    with turns.take(4), turns.take(6):
        assert turns.used == 10
        with waiting(turns, 1) as third:
            assert turns.used == 10
    assert turns.used == 0
    assert third.stopped


def test_who_asked_first_is_first_even_where_a_later_one_would_fit() -> None:
    turns, got = Quota(10), list[str]()
    with contextlib.ExitStack() as stack:
        with turns.take(8):
            large = stack.enter_context(waiting(turns, 5, got, "large"))
            small = stack.enter_context(waiting(turns, 2, got, "small"))
        assert large.has.wait(SOON_S)
        assert small.has.wait(SOON_S)
    assert got == ["large", "small"]


def test_what_is_larger_than_all_there_is_goes_alone() -> None:
    turns = Quota(10)
    with contextlib.ExitStack() as stack:
        with turns.take(1):
            huge = stack.enter_context(waiting(turns, 1000))
        assert huge.has.wait(SOON_S)
        assert turns.used == 10
        behind = stack.enter_context(waiting(turns, 1))
        huge.go.set()
        assert behind.has.wait(SOON_S)
    assert turns.used == 0


def test_nothing_needs_no_room() -> None:
    turns = Quota(1)
    with turns.take(1), turns.take(0):
        assert turns.used == 1


def test_who_stops_waiting_leaves_the_line_to_those_behind() -> None:
    turns = Quota(10)
    with contextlib.ExitStack() as stack, turns.take(5):
        first = stack.enter_context(waiting(turns, 6))
        second = stack.enter_context(waiting(turns, 5))
        first.stop.set()
        assert second.has.wait(SOON_S)
        assert not first.has.is_set()
        assert turns.used == 10
        second.go.set()


def test_units_come_back_after_an_error() -> None:
    turns = Quota(3)
    with pytest.raises(ZeroDivisionError), turns.take(3):
        raise ZeroDivisionError
    assert turns.used == 0
