"""When a worker counts itself a member, by a clock of the test's own."""

from __future__ import annotations

from headrace.worker.group.protocol import Assignment
from headrace.worker.group.session import NOWHERE, GroupPlace, MemberSession, Timing

PLACE = GroupPlace(3, "me", Assignment(leader="me"))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def member() -> tuple[MemberSession, Clock]:
    """A standing with one assignment, followed."""
    clock = Clock()
    standing = MemberSession(Timing(10_000, 3_000), clock)
    standing.proved(clock.now)
    standing.joined(PLACE)
    standing.followed()
    return standing, clock


def test_it_is_current_only_when_its_assignment_was_followed() -> None:
    clock = Clock()
    standing = MemberSession(Timing(), clock)
    assert not standing.is_current()
    standing.proved(clock.now)
    standing.joined(PLACE)
    assert not standing.settled
    assert not standing.is_current()
    standing.followed()
    assert standing.settled
    assert standing.is_current()


def test_a_session_ends_by_itself_and_a_late_proof_mends_it() -> None:
    standing, clock = member()
    clock.now += 9.99
    assert standing.is_current()
    assert standing.reason_to_leave() is None
    clock.now += 0.02
    assert not standing.is_current()
    assert "session.timeout.ms" in str(standing.reason_to_leave())
    standing.proved(clock.now - 1)
    assert standing.is_current()
    assert standing.reason_to_leave() is None


def test_an_answer_to_what_was_sent_before_the_pause_proves_nothing() -> None:
    standing, clock = member()
    sent = clock.now + 1
    clock.now += 60
    standing.proved(sent)
    assert not standing.is_current()


def test_what_was_lost_is_current_again_only_with_the_next_assignment() -> None:
    standing, clock = member()
    standing.expelled("gone")
    assert (standing.is_current(), standing.reason_to_leave()) == (False, "gone")
    assert standing.lost()
    assert standing.place is NOWHERE
    standing.proved(clock.now)
    standing.followed()
    assert not standing.is_current()
    standing.joined(PLACE)
    assert not standing.is_current()
    standing.followed()
    assert standing.is_current()


def test_both_what_was_given_and_that_it_was_lost_are_to_be_followed() -> None:
    standing, _ = member()
    standing.joined(PLACE)
    standing.lost()
    standing.followed()
    assert not standing.settled
    standing.followed()
    assert standing.settled
    assert not standing.is_current()


def test_an_expelled_one_that_follows_its_last_assignment_stays_expelled() -> None:
    standing, _ = member()
    standing.joined(PLACE)
    standing.expelled("gone")
    standing.followed()
    assert not standing.is_current()
    assert standing.is_expelled


def test_who_is_no_member_loses_nothing() -> None:
    standing = MemberSession(Timing())
    standing.expelled("unknown")
    assert standing.reason_to_leave() is None
    assert not standing.lost()
    assert standing.settled


def test_a_coordinator_may_be_away_for_a_heartbeat() -> None:
    standing, clock = member()
    assert standing.coordinator(known=False) == 0
    clock.now += 2.9
    assert standing.coordinator(known=False) == clock.now - 100
    assert standing.reason_to_leave() is None
    clock.now += 0.2
    assert "away" in str(standing.reason_to_leave())
    assert standing.coordinator(known=True) == 0
    assert standing.reason_to_leave() is None


def test_who_left_is_not_current() -> None:
    standing, _ = member()
    standing.left()
    assert not standing.is_current()
    assert not standing.place.leads
