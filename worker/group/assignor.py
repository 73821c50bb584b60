"""The leader's incremental cooperative assignment, as Kafka Connect 4.3 computes it.

A round moves nothing from one member to another. It revokes a member's surplus, and the next round gives that to
others, so that nothing ever runs twice. Work of a departed member is held back for a while, because most members that
go come back.

    previous ─┬─ deleted   no longer configured: revoked
              ├─ lost      held by nobody: held back until the delay ends, then given away
              └─ active    held by some member: stays, unless held twice or in surplus
    configured, in neither: created, given to the member that has least

The assignor belongs to one leader and remembers its last round; a new leader begins without a past and holds nothing
back. The rule, its back-off and its corner cases are Apache's own, because Java workers lead the same groups.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, cycle
from typing import Final, NamedTuple, TypeVar

from headrace.worker.group.protocol import Subscription
from headrace.worker.model import TaskId

log = logging.getLogger(__name__)

Item = str | TaskId
"""A connector's name, or a task."""

_T = TypeVar("_T", str, TaskId)

_BACK_OFF_FACTOR: Final = 40
_BACK_OFF_ROUNDS: Final = 6
"""After this many rounds the back-off exceeds any delay that can be set."""


class Increment(NamedTuple):
    """Connectors and tasks that one member is to start and to give up."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[TaskId, ...] = ()


@dataclass(frozen=True)
class Round:
    """Outcome of a round."""

    increments: Mapping[str, Increment]
    """By member id, for every member."""
    delay_ms: int
    """Time until all members join again; 0: never."""
    owners: Mapping[Item, str]
    """URL of the worker that keeps, or is given, each connector and task."""


class Assignor:
    """Assigns work, round by round. Units: times in ms of one monotonic clock."""

    def __init__(self, max_delay_ms: int) -> None:
        self._max_delay_ms = max_delay_ms
        self._generation = -1
        self._previous: set[Item] = set()
        self._revoked: set[Item] = set()
        self._members: frozenset[str] = frozenset()
        self._candidates: dict[str, None] = {}
        self._scheduled_ms = 0
        self._delay_ms = 0
        self._revoked_before = False
        self._revoking_rounds = 0

    def assign(
        self,
        members: Mapping[str, Subscription],
        connectors: Collection[str],
        tasks: Collection[TaskId],
        *,
        last_generation: int,
        generation: int,
        now_ms: int,
    ) -> Round:
        """Compute this generation's round; `last_generation` is the last one that this member saw completed."""
        configured: set[Item] = {*connectors, *tasks}
        held = {member: _held(members[member]) for member in sorted(members)}
        holders = Counter(chain.from_iterable(held.values()))
        active = set(holders)
        self._recall(active, last_generation)
        # Include currently held work: after an aborted round `_previous` is empty, and the work would be held for ever.
        deleted = (self._previous | active) - configured
        lost = self._previous - active - deleted
        created = configured - self._previous - active
        # Work held twice is revoked from both and given to one in the next round.
        leaving = deleted | {item for item, count in holders.items() if count > 1}
        revoked = {member: [item for item in items if item in leaving] for member, items in held.items()}
        loads = {member: [item for item in items if item not in leaving] for member, items in held.items()}
        created |= self._given_up(lost, loads, now_ms)
        if self._delay_ms == 0:
            self._balance(configured, loads, revoked, now_ms)
        else:
            self._revoked_before = False
        _spread([item for item in created if isinstance(item, str)], _connectors, loads)
        _spread([item for item in created if isinstance(item, TaskId)], _tasks, loads)
        self._generation, self._members = generation, frozenset(members)
        self._revoked = set(chain.from_iterable(revoked.values()))
        self._previous = (set(chain.from_iterable(loads.values())) - self._revoked) | lost
        owners = {item: members[member].url for member, items in loads.items() for item in items}
        increments = {member: _increment(loads[member], held[member], revoked[member]) for member in held}
        return Round(increments, self._delay_ms, owners)

    def _recall(self, active: set[Item], last_generation: int) -> None:
        """Correct the remembered outcome of the last round."""
        if self._generation != last_generation:
            self._previous = set()
        if self._revoked & active:  # the revocation was not obeyed
            self._previous = set(active)

    def _given_up(self, lost: set[Item], loads: Mapping[str, list[Item]], now_ms: int) -> set[Item]:
        """Return the lost items to give away now; once the delay is over, returned members get them here instead."""
        if not lost and not self._revoked_before:
            self._reset_delay()
            return set()
        if (self._scheduled_ms <= 0 and loads.keys() >= self._members) or self._max_delay_ms == 0:
            return lost
        if 0 < self._scheduled_ms <= now_ms:
            # A member that joined without work during the delay is probably the departed one.
            returned = [member for member in self._candidates if member in loads]
            for member, item in zip(cycle(returned), sorted(_connectors(lost)), strict=False):
                loads[member].append(item)
            for member, task in zip(cycle(returned), sorted(_tasks(lost)), strict=False):
                loads[member].append(task)
            self._reset_delay()
            self._revoked_before = False
            return set() if returned else lost
        self._candidates |= dict.fromkeys(member for member, items in loads.items() if not items)
        waiting = now_ms < self._scheduled_ms
        self._delay_ms = min(self._scheduled_ms - now_ms, self._max_delay_ms) if waiting else self._max_delay_ms
        self._scheduled_ms = now_ms + self._delay_ms
        if lost:
            log.info("%d connectors and tasks of departed workers wait %d ms for them", len(lost), self._delay_ms)
        return set()

    def _reset_delay(self) -> None:
        self._candidates = {}
        self._scheduled_ms = self._delay_ms = 0

    def _balance(
        self, configured: set[Item], loads: dict[str, list[Item]], revoked: Mapping[str, list[Item]], now_ms: int
    ) -> None:
        """Revoke members' surplus; if the last round revoked too, back off first and schedule a later round."""
        surplus = _surplus(configured, loads)
        if not surplus:
            if self._revoked_before:
                self._revoked_before, self._revoking_rounds = False, 0
            return
        if self._revoked_before:
            self._revoking_rounds += 1
            rounds = min(self._revoking_rounds, _BACK_OFF_ROUNDS)
            self._delay_ms = min(_BACK_OFF_FACTOR**rounds, self._max_delay_ms)
            if self._delay_ms:
                self._scheduled_ms = now_ms + self._delay_ms
                return
        self._revoked_before = True
        for member, items in surplus.items():
            revoked[member].extend(items)
            gone = set(items)
            loads[member] = [item for item in loads[member] if item not in gone]


def _held(member: Subscription) -> list[Item]:
    held = member.allocation
    return [] if held is None else list(dict.fromkeys((*held.connectors, *held.tasks)))


def _connectors(items: Iterable[Item]) -> list[str]:
    return [item for item in items if isinstance(item, str)]


def _tasks(items: Iterable[Item]) -> list[TaskId]:
    return [item for item in items if isinstance(item, TaskId)]


def _increment(load: list[Item], held: list[Item], revoked: list[Item]) -> Increment:
    had = set(held)
    new = [item for item in load if item not in had]
    return Increment(tuple(_connectors(new)), tuple(_tasks(new)), tuple(_connectors(revoked)), tuple(_tasks(revoked)))


def _surplus(configured: set[Item], loads: Mapping[str, list[Item]]) -> dict[str, list[Item]]:
    """Return each member's items beyond its share of connectors and of tasks."""
    if not configured or not any(loads.values()):
        return {}
    found: dict[str, list[Item]] = {}
    for kind in (_connectors, _tasks):
        least, extra = divmod(len(kind(configured)), len(loads))
        for member, items in loads.items():
            mine = kind(items)
            if len(mine) <= least:
                continue
            share = least + 1 if extra > 0 else least
            extra -= 1
            if len(mine) > share:
                found.setdefault(member, []).extend(mine[: len(mine) - share])
    return found


def _spread(items: Collection[_T], kind: Callable[[Iterable[Item]], list[_T]], loads: Mapping[str, list[Item]]) -> None:
    """Give each item to a member that has least of its kind."""
    counts = {member: len(kind(load)) for member, load in loads.items()}
    order = sorted(counts, key=lambda member: (counts[member], member))
    rest = deque(sorted(items))
    while rest:
        least = counts[order[0]]
        among = next((i for i, member in enumerate(order) if counts[member] > least), len(order))
        for member in order[: min(among, len(rest))]:
            loads[member].append(rest.popleft())
            counts[member] += 1
