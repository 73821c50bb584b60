"""The words that a member says, hears and, if it leads, tells; without a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.kafka.tokens import KafkaTokens
from headrace.worker.group.coordinator import JoinInterrupted
from headrace.worker.group.leading import LeaderAssignment
from headrace.worker.group.membership import Membership
from headrace.worker.group.protocol import CONFIG_MISMATCH, Assignment, Subscription
from headrace.worker.group.session import Timing
from headrace.worker.model import TaskId

URL = "http://me/"


@dataclass
class View:
    offset: int = 7
    connectors: dict[str, int] = field(default_factory=lambda: {"a": 1})

    def tasks(self, connector: str) -> list[TaskId]:
        return [TaskId(connector, i) for i in range(self.connectors[connector])]


class Views:
    """The views that are read of the config topic, look by look."""

    def __init__(self, *offsets: int) -> None:
        self.offsets = list(offsets)

    def __call__(self) -> View:
        return View(self.offsets.pop(0) if len(self.offsets) > 1 else self.offsets[0])


def told(lead: LeaderAssignment, *offsets: int) -> dict[str, Assignment]:
    lead.look()
    said = {f"m{i}": Subscription(f"http://{i}/", offset).encode() for i, offset in enumerate(offsets)}
    answers = lead.assignments("m0", -1, 1, said)
    assert answers.keys() == said.keys()  # whoever is told nothing would die
    return {member: Assignment.decode(data) for member, data in answers.items()}


def test_a_leader_assigns_for_the_offset_it_has_read() -> None:
    lead = LeaderAssignment(URL, Views(7), 1_000)
    answers = told(lead, 7, 5)
    assert {(said.error, said.leader, said.leader_url, said.offset) for said in answers.values()} == {(0, "m0", URL, 7)}
    assert answers["m0"].connectors == ("a",)
    assert answers["m0"].tasks == (TaskId("a", 0),)
    assert lead.owners == {"a": "http://0/", TaskId("a", 0): "http://0/"}


def test_a_leader_that_is_behind_looks_once_more() -> None:
    answers = told(LeaderAssignment(URL, Views(7, 9), 1_000), 7, 8)
    assert {(said.error, said.offset) for said in answers.values()} == {(0, 9)}


def test_a_leader_that_stays_behind_has_all_come_again() -> None:
    lead = LeaderAssignment(URL, Views(7), 1_000)
    answers = told(lead, 7, 8)
    assert set(answers.values()) == {Assignment(2, CONFIG_MISMATCH, "m0", URL, 8)}
    assert not lead.owners
    assert not lead.failed


def test_a_failure_of_the_assignment_has_all_come_again(caplog: pytest.LogCaptureFixture) -> None:
    lead = LeaderAssignment(URL, Views(7), 1_000)
    lead.look()
    answers = lead.assignments("m0", -1, 1, {"m0": b"\x00", "m1": Subscription(URL, 7).encode()})
    assert [Assignment.decode(data).error for data in answers.values()] == [CONFIG_MISMATCH] * 2
    assert lead.failed
    assert "could not be assigned" in caplog.text


def test_a_name_that_does_not_fit_is_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    wrong = {"x" * 40_000: 1, "\ud800": 1, "é" * 20_000: 0}
    lead = LeaderAssignment(URL, lambda: View(7, {"a": 1, **wrong}), 1_000)
    for _ in range(2):
        answers = told(lead, 7)
        assert (answers["m0"].error, answers["m0"].connectors, answers["m0"].tasks) == (0, ("a",), (TaskId("a", 0),))
    assert caplog.text.count("runs nowhere") == 3


def membership() -> Membership:
    return Membership({}, "group", URL, View, Timing(), 1_000)


def test_a_subscription_claims_what_was_acknowledged_and_revokes_nothing() -> None:
    member = membership()
    assert Subscription.decode(member.subscription()) == Subscription(URL, 7, None)
    held = Assignment(1, 0, "l", "http://l/", 5, ("a",), (TaskId("a", 0),), ("b",), (), 12)
    member.acknowledge(held)
    claimed = Assignment(2, 0, "l", "http://l/", 5, ("a",), (TaskId("a", 0),))
    assert Subscription.decode(member.subscription()) == Subscription(URL, 7, claimed)


def test_a_member_shows_its_place() -> None:
    member = membership()
    assert (member.generation, member.member_id, member.is_leader, member.leader_url) == (-1, "", False, None)
    member.joined(4, "me", Assignment(2, 0, "me", URL, 7).encode())
    assert (member.generation, member.member_id, member.is_leader, member.leader_url) == (4, "me", True, URL)
    member.joined(5, "me", Assignment(2, 0, "other", "http://o/", 7).encode())
    assert (member.is_leader, member.leader_url, member.owner_of("a")) == (False, "http://o/", None)


def test_bytes_that_are_no_assignment_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    member = membership()
    member.joined(4, "me", Assignment(2, 0, "me", URL, 7).encode())
    member.joined(5, "me", b"")
    assert member.generation == 4
    assert "joining again" in caplog.text


def test_an_expelled_member_does_not_join_before_it_was_told() -> None:
    member = membership()
    member.joined(4, "me", Assignment(2, 0, "me", URL, 7).encode())
    member.expelled("gone")
    with pytest.raises(JoinInterrupted):
        member.subscription()


def test_a_member_that_leaves_does_not_join_any_more() -> None:
    member = membership()
    member.leave(0)
    with pytest.raises(JoinInterrupted):
        member.subscription()


def test_a_login_by_token_has_a_source_of_tokens() -> None:
    oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    config = WorkerConfig.distributed(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "group.id": "g",
            "key.converter": "JsonConverter",
            "value.converter": "JsonConverter",
            **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1/token",
            "sasl.jaas.config": f'{oauth} clientId="i" clientSecret="s";',
        }
    )
    client: Any = Membership.of(config, URL, View)._client
    assert isinstance(client["sasl_oauth_token_provider"], KafkaTokens)
