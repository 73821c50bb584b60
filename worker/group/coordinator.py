"""kafka-python's side of a group's member: one client, one coordinator, and their callbacks.

kafka-python runs its requests and heartbeats on a thread of its own. It calls `CoordinatorCallbacks` there: they must
neither wait nor fail, and replace the snapshots that other threads read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from kafka.errors import KafkaError
from kafka.structs import MemberState

from headrace.plugins.kafka.kafka_python_internals import GroupClient, GroupCoordinator
from headrace.worker.group.session import Timing

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "sessioned"
"""The only one offered: going to or from another while tasks run leaves some of them running twice, in Java too."""

_CONNECT_MS: Final = 5_000
_STOP_MS: Final = 1_000


class JoinInterrupted(Exception):
    """The member gave up a join because it has something else to do first."""


class CoordinatorAway(Exception):
    """For a heartbeat interval no broker named the group's coordinator, or the coordinator does not answer."""


class CoordinatorCallbacks(Protocol):
    """The member's side of the protocol; called on kafka-python's thread."""

    def subscription(self) -> bytes:
        """The subscription to join with. Errors: JoinInterrupted ends the attempt."""

    def assignments(self, leader: str, generation: int, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The assignment of each member, as this member leads; every member must be among them."""

    def joined(self, generation: int, member_id: str, assignment: bytes) -> None:
        """Called when the member is part of this generation."""

    def proved(self, at: float) -> None:
        """Called when the broker counted it as a member, at this moment (`time.monotonic`) or later."""

    def expelled(self, why: str) -> None:
        """Called when the broker does not know it any more, or never did."""

    def wake(self) -> None:
        """Called when it has to look whether it must join again."""


class Coordinator(GroupCoordinator):
    """The group as one member sees it."""

    def __init__(
        self, client: GroupClient, group_id: str, timing: Timing, callbacks: CoordinatorCallbacks, **config: Any
    ) -> None:
        self._callbacks = callbacks
        self._away_ms = timing.heartbeat_ms
        self._leaving = ""
        super().__init__(
            client,
            group_id=group_id,
            session_timeout_ms=timing.session_ms,
            heartbeat_interval_ms=timing.heartbeat_ms,
            max_poll_interval_ms=timing.rebalance_ms,
            **config,
        )

    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return [(PROTOCOL, self._callbacks.subscription())]

    def assigned(self, leader: str, generation: int, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return self._callbacks.assignments(leader, generation, subscriptions)

    def joined(self, generation: int, member_id: str, assignment: bytes) -> None:
        self._callbacks.joined(generation, member_id, assignment)

    def proved(self, at: float) -> None:
        self._callbacks.proved(at)

    async def ensure_coordinator_ready_async(self, timeout_ms: float | None = None) -> bool:
        # Without a limit a join would wait for a broker for ever, and its worker would run what others have.
        limit_ms = self._away_ms if timeout_ms is None else timeout_ms
        if await super().ensure_coordinator_ready_async(limit_ms):
            return True
        if timeout_ms is not None:
            return False
        raise CoordinatorAway(f"no coordinator was found within {limit_ms} ms")

    async def maybe_leave_group_async(self, reason: str | None = None, timeout_ms: float | None = None) -> None:
        self._leaving = "the worker made no decision for longer than rebalance.timeout.ms, and left the group"
        try:
            await super().maybe_leave_group_async(reason, timeout_ms)
        finally:
            self._leaving = ""

    def reset_generation(self, member_id: str = "") -> None:
        super().reset_generation(member_id)
        self._callbacks.expelled(
            self._leaving or "the group went on without this worker, which it had not heard in time"
        )
        self._callbacks.wake()

    def request_rejoin(self) -> None:
        super().request_rejoin()
        self._callbacks.wake()


class Connection:
    """A client of Kafka's own for a group; `close()` ends its thread and frees its sockets."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        group_id: str,
        timing: Timing,
        callbacks: CoordinatorCallbacks,
        member_id: str = "",
        timeout_ms: int = _CONNECT_MS,
    ) -> None:
        """Connected to some broker; `member_id` is what the group called this worker before, if it was in it.

        Errors: KafkaError where none answered in time, or none lets this worker in.
        """
        self._closed = False
        self._client = GroupClient(**settings)
        try:
            version = self._client.connect(timeout_ms)
            config = {key: settings[key] for key in ("request_timeout_ms", "retry_backoff_ms") if key in settings}
            self.coordinator = Coordinator(self._client, group_id, timing, callbacks, api_version=version, **config)
        except BaseException:
            self._client.end(_STOP_MS)
            raise
        # As a new member it would have to wait until the old one's session has ended.
        self.coordinator.come_back_as(member_id)

    def close(self) -> None:
        """Close the client; calls that wait for it fail, and the group's thread then closes it once more."""
        if self._closed:
            return
        self._closed = True
        self.coordinator.end_heartbeats()
        self._client.end(_STOP_MS)


class _Nobody:
    """The callbacks of a client that joins nothing."""

    def subscription(self) -> bytes:
        raise JoinInterrupted

    def assignments(self, leader: str, generation: int, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return dict.fromkeys(subscriptions, b"")

    def joined(self, generation: int, member_id: str, assignment: bytes) -> None:
        pass

    def proved(self, at: float) -> None:
        pass

    def expelled(self, why: str) -> None:
        pass

    def wake(self) -> None:
        pass


def leave(settings: Mapping[str, Any], group_id: str, timing: Timing, member_id: str, timeout_s: float) -> None:
    """Take the member out of the group; where that fails in time, its session will end by itself.

    A client of its own asks for it: on the member's connection the request would wait for a join, which may take a
    minute.
    """
    until = time.monotonic() + timeout_s
    try:
        connection = Connection(settings, group_id, timing, _Nobody(), member_id, max(1, int(timeout_s * 1000)))
    except KafkaError as error:
        log.warning("The group %s could not be notified that this worker leaves: %s", group_id, error)
        return
    try:
        coordinator = connection.coordinator
        coordinator.state = MemberState.STABLE
        if coordinator.ensure_coordinator_ready(timeout_ms=max(1.0, (until - time.monotonic()) * 1000)):
            left_ms = max(1.0, (until - time.monotonic()) * 1000)
            coordinator.maybe_leave_group("the worker stops", timeout_ms=left_ms)
    except KafkaError as error:
        log.warning("The group %s could not be notified that this worker leaves: %s", group_id, error)
    finally:
        connection.close()
