"""Whether a worker may count itself a member of its group: its place, the proofs of it, and what ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.worker.group.assignor import Item
from headrace.worker.group.protocol import Assignment


@dataclass(frozen=True)
class Timing:
    """A member's times, in ms."""

    session_ms: int = 10_000
    heartbeat_ms: int = 3_000
    rebalance_ms: int = 60_000


@dataclass(frozen=True)
class GroupPlace:
    """What a worker is in one generation of its group."""

    generation: int = -1
    member_id: str = ""
    assignment: Assignment = field(default_factory=Assignment)
    owners: Mapping[Item, str] = field(default_factory=dict)
    """Where everything runs, which only the leader knows."""

    @property
    def leads(self) -> bool:
        return bool(self.member_id) and self.member_id == self.assignment.leader


NOWHERE: Final = GroupPlace()


class MemberSession:
    """A worker's standing. Who changes it holds one lock over all calls; `place` and `is_current` are for everybody.

    A worker is current while the broker cannot have given its work to others: its session, counted from the sending of
    the last request that the broker accepted, is not over. Once it has been lost, it is current again only when an
    assignment has been followed, because others may have been given the work meanwhile.
    """

    def __init__(self, timing: Timing, clock: Callable[[], float] = time.monotonic) -> None:
        self.place = NOWHERE
        self._timing = timing
        self._clock = clock
        self._proof = 0.0
        self._followed = False
        self._to_follow = 0
        self._expelled: str | None = None
        self._away_since: float | None = None

    def is_current(self) -> bool:
        """Whether this worker may start anything; cheap enough for every batch."""
        return self._followed and self._clock() - self._proof < self._timing.session_ms / 1000

    @property
    def settled(self) -> bool:
        """Whether all that this worker was told has been followed."""
        return not self._to_follow

    def proved(self, at: float) -> None:
        """At this moment, or later, the broker counted this worker as a member."""
        self._proof = max(self._proof, at)

    def joined(self, place: GroupPlace) -> None:
        """The worker is part of a generation, and is told so."""
        self.place = place
        self._to_follow += 1

    def followed(self) -> None:
        """What the worker was told first of all that it has not followed yet has been followed."""
        self._to_follow = max(0, self._to_follow - 1)
        if self.settled and self.place is not NOWHERE and self._expelled is None:
            self._followed = True

    def expelled(self, why: str) -> None:
        """The broker does not know this worker; nothing new where it never did."""
        if self.place is not NOWHERE:
            self._expelled, self._followed = why, False

    def left(self) -> None:
        """The worker is no member, and wants to be none."""
        self.place, self._followed = NOWHERE, False

    def lost(self) -> bool:
        """The worker is no member any more; whether it was one, and is told so."""
        was_member = self.place is not NOWHERE
        self.place, self._expelled, self._followed = NOWHERE, None, False
        self._to_follow += was_member
        return was_member

    def coordinator(self, known: bool) -> float:
        """For how many seconds the group's coordinator has been away."""
        now = self._clock()
        if known:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = now
        return 0.0 if self._away_since is None else now - self._away_since

    @property
    def is_expelled(self) -> bool:
        """Whether the broker does not know this worker, and the worker has not been told yet."""
        return self._expelled is not None

    def reason_to_leave(self) -> str | None:
        """Why this worker must give up its place; None where it need not, or has none."""
        if self._expelled is not None or self.place is NOWHERE:
            return self._expelled
        now = self._clock()
        if self._away_since is not None and now - self._away_since >= self._timing.heartbeat_ms / 1000:
            return f"the group's coordinator has been away for {now - self._away_since:.1f} s"
        if now - self._proof > self._timing.session_ms / 1000:
            return "no heartbeat has been answered for longer than session.timeout.ms"
        return None
