"""The times at which a worker counts itself a member, by a clock of the test's own."""

from __future__ import annotations

from headrace.worker.group.protocol import Assignment
from headrace.worker.group.session import NOWHERE, GroupPlace, MemberSession, Timing

PLACE = GroupPlace(3, "me", Assignment(leader="me"))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def member() -> tuple[MemberSession, Clock]:
    """A session with one assignment, handled."""
    clock = Clock()
    session = MemberSession(Timing(10_000, 3_000), clock)
    session.proved(clock.now)
    session.joined(PLACE)
    session.handled()
    return session, clock


def test_it_is_current_only_when_its_assignment_was_handled() -> None:
    clock = Clock()
    session = MemberSession(Timing(), clock)
    assert not session.is_current()
    session.proved(clock.now)
    session.joined(PLACE)
    assert not session.settled
    assert not session.is_current()
    session.handled()
    assert session.settled
    assert session.is_current()


def test_a_session_ends_by_itself_and_a_late_proof_mends_it() -> None:
    session, clock = member()
    clock.now += 9.99
    assert session.is_current()
    assert session.reason_to_leave() is None
    clock.now += 0.02
    assert not session.is_current()
    assert "session.timeout.ms" in str(session.reason_to_leave())
    session.proved(clock.now - 1)
    assert session.is_current()
    assert session.reason_to_leave() is None


def test_an_answer_to_what_was_sent_before_the_pause_proves_nothing() -> None:
    session, clock = member()
    sent = clock.now + 1
    clock.now += 60
    session.proved(sent)
    assert not session.is_current()


def test_what_was_lost_is_current_again_only_with_the_next_assignment() -> None:
    session, clock = member()
    session.expelled("gone")
    assert (session.is_current(), session.reason_to_leave()) == (False, "gone")
    assert session.lost()
    assert session.place is NOWHERE
    session.proved(clock.now)
    session.handled()
    assert not session.is_current()
    session.joined(PLACE)
    assert not session.is_current()
    session.handled()
    assert session.is_current()


def test_both_an_assignment_and_its_loss_are_to_be_handled() -> None:
    session, _ = member()
    session.joined(PLACE)
    session.lost()
    session.handled()
    assert not session.settled
    session.handled()
    assert session.settled
    assert not session.is_current()


def test_an_expelled_one_that_follows_its_last_assignment_stays_expelled() -> None:
    session, _ = member()
    session.joined(PLACE)
    session.expelled("gone")
    session.handled()
    assert not session.is_current()
    assert session.is_expelled


def test_who_is_no_member_loses_nothing() -> None:
    session = MemberSession(Timing())
    session.expelled("unknown")
    assert session.reason_to_leave() is None
    assert not session.lost()
    assert session.settled


def test_a_coordinator_may_be_away_for_a_heartbeat() -> None:
    session, clock = member()
    assert session.coordinator(known=False) == 0
    clock.now += 2.9
    assert session.coordinator(known=False) == clock.now - 100
    assert session.reason_to_leave() is None
    clock.now += 0.2
    assert "away" in str(session.reason_to_leave())
    assert session.coordinator(known=True) == 0
    assert session.reason_to_leave() is None


def test_who_left_is_not_current() -> None:
    session, _ = member()
    session.left()
    assert not session.is_current()
    assert not session.place.leads
