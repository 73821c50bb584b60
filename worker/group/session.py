"""A worker's session in its group: its place, the proofs of membership, and the reasons to leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.worker.group.assignor import Item
from headrace.worker.group.protocol import Assignment


@dataclass(frozen=True)
class Timing:
    """A member's time-outs. Units: ms."""

    session_ms: int = 10_000
    heartbeat_ms: int = 3_000
    rebalance_ms: int = 60_000


@dataclass(frozen=True)
class GroupPlace:
    """A worker's place in one generation of its group."""

    generation: int = -1
    member_id: str = ""
    assignment: Assignment = field(default_factory=Assignment)
    owners: Mapping[Item, str] = field(default_factory=dict)
    """URL of the worker of each connector and task; empty unless this worker leads."""

    @property
    def leads(self) -> bool:
        return bool(self.member_id) and self.member_id == self.assignment.leader


NOWHERE: Final = GroupPlace()


class MemberSession:
    """A worker's session in its group. Callers of mutators hold one lock; any thread may read `place` and `is_current`.

    A worker is current while the broker cannot have given its work to others: its session, counted from the sending of
    the last request that the broker accepted, is not over. After a loss it is current again only once it has handled an
    assignment, because others may have been given the work meanwhile.
    """

    def __init__(self, timing: Timing, clock: Callable[[], float] = time.monotonic) -> None:
        self.place = NOWHERE
        self._timing = timing
        self._clock = clock
        self._proof = 0.0
        self._handled = False
        self._unhandled = 0
        self._expelled: str | None = None
        self._away_since: float | None = None

    def is_current(self) -> bool:
        """True if this worker may start work; cheap enough for every batch."""
        return self._handled and self._clock() - self._proof < self._timing.session_ms / 1000

    @property
    def settled(self) -> bool:
        """True if every event of the group has been handled."""
        return not self._unhandled

    def proved(self, at: float) -> None:
        """Note that the broker counted this worker as a member at `at` or later."""
        self._proof = max(self._proof, at)

    def joined(self, place: GroupPlace) -> None:
        """Note that the worker has joined a generation; the event is yet to be handled."""
        self.place = place
        self._unhandled += 1

    def handled(self) -> None:
        """Mark the oldest unhandled group event as handled."""
        self._unhandled = max(0, self._unhandled - 1)
        if self.settled and self.place is not NOWHERE and self._expelled is None:
            self._handled = True

    def expelled(self, why: str) -> None:
        """Note that the broker does not know this worker; no effect if it has no place."""
        if self.place is not NOWHERE:
            self._expelled, self._handled = why, False

    def left(self) -> None:
        """Note that the worker left the group voluntarily."""
        self.place, self._handled = NOWHERE, False

    def lost(self) -> bool:
        """Give up the place; returns True if there was one, so that the loss has to be handled."""
        was_member = self.place is not NOWHERE
        self.place, self._expelled, self._handled = NOWHERE, None, False
        self._unhandled += was_member
        return was_member

    def coordinator(self, known: bool) -> float:
        """Note if the group's coordinator is known; returns the seconds that it has been away."""
        now = self._clock()
        if known:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = now
        return 0.0 if self._away_since is None else now - self._away_since

    @property
    def is_expelled(self) -> bool:
        """True if the broker does not know this worker, and the loss has not been noted yet."""
        return self._expelled is not None

    def reason_to_leave(self) -> str | None:
        """Return why this worker must give up its place; None if it need not, or has none."""
        if self._expelled is not None or self.place is NOWHERE:
            return self._expelled
        now = self._clock()
        if self._away_since is not None and now - self._away_since >= self._timing.heartbeat_ms / 1000:
            return f"the group's coordinator has been away for {now - self._away_since:.1f} s"
        if now - self._proof > self._timing.session_ms / 1000:
            return "no heartbeat has been answered for longer than session.timeout.ms"
        return None
