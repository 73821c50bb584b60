"""Membership in a real group: one to three members as threads of this process, on a real broker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.group.membership import Assigned, Lost
from headrace.worker.group.session import Timing
from headrace.worker.model import TaskId
from tests.brokers_apart import fenced_broker
from tests.integration.group_member import FAST, Config, GroupMember, Ledger
from tests.integration.worker_process import eventually

pytestmark = pytest.mark.long


class Team:
    """The members of one group."""

    def __init__(self, broker: str, config: Config) -> None:
        self.client = {"bootstrap_servers": broker, "reconnect_backoff_max_ms": 1_000}
        self.group, self.config, self.ledger = f"team-{uuid4().hex[:8]}", config, Ledger()
        self.members: list[GroupMember] = []

    def join(self, name: str, max_delay_ms: int = 3_000, timing: Timing = FAST) -> GroupMember:
        client = {**self.client, "client_id": name}
        member = GroupMember(name, client, self.group, lambda: self.config.view, self.ledger, max_delay_ms, timing)
        self.members.append(member)
        return member.start()

    def leave(self, member: GroupMember) -> None:
        self.members.remove(member)
        member.leave()

    def settled(self, within_s: float = 60) -> None:
        """Everything is held once, evenly, by members of one generation of whom one leads."""
        eventually(self._is_settled, within_s, lambda: [(m.name, sorted(map(str, m.held))) for m in self.members])
        assert not self.ledger.twice

    def _is_settled(self) -> bool:
        counts = [sum(isinstance(item, str) for item in member.held) for member in self.members]
        tasks = [sum(isinstance(item, TaskId) for item in member.held) for member in self.members]
        return (
            set(self.ledger.held()) == self.config.view.items
            and max(counts) - min(counts) <= 1
            and max(tasks) - min(tasks) <= 1
            and len({member.membership.generation for member in self.members}) == 1
            and sum(member.membership.is_leader for member in self.members) == 1
            and all(member.membership.is_current() for member in self.members)
        )

    @property
    def leader(self) -> GroupMember:
        return next(member for member in self.members if member.membership.is_leader)


@pytest.fixture
def teams() -> Iterator[list[Team]]:
    """The teams of a test, which are gone at its end."""
    teams: list[Team] = []
    yield teams
    for one in teams:
        for member in one.members:
            member.frozen.clear()
            with contextlib.suppress(Exception):
                member.leave(1)


@pytest.fixture
def team(teams: list[Team], broker: str) -> Callable[..., Team]:
    def made(**connectors: int) -> Team:
        teams.append(Team(broker, Config(**connectors)))
        return teams[-1]

    return made


def test_one_member_gets_everything_and_leads(team: Callable[..., Team]) -> None:
    one = team(a=2, b=0)
    member = one.join("w1")
    one.settled()
    assert member.membership.leader_url == "http://w1/"
    assert member.membership.owner_of("a") == member.membership.owner_of(TaskId("a", 1)) == "http://w1/"
    assert member.membership.owner_of("unknown") is None
    assert member.membership.protocol_version == 2
    one.leave(member)
    assert (member.membership.generation, member.membership.member_id, member.membership.is_leader) == (-1, "", False)
    assert not member.membership.is_current()


def test_work_moves_to_joiners_and_what_stays_is_left_alone(team: Callable[..., Team]) -> None:
    three = team(a=2, b=2, c=2)
    first = three.join("w1")
    three.settled()
    first.stop_s = 0.5
    three.join("w2")
    three.join("w3")
    three.settled()
    given = [{*e.assignment.connectors, *e.assignment.tasks} for e in first.events if isinstance(e, Assigned)]
    assert sum(map(len, given)) == len(three.config.view.items)  # nothing that it kept came twice
    assert three.leader is first
    owners = {item: f"http://{name}/" for item, name in three.ledger.held().items()}
    assert {item: first.membership.owner_of(item) for item in owners} == owners
    follower = next(member for member in three.members if member is not first)
    assert follower.membership.owner_of("a") is None
    assert follower.membership.leader_url == "http://w1/"


def test_a_leavers_work_moves_after_the_delay(team: Callable[..., Team]) -> None:
    two = team(a=2, b=2)
    two.join("w1")
    two.settled()
    leaver = two.join("w2")
    two.settled()
    began = time.monotonic()
    two.leave(leaver)
    assert time.monotonic() - began < 15
    two.settled()
    assert time.monotonic() - began > 3


def test_when_the_leader_leaves_the_next_one_leads_at_once(team: Callable[..., Team]) -> None:
    three = team(a=1, b=1, c=1)
    first = three.join("w1", max_delay_ms=300_000)
    three.settled()
    three.join("w2", max_delay_ms=300_000)
    three.join("w3", max_delay_ms=300_000)
    three.settled()
    three.leave(first)
    three.settled(10)


def test_new_and_deleted_connectors(team: Callable[..., Team]) -> None:
    two = team(a=1)
    two.join("w1")
    two.join("w2")
    two.settled()
    two.config.set(a=1, b=3, c=2)
    two.settled()
    two.config.set(b=1)
    two.settled()


def test_nothing_is_joined_before_the_last_assignment_is_followed(team: Callable[..., Team]) -> None:
    two = team(a=2, b=2)
    first = two.join("w1")
    two.settled()
    first.stop_s = 3
    second = two.join("w2")
    eventually(lambda: any(e.assignment.revoked_tasks for e in first.events if isinstance(e, Assigned)), 60)
    assert not second.held  # what is being stopped is not given
    two.settled()


def test_leaving_while_a_join_is_pending(team: Callable[..., Team]) -> None:
    """The broker answers a join when every member has joined; leaving must not wait for that."""
    two = team(a=2, b=2)
    first, second = two.join("w1"), two.join("w2")
    two.settled()
    first.frozen.set()
    generation = first.membership.generation
    two.config.set(a=2, b=2, c=0)
    eventually(lambda: first.membership.generation > generation, 60)  # which its herder does not acknowledge
    two.config.set(a=2, b=2)
    connection = second.membership._connection
    assert connection is not None
    eventually(connection.coordinator.rebalance_in_progress, 60)  # its join is at the broker, which waits for w1
    began = time.monotonic()
    two.leave(second)
    assert time.monotonic() - began < 15
    first.frozen.clear()
    two.settled()


def test_a_herder_that_stands_still_loses_its_membership(team: Callable[..., Team]) -> None:
    one = team(a=1)
    member = one.join("w1", timing=Timing(6_000, 500, 6_500))
    one.settled()
    member.frozen.set()
    eventually(lambda: not member.membership.is_current(), 60)
    member.frozen.clear()
    eventually(lambda: any(isinstance(event, Lost) for event in member.events), 60)
    one.settled()


def test_whoever_the_broker_forgot_loses_its_work_and_comes_back(team: Callable[..., Team]) -> None:
    """As after a pause of the process beyond its session: here another client takes the member out."""
    from headrace.worker.group import coordinator as group_coordinator

    one = team(a=1)
    member = one.join("w1")
    one.settled()
    before = member.membership.member_id
    group_coordinator.leave(one.client, one.group, FAST, before, 5)
    eventually(lambda: any(isinstance(event, Lost) for event in member.events), 60)
    one.settled()
    assert member.membership.member_id != before


def test_a_broker_that_was_away(team: Callable[..., Team], broker_process: Broker) -> None:
    two = team(a=2, b=2)
    first, second = two.join("w1"), two.join("w2")
    two.settled()
    broker_process.stop()
    for member in (first, second):
        eventually(lambda member=member: any(isinstance(e, Lost) for e in member.events), 60)
        assert not member.membership.is_current()
    assert not two.ledger.held()
    eventually(lambda: first.membership.trouble is not None, 60)
    broker_process.start()
    two.settled(120)
    assert first.membership.trouble is None


def test_a_broker_that_was_fenced(teams: list[Team], tmp_path: Path) -> None:
    """Its connections stay open, and for a moment after its silence it answers that there are no brokers."""
    with fenced_broker(tmp_path) as fenced:
        teams.append(two := Team(fenced.bootstrap_servers, Config(a=2, b=2)))
        members = [two.join("w1"), two.join("w2")]
        two.settled()
        with fenced.silent():
            for member in members:
                eventually(lambda member=member: any(isinstance(e, Lost) for e in member.events), 60)
                assert not member.membership.is_current()
            assert not two.ledger.held()
        two.settled(120)
        assert [member.membership.trouble for member in members] == [None, None]


def test_a_group_of_others_is_named(team: Callable[..., Team], broker: str) -> None:
    from confluent_kafka import Consumer

    from tests.integration.worker_process import Topic

    one = team(a=1)
    topic = Topic(broker, "others")
    consumer = Consumer({"bootstrap.servers": broker, "group.id": one.group})
    try:
        consumer.subscribe([topic.name])
        eventually(lambda: consumer.poll(0.2) is not None or consumer.assignment(), 60)
        member = one.join("w1")
        eventually(lambda: consumer.poll(0.05) or member.membership.trouble, 60)
        assert one.group in str(member.membership.trouble)
    finally:
        consumer.close()


def test_an_idle_member_costs_next_to_nothing(team: Callable[..., Team]) -> None:
    one = team(a=1)
    one.join("w1")
    one.settled()
    before, began = time.process_time(), time.monotonic()
    eventually(lambda: time.monotonic() - began > 3, 60)
    assert time.process_time() - before < 0.3  # of which most is this test's own looking
