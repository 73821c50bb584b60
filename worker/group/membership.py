"""A worker's membership in its cluster's group.

    membership = Membership(kafka_python(clients.group_member(config, url)), "my-group", url, topic.snapshot, ...)
    membership.start(herder.heard)           # Assigned and Lost, on the group's thread: it must only queue them
    membership.acknowledge(allocation)       # after each event, once it has been handled
    membership.ticked()                      # every second or so, while decisions are taken
    membership.leave(5)

One thread joins and waits; kafka-python's own thread heartbeats, whatever the herder does. Two rules keep connectors
and tasks from running twice:

- The worker joins again only after the herder has acknowledged the last event. So a revoked task has ended before
  another worker gets it.
- A worker that may have been expelled gets `Lost`, and is no longer `is_current()`, which a task checks before each
  batch. It is current again once the herder has acknowledged its next assignment.

The next subscription claims what the herder acknowledged. After `Lost` the herder may claim work that it has stopped:
work that no other worker took comes back without a delay; work that another took is revoked from both and assigned
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
from headrace.plugins.interop.kafka.tokens import kafka_python
from headrace.worker.group import coordinator as group_coordinator
from headrace.worker.group.assignor import Item
from headrace.worker.group.coordinator import CoordinatorAway, GroupConnection, JoinInterrupted
from headrace.worker.group.leading import ClusterView, LeaderAssignment
from headrace.worker.group.protocol import SESSIONED, Assignment, Subscription
from headrace.worker.group.session import GroupPlace, MemberSession, Timing
from headrace.worker.machine.vital_threads import VitalThread

log = logging.getLogger(__name__)

_AGAIN_S: Final = 1.0
"""Pause after a failure that an immediate retry would not mend."""
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
    """The worker may no longer be a member: all its work must stop."""

    why: str


Event = Assigned | Lost


class Membership:
    """One worker in its group; any thread may call any method."""

    def __init__(
        self,
        client: Mapping[str, Any],
        group_id: str,
        url: str,
        cluster: Callable[[], ClusterView],
        timing: Timing,
        max_delay_ms: int,
    ) -> None:
        """`client`: kafka-python's settings; `cluster` must not block."""
        self.trouble: str | None = None
        """The reason that the group cannot be joined; None if it can."""
        self._client, self._group_id, self._url, self._timing = dict(client), group_id, url, timing
        self._leader_assignment = LeaderAssignment(url, cluster, max_delay_ms)
        self._changed = threading.Condition()
        self._connection: GroupConnection | None = None
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
        """Create the membership from a worker's settings; other workers reach this one at `url`.

        Errors: ConfigError for a login that the group's client cannot make.
        """
        timing = Timing(config["session.timeout.ms"], config["heartbeat.interval.ms"], config["rebalance.timeout.ms"])
        client = kafka_python(clients.group_member(config, url))
        return cls(client, config["group.id"], url, cluster, timing, config["scheduled.rebalance.max.delay.ms"])

    # For other threads.

    @property
    def generation(self) -> int:
        """The group's generation; -1 if this worker is no member."""
        return self._session.place.generation

    @property
    def member_id(self) -> str:
        """This worker's id in the group; empty if it is no member."""
        return self._session.place.member_id

    @property
    def is_leader(self) -> bool:
        """True if this worker leads the group and assigns its work."""
        return self._session.place.leads

    @property
    def leader_url(self) -> str | None:
        """The leader's URL; None if unknown."""
        return self._session.place.assignment.leader_url or None

    @property
    def protocol_version(self) -> int:
        """Version of the current assignment; from 2 on internal requests are signed."""
        return self._session.place.assignment.version

    def traffic(self) -> Mapping[str, float]:
        """Return the figures of the client that speaks to the group, by kafka-python's names; none without one."""
        connection = self._connection
        return {} if connection is None else connection.traffic()

    def owner_of(self, item: Item) -> str | None:
        """Return the URL of the worker that runs a connector or task; None unless this worker leads."""
        return self._session.place.owners.get(item)

    def is_current(self) -> bool:
        """True if this worker may start work: the broker cannot have given it to others."""
        return self._session.is_current()

    # For the herder.

    def start(self, on_event: Callable[[Event], None]) -> None:
        """Begin to join the group; `on_event` is called on the group's thread and must only queue the event."""
        self._on_event = on_event
        self._thread.start()

    def ticked(self) -> None:
        """Note that the herder is alive; without this call the worker leaves the group after `rebalance.timeout.ms`."""
        self._ticked = True

    def acknowledge(self, allocation: Assignment | None) -> None:
        """Note that the herder has handled one event and now holds `allocation`; the next join may follow."""
        with self._changed:
            self._allocation = allocation
            self._session.handled()
            self._changed.notify_all()

    def rejoin(self) -> None:
        """Join the group again, with a subscription made after this call.

        The join rebalances if this worker leads or its subscription changed; otherwise the broker repeats its last
        assignment.
        """
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def back_off(self, seconds: float) -> None:
        """Delay the next join by `seconds`."""
        with self._changed:
            self._not_before = time.monotonic() + seconds

    def leave(self, timeout_s: float) -> None:
        """Leave the group and end its thread; the broker is told if it answers in time."""
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
            # A first join under way may have brought another id.
            self._end(max(0.1, until - time.monotonic()))
        self._end(_AGAIN_S)
        with self._changed:
            self._session.left()

    def _end(self, timeout_s: float) -> None:
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

    def _connected(self) -> GroupConnection:
        if self._connection is None:
            connection = GroupConnection(self._client, self._group_id, self._timing, self, self._last_id)
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
        """Give up a lost membership, and keep heartbeats going while the herder is alive.

        Errors: JoinInterrupted if the membership or the connection was given up.
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
        """Return the subscription to join with. Errors: JoinInterrupted."""
        with self._changed:
            if self._stopping or self._session.is_expelled:
                raise JoinInterrupted
            self._wanted = False
            held = self._allocation
        allocation = None if held is None else replace(held.holding(held.connectors, held.tasks), version=SESSIONED)
        return Subscription(self._url, self._leader_assignment.look(), allocation).encode()

    def assignments(self, leader: str, generation: int, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return an assignment for every member; called if this member leads."""
        told = self._leader_assignment.assignments(leader, self._completed, generation, subscriptions)
        if self._leader_assignment.failed:
            self.back_off(_AGAIN_S)
        return told

    def joined(self, generation: int, member_id: str, assignment: bytes) -> None:
        """Note that this worker has joined a generation."""
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
                # The join led to no rebalance; this assignment would make the worker join again at once, without end.
                self._not_before = time.monotonic() + _REPEAT_S
            owners = self._leader_assignment.owners if given.leader == member_id else {}
            place = GroupPlace(generation, member_id, given, owners)
            self._session.joined(place)
            self._news = Assigned(generation, member_id, given, place.leads)
            self._completed = generation
        log.info("Joined group %s at generation %d as %s", self._group_id, generation, member_id)

    def proved(self, at: float) -> None:
        """Note that the broker counted this worker as a member at `at` or later."""
        self._session.proved(at)

    def expelled(self, why: str) -> None:
        """Note that the broker no longer knows this worker."""
        with self._changed:
            self._session.expelled(why)

    def wake(self) -> None:
        """Wake the group's thread."""
        with self._changed:
            self._changed.notify_all()
