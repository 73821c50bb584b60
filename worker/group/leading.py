"""The leader's part in a rebalance: reads each member's subscription and assigns work to each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Protocol

from headrace.worker.group.assignor import Assignor, Item
from headrace.worker.group.protocol import CONFIG_MISMATCH, SESSIONED, Assignment, Subscription, fits
from headrace.worker.model import TaskId

log = logging.getLogger(__name__)


class ClusterView(Protocol):
    """Snapshot of the cluster's configuration as far as this worker has read it."""

    @property
    def offset(self) -> int: ...

    @property
    def connectors(self) -> Collection[str]: ...

    def tasks(self, connector: str, /) -> Collection[TaskId]: ...


class LeaderAssignment:
    """Assigns a group's work when the broker makes this worker its leader; called on kafka-python's thread."""

    def __init__(self, url: str, cluster: Callable[[], ClusterView], max_delay_ms: int) -> None:
        """`url` is this worker's; `cluster` must not block."""
        self.failed = False
        """True if the last round failed for a reason that may persist."""
        self.owners: Mapping[Item, str] = {}
        """URL of the worker that has each connector and task after the last round."""
        self._url = url
        self._cluster = cluster
        self._view: ClusterView | None = None
        self._assignor = Assignor(max_delay_ms)
        self._left_out: set[str] = set()

    def look(self) -> int:
        """Take the snapshot for a round that begins now; returns its offset."""
        self._view = self._cluster()
        return self._view.offset

    def assignments(
        self, leader: str, last_generation: int, generation: int, subscriptions: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        """Return an assignment for every member, because a Java worker without one ends with an error.

        After a failure all get an assignment that says so, and join again.
        """
        self.owners, self.failed = {}, False
        failed = Assignment(SESSIONED, CONFIG_MISMATCH, leader, self._url)
        try:
            members = {member: Subscription.decode(data) for member, data in subscriptions.items()}
            failed = replace(failed, offset=max(member.offset for member in members.values()))
            view = self._view_at(failed.offset)
            if view is None:
                return dict.fromkeys(subscriptions, failed.encode())
            return self._assign(leader, last_generation, generation, members, view)
        except Exception:
            log.exception("Work could not be assigned in generation %d; all workers join again", generation)
            self.failed = True
            return dict.fromkeys(subscriptions, failed.encode())

    def _view_at(self, offset: int) -> ClusterView | None:
        """Return the configuration if it is read up to `offset`; must not wait: no heartbeat is sent meanwhile."""
        if self._view is None or self._view.offset < offset:
            self._view = self._cluster()
        if self._view.offset >= offset:
            return self._view
        log.info("The configuration is read to %d here and to %d elsewhere: all join again", self._view.offset, offset)
        return None

    def _assignable(self, connectors: Collection[str]) -> list[str]:
        """Return the connectors whose names fit into an assignment; one that does not fit must not stop the others."""
        left_out = {name for name in connectors if not fits(name)}
        for name in left_out - self._left_out:
            log.error(
                "The connector %s… runs nowhere: its name of %d characters does not fit into the group protocol. "
                "Delete it (DELETE /connectors/ and its name), and create it under a shorter name",
                ascii(name[:80]),
                len(name),
            )
        self._left_out = left_out
        return [name for name in connectors if name not in left_out]

    def _assign(
        self,
        leader: str,
        last_generation: int,
        generation: int,
        members: Mapping[str, Subscription],
        view: ClusterView,
    ) -> Mapping[str, bytes]:
        connectors = self._assignable(view.connectors)
        outcome = self._assignor.assign(
            members,
            connectors,
            [task for connector in connectors for task in view.tasks(connector)],
            last_generation=last_generation,
            generation=generation,
            now_ms=int(time.monotonic() * 1000),
        )
        base = Assignment(SESSIONED, 0, leader, self._url, view.offset, delay_ms=outcome.delay_ms)
        encoded = {member: replace(base, **outcome.increments[member]._asdict()).encode() for member in members}
        self.owners = outcome.owners
        return encoded
