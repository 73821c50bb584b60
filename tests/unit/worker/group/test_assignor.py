"""The assignor's rounds, one by one, as Apache's would go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.worker.group.assignor import Assignor, Increment, Item, Round
from headrace.worker.group.protocol import Assignment, Subscription
from headrace.worker.model import TaskId

MAX_MS = 300_000


class Group:
    """Members that do what they are told, and a leader's assignor."""

    def __init__(
        self, connectors: Sequence[str] = (), tasks: Sequence[TaskId] = (), max_delay_ms: int = MAX_MS
    ) -> None:
        self.assignor = Assignor(max_delay_ms)
        self.connectors, self.tasks = list(connectors), list(tasks)
        self.held: dict[str, list[Item]] = {}
        self.generation = 0
        self.now_ms = 1_000
        self.completed = -1

    def round(self, complete: bool = True) -> Round:
        """One round; where it does not complete, nobody hears of it."""
        self.generation += 1
        members = {member: subscription(member, items) for member, items in self.held.items()}
        outcome = self.assignor.assign(
            members,
            self.connectors,
            self.tasks,
            last_generation=self.completed,
            generation=self.generation,
            now_ms=self.now_ms,
        )
        assert outcome.increments.keys() == self.held.keys()
        if complete:
            self.completed = self.generation
            for member, told in outcome.increments.items():
                gone = {*told.revoked_connectors, *told.revoked_tasks}
                kept = [item for item in self.held[member] if item not in gone]
                self.held[member] = [*kept, *told.connectors, *told.tasks]
        return outcome


def subscription(member: str, items: Sequence[Item]) -> Subscription:
    connectors = tuple(item for item in items if isinstance(item, str))
    tasks = tuple(item for item in items if isinstance(item, TaskId))
    return Subscription(f"http://{member}/", 7, Assignment(connectors=connectors, tasks=tasks) if items else None)


def moved(outcome: Round) -> Mapping[str, Increment]:
    return {member: told for member, told in outcome.increments.items() if any(told)}


def test_new_work_goes_round_those_with_least() -> None:
    group = Group("abcd", [TaskId("a", 0), TaskId("a", 1), TaskId("b", 0)])
    group.held = {"w1": [], "w2": ["a"]}
    group.round()
    assert group.held == {"w1": ["b", "c", TaskId("a", 0), TaskId("b", 0)], "w2": ["a", "d", TaskId("a", 1)]}


def test_owners_are_the_urls_of_all_that_is_held_or_given() -> None:
    group = Group("ab")
    group.held = {"w1": ["a"], "w2": []}
    assert group.round().owners == {"a": "http://w1/", "b": "http://w2/"}


def test_a_joiner_gets_what_was_revoked_a_round_before() -> None:
    group = Group("abcd", [TaskId("a", 0), TaskId("b", 0)])
    group.held = {"w1": []}
    group.round()
    group.held["w2"] = []
    first = group.round()
    assert moved(first) == {"w1": Increment((), (), ("a", "b"), (TaskId("a", 0),))}
    assert first.delay_ms == 0
    second = group.round()
    assert moved(second) == {"w2": Increment(("a", "b"), (TaskId("a", 0),))}
    assert not moved(group.round())


def test_what_is_configured_no_more_is_revoked() -> None:
    group = Group("ab", [TaskId("a", 0)])
    group.held = {"w1": []}
    group.round()
    group.connectors, group.tasks = ["b"], []
    assert moved(group.round()) == {"w1": Increment((), (), ("a",), (TaskId("a", 0),))}


def test_what_was_deleted_after_a_round_that_broke_off_is_revoked() -> None:
    """Found by members that came and went: nobody would ever have stopped it."""
    group = Group("ab")
    group.held = {"w1": []}
    group.round()
    group.round(complete=False)
    group.connectors = ["a"]
    assert moved(group.round()) == {"w1": Increment((), (), ("b",))}


def test_what_two_hold_is_taken_from_both_and_given_to_one() -> None:
    group = Group("abc")
    group.held = {"w1": ["a", "b"], "w2": ["a", "c"]}
    assert moved(group.round()) == {"w1": Increment((), (), ("a",)), "w2": Increment((), (), ("a",))}
    assert moved(group.round()) == {"w1": Increment(("a",))}


def test_departed_work_waits_for_its_worker_and_then_moves() -> None:
    group = Group("ab", [TaskId("a", 0), TaskId("b", 0)])
    group.held = {"w1": [], "w2": []}
    group.round()
    gone = group.held.pop("w2")
    assert group.round().delay_ms == MAX_MS
    group.now_ms += 100_000
    waiting = group.round()
    assert (waiting.delay_ms, moved(waiting)) == (MAX_MS - 100_000, {})
    group.now_ms += MAX_MS - 100_000
    last = group.round()
    assert last.delay_ms == 0
    assert set(group.held["w1"]) >= set(gone)


def test_departed_work_goes_to_who_came_empty_handed_meanwhile() -> None:
    group = Group("abcd")
    group.held = {"w1": [], "w2": []}
    group.round()
    gone = group.held.pop("w2")
    group.round()
    group.held["w3"] = []
    group.now_ms += 1_000
    assert not moved(group.round())
    group.now_ms += MAX_MS - 1_000
    assert moved(group.round()) == {"w3": Increment(tuple(sorted(map(str, gone))))}


def test_who_returns_with_its_work_keeps_it() -> None:
    group = Group("ab")
    group.held = {"w1": [], "w2": []}
    group.round()
    kept = group.held.pop("w2")
    group.round()
    group.held["w2-again"] = kept
    outcome = group.round()
    assert (outcome.delay_ms, moved(outcome)) == (0, {})


def test_without_a_delay_departed_work_moves_at_once() -> None:
    group = Group("ab", max_delay_ms=0)
    group.held = {"w1": [], "w2": []}
    group.round()
    group.held.pop("w2")
    assert moved(group.round()) == {"w1": Increment(("b",))}


def test_work_that_did_not_arrive_is_given_again_at_once() -> None:
    group = Group("ab")
    group.held = {"w1": [], "w2": []}
    group.round()
    group.held["w2"] = []  # the answer to w2 was lost
    outcome = group.round()
    assert (outcome.delay_ms, moved(outcome)) == (0, {"w2": Increment(("b",))})


def test_a_revocation_that_was_not_heeded_is_made_again() -> None:
    group = Group("ab")
    group.held = {"w1": []}
    group.round()
    group.connectors = ["a"]
    before = dict(group.held)
    group.round()
    group.held = before
    assert moved(group.round()) == {"w1": Increment((), (), ("b",))}


def test_a_round_that_did_not_complete_is_forgotten() -> None:
    group = Group("ab")
    group.held = {"w1": [], "w2": []}
    group.round(complete=False)
    outcome = group.round()
    assert (outcome.delay_ms, len(moved(outcome))) == (0, 2)


def test_successive_revoking_rounds_back_off() -> None:
    """1 ms × 40^n, up to the longest delay; a round without a need for it resets the count."""
    group = Group([f"c{i:02}" for i in range(24)])
    group.held = {"w0": []}
    group.round()
    delays = []
    for joiner in range(1, 5):
        group.held[f"w{joiner}"] = []
        outcome = group.round()
        delays.append(outcome.delay_ms)
        group.now_ms += outcome.delay_ms
        if outcome.delay_ms:
            again = group.round()
            assert again.delay_ms == 0
            assert any(told.revoked_connectors for told in again.increments.values())
    assert delays == [0, 40, 1_600, 64_000]
    while moved(outcome := group.round()) or outcome.delay_ms:
        group.now_ms += outcome.delay_ms
    group.held["w9"] = []
    assert group.round().delay_ms == 0


def test_the_back_off_ends_at_the_longest_delay() -> None:
    group = Group("abcdef", max_delay_ms=30)
    group.held = {"w0": []}
    group.round()
    group.held["w1"] = []
    group.round()
    group.held["w2"] = []
    assert group.round().delay_ms == 30
