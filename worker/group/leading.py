"""What the leader of a group does in a round: it reads what each member says and tells each what to run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Protocol

from headrace.worker.group.assignor import Assignor, Item
from headrace.worker.group.protocol import CONFIG_MISMATCH, SESSIONED, Assignment, Subscription
from headrace.worker.model import TaskId

log = logging.getLogger(__name__)


class ClusterView(Protocol):
    """The configuration of the cluster as far as this worker has read it; it never changes."""

    @property
    def offset(self) -> int: ...

    @property
    def connectors(self) -> Collection[str]: ...

    def tasks(self, connector: str, /) -> Collection[TaskId]: ...


class LeaderAssignment:
    """Assigns for a group whenever the broker makes this worker its leader; called on kafka-python's thread."""

    def __init__(self, url: str, cluster: Callable[[], ClusterView], max_delay_ms: int) -> None:
        """`url` is this worker's; `cluster` must not wait."""
        self.failed = False
        """Whether the last round could not be assigned for a reason that may stay."""
        self.owners: Mapping[Item, str] = {}
        """Of the last round: the url of the worker that has each connector and task."""
        self._url = url
        self._cluster = cluster
        self._view: ClusterView | None = None
        self._assignor = Assignor(max_delay_ms)

    def look(self) -> int:
        """The offset of the cluster's configuration, from which a round is assigned that begins now."""
        self._view = self._cluster()
        return self._view.offset

    def assignments(
        self, leader: str, last_generation: int, generation: int, subscriptions: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        """What each member is told, every one of them: a Java worker that is told nothing ends with an error.

        Where it fails, all are told that the assignment is void, and come again.
        """
        self.owners, self.failed = {}, False
        void = Assignment(SESSIONED, CONFIG_MISMATCH, leader, self._url)
        try:
            members = {member: Subscription.decode(data) for member, data in subscriptions.items()}
            void = replace(void, offset=max(member.offset for member in members.values()))
            view = self._view_at(void.offset)
            if view is None:
                return dict.fromkeys(subscriptions, void.encode())
            return self._assign(leader, last_generation, generation, members, view)
        except Exception:
            log.exception("Work could not be assigned in generation %d; all workers join again", generation)
            self.failed = True
            return dict.fromkeys(subscriptions, void.encode())

    def _view_at(self, offset: int) -> ClusterView | None:
        """The configuration, if it is read so far: nothing may wait here, as no heartbeat is sent meanwhile."""
        if self._view is None or self._view.offset < offset:
            self._view = self._cluster()
        if self._view.offset >= offset:
            return self._view
        log.info("The configuration is read to %d here and to %d elsewhere: all join again", self._view.offset, offset)
        return None

    def _assign(
        self,
        leader: str,
        last_generation: int,
        generation: int,
        members: Mapping[str, Subscription],
        view: ClusterView,
    ) -> Mapping[str, bytes]:
        outcome = self._assignor.assign(
            members,
            view.connectors,
            [task for connector in view.connectors for task in view.tasks(connector)],
            last_generation=last_generation,
            generation=generation,
            now_ms=int(time.monotonic() * 1000),
        )
        base = Assignment(SESSIONED, 0, leader, self._url, view.offset, delay_ms=outcome.delay_ms)
        told = {member: replace(base, **outcome.increments[member]._asdict()).encode() for member in members}
        self.owners = outcome.owners
        return told
