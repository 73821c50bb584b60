"""Any history of a group: workers come, go, crash and come back, connectors come and go, rounds fail or half arrive.

Nothing ever runs twice, and once the history ends all that is configured runs exactly once, evenly spread.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.worker.group.assignor import Assignor, Item, Round
from headrace.worker.group.protocol import Assignment, Subscription
from headrace.worker.model import TaskId

MAX_MS = 10_000


@dataclass
class Member:
    """A worker: what it claims, and whether it runs that; one that was expelled has stopped and comes back."""

    name: str
    claims: list[Item] = field(default_factory=list)
    runs: bool = False
    completed: int = -1
    assignor: Assignor = field(default_factory=lambda: Assignor(MAX_MS))

    def subscription(self) -> Subscription:
        connectors = tuple(item for item in self.claims if isinstance(item, str))
        tasks = tuple(item for item in self.claims if isinstance(item, TaskId))
        return Subscription(self.name, 0, Assignment(connectors=connectors, tasks=tasks) if self.claims else None)


class Cluster:
    def __init__(self, max_delay_ms: int = MAX_MS) -> None:
        self.max_delay_ms = max_delay_ms
        self.members: list[Member] = []  # the first one leads
        self.away: list[Member] = []
        self.tasks: dict[str, int] = {}
        self.generation = self.named = self.now_ms = 0
        self.revocations: Counter[Item] = Counter()

    def join(self) -> None:
        self.named += 1
        self.members.append(Member(f"w{self.named:03}", assignor=Assignor(self.max_delay_ms)))

    def expel(self, which: int) -> None:
        member = self.members.pop(which)
        member.runs = False
        self.away.append(member)

    def come_back(self) -> None:
        member = self.away.pop(0)
        self.named += 1
        member.name = f"w{self.named:03}"
        self.members.append(member)

    @property
    def configured(self) -> set[Item]:
        tasks = {TaskId(name, i) for name, count in self.tasks.items() for i in range(count)}
        return {*self.tasks, *tasks}

    def round(self, deaf: frozenset[int] = frozenset()) -> Round:
        """One round; the members at these places do not hear its outcome."""
        self.generation += 1
        leader = self.members[0]
        told = leader.assignor.assign(
            {member.name: member.subscription() for member in self.members},
            list(self.tasks),
            [item for item in self.configured if isinstance(item, TaskId)],
            last_generation=leader.completed,
            generation=self.generation,
            now_ms=self.now_ms,
        )
        assert told.increments.keys() == {member.name for member in self.members}
        for place, member in enumerate(self.members):
            if place in deaf:
                continue
            more = told.increments[member.name]
            revoked = {*more.revoked_connectors, *more.revoked_tasks}
            self.revocations.update(revoked & set(member.claims))
            member.claims = [item for item in member.claims if item not in revoked]
            member.claims += [*more.connectors, *more.tasks]
            assert len(set(member.claims)) == len(member.claims)
            member.runs, member.completed = True, self.generation
        self.check_nothing_runs_twice()
        return told

    def check_nothing_runs_twice(self) -> None:
        running = Counter(item for member in self.members if member.runs for item in member.claims)
        assert all(count == 1 for count in running.values()), running.most_common(2)

    def settle(self) -> int:
        """Rounds until none is needed; how long that took in ms."""
        since = self.now_ms
        for _ in range(40):
            told = self.round()
            self.now_ms += told.delay_ms
            changed = any(more.revoked_connectors or more.revoked_tasks for more in told.increments.values())
            if not told.delay_ms and not changed:
                return self.now_ms - since
        raise AssertionError("the rounds do not end")

    def check_settled(self) -> None:
        held = Counter(item for member in self.members for item in member.claims)
        assert set(held) == self.configured
        assert set(held.values()) <= {1}
        for kind in (str, TaskId):
            counts = [sum(isinstance(item, kind) for item in member.claims) for member in self.members]
            assert max(counts) - min(counts) <= 1, counts
        assert not any(any(more) for more in self.round().increments.values())

    def owners(self) -> dict[Item, str]:
        return {item: member.name for member in self.members for item in member.claims}


OPERATIONS = ("join", "leave", "expel", "come back", "create", "delete", "resize", "tick", "round", "deaf", "settle")


def act(cluster: Cluster, what: str, dice: random.Random) -> None:
    if what == "join" and len(cluster.members) < 6:
        cluster.join()
    elif what == "leave" and len(cluster.members) > 1:
        cluster.members.pop(dice.randrange(len(cluster.members)))
    elif what == "expel" and len(cluster.members) > 1:
        cluster.expel(dice.randrange(len(cluster.members)))
    elif what == "come back" and cluster.away:
        cluster.come_back()
    elif what == "create":
        cluster.tasks[f"c{dice.randrange(9)}"] = dice.randrange(5)
    elif what in ("delete", "resize") and cluster.tasks:
        name = dice.choice(sorted(cluster.tasks))
        cluster.tasks.pop(name)
        if what == "resize":
            cluster.tasks[name] = dice.randrange(6)
    elif what == "tick":
        cluster.now_ms += dice.randrange(MAX_MS)
    elif what == "round":
        cluster.round()
    elif what == "deaf":
        cluster.round(frozenset(place for place in range(len(cluster.members)) if dice.random() < 0.5))
    elif what == "settle":
        cluster.settle()


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(OPERATIONS), min_size=25, max_size=60),
    st.integers(0, 2**32),
    st.sampled_from([0, 1, 50, MAX_MS]),
)
def test_nothing_runs_twice_and_everything_once_at_last(history: list[str], seed: int, max_delay_ms: int) -> None:
    cluster, dice = Cluster(max_delay_ms), random.Random(seed)
    cluster.join()
    for what in history:
        act(cluster, what, dice)
    cluster.settle()
    cluster.settle()
    cluster.check_settled()


def settled(workers: int, tasks: list[int], max_delay_ms: int = MAX_MS) -> Cluster:
    cluster = Cluster(max_delay_ms)
    for _ in range(workers):
        cluster.join()
    cluster.tasks = {f"c{i}": count for i, count in enumerate(tasks)}
    cluster.settle()
    cluster.check_settled()
    cluster.revocations.clear()
    return cluster


counts = st.lists(st.integers(0, 5), max_size=8)


@given(st.integers(1, 5), counts)
def test_a_joiner_moves_only_what_it_gets(workers: int, tasks: list[int]) -> None:
    cluster = settled(workers, tasks)
    before = cluster.owners()
    cluster.join()
    cluster.settle()
    cluster.check_settled()
    moved = {item for item, owner in cluster.owners().items() if before[item] != owner}
    assert moved == set(cluster.members[-1].claims)
    assert cluster.revocations == Counter(moved)


@given(st.integers(2, 6), counts, st.data())
def test_departed_work_waits_and_the_rest_stays(workers: int, tasks: list[int], data: st.DataObject) -> None:
    cluster = settled(workers, tasks)
    before = cluster.owners()
    gone = cluster.members.pop(data.draw(st.integers(1, workers - 1)))
    first = cluster.round()
    assert first.delay_ms == (MAX_MS if gone.claims else 0)
    assert not any(any(more) for more in first.increments.values())
    assert cluster.settle() <= MAX_MS
    cluster.check_settled()
    assert {item for item, owner in cluster.owners().items() if before[item] != owner} == set(gone.claims)
    assert not cluster.revocations


@given(st.integers(1, 6), counts, st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_new_work_moves_nothing(workers: int, tasks: list[int], more: list[int]) -> None:
    cluster = settled(workers, tasks)
    cluster.tasks |= {f"new{i}": count for i, count in enumerate(more)}
    cluster.settle()
    cluster.check_settled()
    assert not cluster.revocations
