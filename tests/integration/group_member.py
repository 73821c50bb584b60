"""A worker that only takes part in its group: it holds what it is given, and says when two hold the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from headrace.worker.group.assignor import Item
from headrace.worker.group.leading import ClusterView
from headrace.worker.group.membership import Assigned, Event, Lost, Membership
from headrace.worker.group.protocol import Assignment
from headrace.worker.group.session import Timing
from headrace.worker.model import TaskId

FAST = Timing(session_ms=6_000, heartbeat_ms=500, rebalance_ms=20_000)


@dataclass(frozen=True)
class View:
    """A cluster's configuration at an offset: the number of tasks of each connector."""

    offset: int = 0
    connectors: Mapping[str, int] = field(default_factory=dict)

    def tasks(self, connector: str) -> list[TaskId]:
        return [TaskId(connector, i) for i in range(self.connectors[connector])]

    @property
    def items(self) -> set[Item]:
        return {*self.connectors, *(task for name in self.connectors for task in self.tasks(name))}


class Config:
    """The connectors that all members read at once, as if from the config topic."""

    def __init__(self, **connectors: int) -> None:
        self.view = View(1, connectors)

    def set(self, **connectors: int) -> None:
        self.view = View(self.view.offset + 1, connectors)


class Ledger:
    """The holder of each item, over all members of a test."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[Item, str] = {}
        self.twice: list[str] = []

    def take(self, who: str, items: set[Item]) -> None:
        with self._lock:
            others = {item: self._holders[item] for item in items if self._holders.get(item, who) != who}
            self.twice += [f"{item}: {other}, {who}" for item, other in others.items()]
            self._holders |= dict.fromkeys(items, who)

    def give(self, who: str, items: set[Item]) -> None:
        with self._lock:
            self._holders = {
                item: holder for item, holder in self._holders.items() if item not in items or holder != who
            }

    def held(self) -> dict[Item, str]:
        with self._lock:
            return dict(self._holders)


class GroupMember:
    """Follows what the group says as a herder does; `stop_s` is how long it takes to stop what is revoked."""

    def __init__(
        self,
        name: str,
        client: Mapping[str, object],
        group: str,
        view: Callable[[], ClusterView],
        ledger: Ledger,
        max_delay_ms: int = 3_000,
        timing: Timing = FAST,
        url: str = "",
    ) -> None:
        self.name, self.view, self.ledger = name, view, ledger
        self.stop_s = 0.0
        self.held: set[Item] = set()
        self.events: list[Event] = []
        self.rounds = 0
        self._offset = -1
        self._due: float | None = None
        self._queue: SimpleQueue[Event] = SimpleQueue()
        self._ending = threading.Event()
        self.frozen = threading.Event()
        """While set, it makes no decision."""
        self.membership = Membership(client, group, url or f"http://{name}/", view, timing, max_delay_ms)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> GroupMember:
        self.membership.start(self._queue.put)
        self._thread.start()
        return self

    def leave(self, timeout_s: float = 30) -> None:
        """It stops its work and leaves."""
        self._ending.set()
        self._thread.join(60)
        self._drop(set(self.held))
        self.membership.leave(timeout_s)

    def _run(self) -> None:
        while not self._ending.is_set():
            if self.frozen.is_set():
                time.sleep(0.05)
                continue
            self.membership.ticked()
            try:
                event = self._queue.get(timeout=0.05)
            except Empty:
                self._follow()
                continue
            self.events.append(event)
            if isinstance(event, Lost):
                self._drop(set(self.held))
                self.membership.acknowledge(None)
            else:
                self._assigned(event)

    def _follow(self) -> None:
        """A change of the configuration, or a scheduled round, makes it join again."""
        if self.view().offset > self._offset >= 0 or (self._due is not None and time.monotonic() >= self._due):
            self._offset, self._due = self.view().offset, None
            self.membership.rejoin()

    def _assigned(self, event: Assigned) -> None:
        said, self.rounds = event.assignment, self.rounds + 1
        revoked = {*said.revoked_connectors, *said.revoked_tasks}
        self._drop(revoked & self.held)
        new = {*said.connectors, *said.tasks}
        self.ledger.take(self.name, new)
        self.held |= new
        self._offset = self.view().offset
        self._due = time.monotonic() + said.delay_ms / 1000 if said.delay_ms else None
        if revoked or said.error or said.offset != self._offset:
            self.membership.rejoin()
        self.membership.acknowledge(self._allocation(said))

    def _drop(self, items: set[Item]) -> None:
        if items and self.stop_s:
            time.sleep(self.stop_s)
        self.ledger.give(self.name, items)
        self.held -= items

    def _allocation(self, said: Assignment) -> Assignment:
        connectors = sorted(item for item in self.held if isinstance(item, str))
        return said.holding(connectors, sorted(item for item in self.held if isinstance(item, TaskId)))
