"""A worker's membership in its cluster's group.

    membership = Membership(kafka_python(clients.group_member(config, url)), "my-group", url, topic.snapshot, ...)
    membership.start(herder.heard)           # Assigned and Lost, on the group's thread: it must only queue them
    membership.acknowledge(allocation)       # after each event, once it has been handled
    membership.ticked()                      # every second or so, while decisions are taken
    membership.leave(5)

One thread joins and waits; kafka-python's own thread heartbeats, whatever the herder does. Two rules keep connectors
and tasks from running twice:

- The worker joins again only after the herder has acknowledged the last event. A task that was revoked here has thus
  ended before another worker gets it.
- A worker that may have been expelled gets `Lost`, and is no longer `is_current()`, which a task checks before each
  batch. It is current again once the herder has acknowledged its next assignment.

The next subscription claims what the herder acknowledged. After `Lost` the herder may claim again what it has stopped:
what no other worker took meanwhile comes back without a delay; what another took is revoked from both and assigned
anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from kafka.errors import GroupAuthorizationFailedError, InconsistentGroupProtocolError, KafkaError

from headrace.config.connector import clients
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.kafka.tokens import kafka_python
from headrace.worker.group import coordinator as group_coordinator
from headrace.worker.group.assignor import Item
from headrace.worker.group.coordinator import Connection, CoordinatorAway, JoinInterrupted
from headrace.worker.group.leading import ClusterView, LeaderAssignment
from headrace.worker.group.protocol import SESSIONED, Assignment, Subscription
from headrace.worker.group.session import GroupPlace, MemberSession, Timing
from headrace.worker.vital_threads import VitalThread

log = logging.getLogger(__name__)

_AGAIN_S: Final = 1.0
"""The pause after a failure that an immediate retry would not mend."""
_REPEAT_S: Final = 0.25
_TICK_S: Final = 1.0


@dataclass(frozen=True)
class Assigned:
    """The group assigns work to this member and revokes some."""

    generation: int
    member_id: str
    assignment: Assignment
    is_leader: bool


@dataclass(frozen=True)
class Lost:
    """The worker may not count as a member any more: all its work must stop."""

    why: str


Event = Assigned | Lost


class Membership:
    """One worker in its group; every method may be called from any thread."""

    def __init__(
        self,
        client: Mapping[str, Any],
        group_id: str,
        url: str,
        cluster: Callable[[], ClusterView],
        timing: Timing,
        max_delay_ms: int,
    ) -> None:
        """`client` are kafka-python's settings; `cluster` must not wait."""
        self.trouble: str | None = None
        """Why the group cannot be joined; None while nothing is wrong."""
        self._client, self._group_id, self._url, self._timing = dict(client), group_id, url, timing
        self._leader_assignment = LeaderAssignment(url, cluster, max_delay_ms)
        self._changed = threading.Condition()
        self._connection: Connection | None = None
        self._last_id = ""
        self._stopping = False
        self._wanted = True
        self._ticked = True
        self._not_before = 0.0
        self._allocation: Assignment | None = None
        self._news: Assigned | None = None
        self._completed = -1
        self._session = MemberSession(timing)
        self._on_event: Callable[[Event], None] | None = None
        self._thread = VitalThread(target=copy_context().run, args=(self._run,), name=f"group-{group_id}")

    @classmethod
    def of(cls, config: WorkerConfig, url: str, cluster: Callable[[], ClusterView]) -> Self:
        """The membership that a worker's settings ask for; `url` is where others reach it.

        Errors: ConfigError for a login that the group's client cannot make.
        """
        timing = Timing(config["session.timeout.ms"], config["heartbeat.interval.ms"], config["rebalance.timeout.ms"])
        client = kafka_python(clients.group_member(config, url))
        return cls(client, config["group.id"], url, cluster, timing, config["scheduled.rebalance.max.delay.ms"])

    # For other threads.

    @property
    def generation(self) -> int:
        """The group's generation; -1 while this worker is no member."""
        return self._session.place.generation

    @property
    def member_id(self) -> str:
        """This worker's id in the group; empty while it is no member."""
        return self._session.place.member_id

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads the group, and assigns its work."""
        return self._session.place.leads

    @property
    def leader_url(self) -> str | None:
        """The leader's url; None while it is not known."""
        return self._session.place.assignment.leader_url or None

    @property
    def protocol_version(self) -> int:
        """The version of the assignment in force; from 2 on internal requests are signed."""
        return self._session.place.assignment.version

    def owner_of(self, item: Item) -> str | None:
        """The url of the worker that runs a connector or a task; only the leader knows."""
        return self._session.place.owners.get(item)

    def is_current(self) -> bool:
        """Whether this worker may start anything: the broker has certainly not given its work to others."""
        return self._session.is_current()

    # For the herder.

    def start(self, on_event: Callable[[Event], None]) -> None:
        """Begin to join the group; `on_event` is called on the group's thread and must only queue the event."""
        self._on_event = on_event
        self._thread.start()

    def ticked(self) -> None:
        """Note that the herder takes decisions; without it the worker leaves the group after `rebalance.timeout.ms`."""
        self._ticked = True

    def acknowledge(self, allocation: Assignment | None) -> None:
        """Note that the herder has handled one event and what it now holds; the next join may follow."""
        with self._changed:
            self._allocation = allocation
            self._session.handled()
            self._changed.notify_all()

    def rejoin(self) -> None:
        """Join the group again, with a subscription made after this call.

        That leads to a rebalance where this worker leads or its subscription changed; otherwise the broker repeats its
        last assignment.
        """
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def back_off(self, seconds: float) -> None:
        """Do not join the group for so long."""
        with self._changed:
            self._not_before = time.monotonic() + seconds

    def leave(self, timeout_s: float) -> None:
        """Leave the group and end its thread; the broker is notified where that succeeds in time."""
        until = time.monotonic() + timeout_s
        connection = self._connection
        reachable = connection is not None and not connection.coordinator.coordinator_unknown()
        with self._changed:
            self._stopping = True
            self._session.left()
            self._changed.notify_all()
        told = ""
        while connection is not None and reachable and connection.coordinator.member_id not in ("", told):
            told = connection.coordinator.member_id
            left_s = max(0.1, until - time.monotonic())
            group_coordinator.leave(self._client, self._group_id, self._timing, told, left_s)
            # A first join that was under way may have brought another id.
            self._end(max(0.1, until - time.monotonic()))
        self._end(_AGAIN_S)
        with self._changed:
            self._session.left()

    def _end(self, timeout_s: float) -> None:
        """End the group's thread, if need be by closing its connection."""
        if not self._thread.is_alive():
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive() and (connection := self._connection) is not None:
            connection.close()
            self._thread.join(_AGAIN_S)

    # The group's thread.

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._step()
            except JoinInterrupted:
                continue
            except CoordinatorAway as error:
                self._lose(str(error))
            except InconsistentGroupProtocolError:
                self._trouble(
                    f"The group {self._group_id} does not speak Connect's protocol 'sessioned': set "
                    "connect.protocol=sessioned on every worker, and see that no consumer has this group.id"
                )
            except GroupAuthorizationFailedError:
                self._trouble(
                    f"The group {self._group_id} cannot be joined: grant this worker's user the ACL Read on Group "
                    f"'{self._group_id}'"
                )
            except KafkaError as error:
                self._trouble(f"The group {self._group_id} cannot be joined: {error}")
            except Exception as error:
                log.exception("Unexpected error in the group %s", self._group_id)
                self._trouble(f"The group {self._group_id} cannot be joined: {error!r}")
        self._disconnect()

    def _step(self) -> None:
        """One look at the group: a join where one is due, otherwise a short wait."""
        coordinator = self._connected().coordinator
        self._watch(coordinator)
        with self._changed:
            now = time.monotonic()
            due = self._session.settled and (self._wanted or coordinator.need_rejoin())
            if self._stopping or not due or now < self._not_before:
                pause = self._not_before - now if due and now < self._not_before else _TICK_S
                self._changed.wait(min(pause, _TICK_S))
                return
        coordinator.rejoin_needed = True
        coordinator.ensure_active_group()
        news, self._news = self._news, None
        if news is not None:
            self.trouble = None
            self._tell(news)

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = Connection(self._client, self._group_id, self._timing, self, self._last_id)
            with self._changed:
                self._connection, self._wanted = connection, True
                self._session.coordinator(known=True)  # it is looked up anew
        assert self._connection is not None
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._last_id = self._connection.coordinator.member_id
            self._connection.close()
            self._connection = None

    def _watch(self, coordinator: group_coordinator.Coordinator) -> None:
        """Give up a membership that must count as lost, and let heartbeats go on while the herder decides.

        Errors: JoinInterrupted where something was lost.
        """
        if self._ticked:
            self._ticked = False
            coordinator.poll_heartbeat()
        known = not coordinator.coordinator_unknown()
        with self._changed:
            away_s = self._session.coordinator(known)
            why = self._session.reason_to_leave()
        if away_s >= self._timing.session_ms / 1000:
            # A new client asks bootstrap.servers again: the brokers may have moved.
            self._disconnect()
        if why is not None:
            self._lose(why)
        elif self._connection is not None:
            return
        raise JoinInterrupted

    def _lose(self, why: str) -> None:
        with self._changed:
            self._wanted = True
            was_member = self._session.lost()
        if was_member:
            log.warning("This worker is no member of the group %s any more: %s", self._group_id, why)
            self._tell(Lost(why))

    def _trouble(self, text: str) -> None:
        if self._stopping:
            return
        if text != self.trouble:
            log.error("%s; trying again", text)
        self.trouble = text
        self._disconnect()
        self._lose(text)
        with self._changed:
            self._changed.wait(0 if self._stopping else _AGAIN_S)

    def _tell(self, event: Event) -> None:
        assert self._on_event is not None  # this thread runs only after `start`
        try:
            self._on_event(event)
        except Exception:
            log.exception("The event %s could not be handed over", event)

    # Called on kafka-python's thread, as `group_coordinator.CoordinatorCallbacks` says.

    def subscription(self) -> bytes:
        """The subscription to join with."""
        with self._changed:
            if self._stopping or self._session.is_expelled:
                raise JoinInterrupted
            self._wanted = False
            held = self._allocation
        allocation = None if held is None else replace(held.holding(held.connectors, held.tasks), version=SESSIONED)
        return Subscription(self._url, self._leader_assignment.look(), allocation).encode()

    def assignments(self, leader: str, generation: int, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The assignment of each member, as this member leads."""
        told = self._leader_assignment.assignments(leader, self._completed, generation, subscriptions)
        if self._leader_assignment.failed:
            self.back_off(_AGAIN_S)
        return told

    def joined(self, generation: int, member_id: str, assignment: bytes) -> None:
        """Note that the member is part of this generation."""
        try:
            given = Assignment.decode(assignment)
        except ValueError as error:
            log.error("The leader of group %s sent no assignment (%s): joining again", self._group_id, error)
            with self._changed:
                self._wanted = True
                self._not_before = time.monotonic() + _AGAIN_S
            return
        with self._changed:
            if generation == self._completed:
                # The join led to no rebalance; joining again at once because of this assignment would never end.
                self._not_before = time.monotonic() + _REPEAT_S
            owners = self._leader_assignment.owners if given.leader == member_id else {}
            place = GroupPlace(generation, member_id, given, owners)
            self._session.joined(place)
            self._news = Assigned(generation, member_id, given, place.leads)
            self._completed = generation

    def proved(self, at: float) -> None:
        """Note that the broker counted this worker as a member at this moment, or later."""
        self._session.proved(at)

    def expelled(self, why: str) -> None:
        """Note that the broker does not know this worker any more."""
        with self._changed:
            self._session.expelled(why)

    def wake(self) -> None:
        """Wake the group's thread."""
        with self._changed:
            self._changed.notify_all()
