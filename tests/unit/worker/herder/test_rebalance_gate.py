"""Decisions that need a stable group."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.worker.errors import Conflict, ConnectError, NotFound, TimedOut
from headrace.worker.herder.rebalance_gate import RebalanceGate
from headrace.worker.hosting.herder_loop import HerderLoop
from tests.integration.worker_process import eventually

SECONDS = 60


class Group:
    """A group that a test makes stable."""

    def __init__(self) -> None:
        self.decider = HerderLoop("test")
        self.requests = RebalanceGate(self.decider)

    def settle(self) -> None:
        self.decider.ask("settling", self.requests.open).result(SECONDS)


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group()
    yield group
    group.decider.stop(SECONDS)


def test_in_a_stable_group_it_is_decided_at_once(group: Group) -> None:
    group.settle()
    assert group.requests.ask("adding", lambda: 1 + 1, SECONDS) == 2


def test_it_waits_for_the_group_and_keeps_the_order(group: Group) -> None:
    decided: list[int] = []
    first = threading.Event()

    def ask(number: int) -> threading.Thread:
        counting = ("counting", lambda: decided.append(number), SECONDS)
        thread = threading.Thread(target=group.requests.ask, args=counting)
        thread.start()
        group.decider.ask("seeing it arrive", first.set).result(SECONDS)
        return thread

    threads = [ask(number) for number in range(3)]
    assert decided == []
    group.settle()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(decided) == [0, 1, 2]


def test_an_unstable_group_is_a_conflict_and_the_request_is_dropped(group: Group) -> None:
    decided: list[int] = []
    with pytest.raises(Conflict, match="due to stale configuration"):
        group.requests.ask("counting", lambda: decided.append(1), 0.05)
    group.settle()
    assert decided == []


def test_a_group_that_rebalances_again_holds_what_comes(group: Group) -> None:
    group.settle()
    group.decider.ask("rebalancing", group.requests.close).result(SECONDS)
    with pytest.raises(Conflict, match="due to stale configuration"):
        group.requests.ask("counting", lambda: 1, 0.05)
    group.settle()
    assert group.requests.ask("counting", lambda: 1, SECONDS) == 1


def test_a_busy_thread_is_named(group: Group) -> None:
    group.settle()
    free = threading.Event()
    group.decider.ask("digging a tunnel", lambda: free.wait(SECONDS))
    with pytest.raises(TimedOut, match="currently digging a tunnel"):
        group.requests.ask("counting", lambda: 1, 0.05)
    free.set()


def test_what_the_decision_raises_is_raised(group: Group) -> None:
    group.settle()

    def refuse() -> None:
        raise NotFound("no such thing")

    with pytest.raises(NotFound, match="no such thing"):
        group.requests.ask("looking", refuse, SECONDS)


def test_a_worker_that_stops_refuses_what_waits_for_the_group(group: Group) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(group.requests.ask, "counting", lambda: 1, SECONDS)
        eventually(lambda: group.decider.ask("looking", lambda: bool(group.requests._held)).result(SECONDS), SECONDS)
        group.decider.ask("leaving", group.requests.end).result(SECONDS)
        with pytest.raises(ConnectError, match="shutting down"):
            waiting.result(SECONDS / 2)
    with pytest.raises(ConnectError, match="shutting down"):
        group.requests.ask("counting", lambda: 1, SECONDS)


def test_a_deciding_thread_that_has_ended_refuses_at_once(group: Group) -> None:
    group.decider.stop(SECONDS)
    with pytest.raises(ConnectError, match="shutting down"):
        group.requests.ask("counting", lambda: 1, SECONDS)
