"""Places are looked at when enough has come, one after the other; failures are told once and tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from headrace.plugins.backoff import Backoff
from headrace.plugins.interop import upkeep
from headrace.plugins.interop.upkeep import Upkeep
from tests.integration.worker_process import eventually


class Places:
    """An upkeep whose looks are noted, and do what a test asks."""

    def __init__(self, enough: int = 3) -> None:
        self.looks = list[str]()
        self.enough = enough
        self.during: Callable[[str], None] = lambda place: None
        self.turn = threading.Lock()
        self.ends = list[str]()
        self.upkeep = Upkeep[str]("upkeep-test", self._look, "Files of {}".format, self.turn, self._ended)

    def _look(self, place: str) -> int:
        self.looks.append(place)
        self.during(place)
        return self.enough

    def _ended(self) -> None:
        self.ends.append(threading.current_thread().name)

    def settled(self, *looks: str) -> None:
        """Wait until there were just these looks, and none is due."""
        eventually(lambda: (self.looks, self.upkeep.due) == ([*looks], 0), 60, lambda: self.looks)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    monkeypatch.setattr(upkeep, "_BACKOFF", Backoff(0.01, 0.01))
    made = Places()
    yield made
    made.during = lambda place: None
    made.upkeep.close()
    eventually(lambda: "upkeep-test" not in {thread.name for thread in threading.enumerate()}, 60)


def test_a_look_is_worth_it_once_enough_has_come(places: Places) -> None:
    places.upkeep.came("a")
    places.settled("a")
    places.upkeep.came("a", 2)
    places.upkeep.came("b")
    places.settled("a", "b")
    places.upkeep.came("a", 1)
    places.settled("a", "b", "a")


@pytest.mark.parametrize(("count", "looks"), [(2, 1), (3, 2)])
def test_what_comes_during_a_look_counts_for_the_next(places: Places, count: int, looks: int) -> None:
    def comes(place: str) -> None:
        if len(places.looks) == 1:
            places.upkeep.came(place, count)
            assert places.upkeep.due == 0

    places.during = comes
    places.upkeep.came("a")
    places.settled(*["a"] * looks)
    places.upkeep.came("a", 3)
    places.settled(*["a"] * (looks + 1))


def test_a_failure_is_told_once_and_tried_again(places: Places, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", upkeep.__name__)
    errors = iter([ValueError("Away."), ValueError("Away."), ValueError("else"), KeyError()])

    def fails(place: str) -> None:
        if place == "a" and (error := next(errors, None)) is not None:
            raise error

    places.during = fails
    places.upkeep.came("a")
    places.upkeep.came("b")
    eventually(lambda: "merged again" in caplog.text, 60)
    assert (places.upkeep.failures, places.looks.count("a"), places.looks.count("b")) == (4, 5, 1)
    assert [one.getMessage() for one in caplog.records] == [
        *(f"Files of a are not merged: {why}. Rows go on; it is tried again." for why in ("Away", "else", "KeyError")),
        "Files of a are merged again",
    ]


def test_the_failure_of_a_forgotten_place_is_its_end(places: Places, caplog: pytest.LogCaptureFixture) -> None:
    def goes(place: str) -> None:
        if place == "a":
            places.upkeep.forget(lambda one: one == "a")
            raise ValueError("it has gone")

    places.during = goes
    places.upkeep.came("a")
    places.settled("a")
    places.upkeep.came("b")
    places.settled("a", "b")
    assert places.upkeep.failures == 0
    assert not caplog.records


def test_the_number_of_places_is_bounded(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_MOST_PLACES", 2)
    for place in "abc":
        places.upkeep.came(place)
        eventually(lambda place=place: places.looks[-1:] == [place], 60)  # type: ignore[misc]
    eventually(lambda: list(places.upkeep._places) == ["b", "c"], 60)


def test_a_look_ends_with_its_task(places: Places, caplog: pytest.LogCaptureFixture) -> None:
    begun = threading.Event()

    def endless(place: str) -> None:
        begun.set()
        while True:
            places.upkeep.check_open()

    places.during = endless
    places.upkeep.came("a")
    assert begun.wait(60)
    places.upkeep.close()
    assert places.ends == ["upkeep-test"]
    assert not caplog.records


def test_a_turn_is_one_at_a_time_and_ends_with_its_task(places: Places) -> None:
    def takes(place: str) -> None:
        with places.upkeep.turn():
            assert places.turn.locked()

    places.during = takes
    places.upkeep.came("a")
    places.settled("a")
    eventually(lambda: not places.turn.locked(), 60)
    with places.turn:
        places.upkeep.came("b")
        places.settled("a", "b")
        places.upkeep.close()
        assert places.ends == ["upkeep-test"]
