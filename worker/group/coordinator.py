"""kafka-python's side of a group's member: one client, one coordinator, and what they call back.

kafka-python runs its requests and heartbeats on a thread of its own. It calls `CoordinatorCallbacks` there: they must
neither wait nor fail, and swap the snapshots that others read. This module depends on kafka-python's internals, so its
version is pinned.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, cast

from kafka.coordinator.base import BaseCoordinator, Generation
from kafka.errors import KafkaError, RebalanceInProgressError
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer import DEFAULT_GENERATION_ID, UNKNOWN_MEMBER_ID
from kafka.structs import MemberState

from headrace.worker.group.session import Timing

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "sessioned"
"""The only one offered: going to or from another while tasks run leaves some of them running twice, in Java too."""

_CONNECT_MS: Final = 5_000
_STOP_MS: Final = 1_000


class JoinInterrupted(Exception):
    """A join was given up because the member has something else to do first."""


class CoordinatorAway(Exception):
    """No broker said for a heartbeat interval which of them coordinates the group, or that one does not answer."""


class CoordinatorCallbacks(Protocol):
    """Who joins; called on kafka-python's thread."""

    def subscription(self) -> bytes:
        """What to say on joining.  Errors: JoinInterrupted ends the attempt."""

    def assignments(self, leader: str, generation: int, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """This member leads: what each is to be told; every member must be among them."""

    def joined(self, generation: int, member_id: str, assignment: bytes) -> None:
        """The member is part of this generation."""

    def proved(self, at: float) -> None:
        """At this moment (`time.monotonic`), or later, the broker counted it as a member."""

    def expelled(self, why: str) -> None:
        """The broker does not know it any more; called also where it never did."""

    def wake(self) -> None:
        """It is to look whether it must join again."""


class Coordinator(BaseCoordinator):  # type: ignore[misc]  # kafka-python has no types
    """The group as one member sees it."""

    def __init__(
        self, client: KafkaNetClient, group_id: str, timing: Timing, seat: CoordinatorCallbacks, **config: Any
    ) -> None:
        self._seat = seat
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

    @property
    def member_id(self) -> str:
        """What the broker calls the member; empty while it has not."""
        return cast(str, self._generation.member_id)

    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return [(PROTOCOL, self._seat.subscription())]

    def _perform_assignment(self, leader_id: str, protocol: str, members: Sequence[Any]) -> Mapping[str, bytes]:
        subscriptions = {member.member_id: bytes(member.metadata) for member in members}
        return self._seat.assignments(leader_id, self._generation.generation_id, subscriptions)

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        self._seat.joined(generation, member_id, bytes(member_assignment_bytes))

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

    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        super().reset_generation(member_id)
        self._seat.expelled(self._leaving or "the group went on without this worker, which it had not heard in time")
        self._seat.wake()

    def request_rejoin(self) -> None:
        super().request_rejoin()
        self._seat.wake()

    def _process_sync_group_response(self, response: Any, send_time: float) -> Any:
        assignment = super()._process_sync_group_response(response, send_time)
        self._seat.proved(send_time)
        return assignment

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        try:
            super()._handle_heartbeat_response(response, send_time)
        except RebalanceInProgressError:
            self._seat.proved(send_time)
            raise
        self._seat.proved(send_time)


class Connection:
    """A client of Kafka's own for a group; `close()` ends its thread and frees its sockets."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        group_id: str,
        timing: Timing,
        seat: CoordinatorCallbacks,
        member_id: str = "",
        timeout_ms: int = _CONNECT_MS,
    ) -> None:
        """Connected to some broker; `member_id` is what the group called this worker before, if it was in it.

        Errors: KafkaError where none answered in time, or none lets this worker in.
        """
        self._closed = False
        self._client = KafkaNetClient(**settings)
        self._client._net.start()
        try:
            self._client._manager.bootstrap(timeout_ms)
            config = {key: settings[key] for key in ("request_timeout_ms", "retry_backoff_ms") if key in settings}
            version = self._client._manager.broker_version
            self.coordinator = Coordinator(self._client, group_id, timing, seat, api_version=version, **config)
        except BaseException:
            self._stop()
            raise
        # As a new member it would have to wait until the old one's session has ended.
        self.coordinator._generation = Generation(DEFAULT_GENERATION_ID, member_id, None)

    def close(self) -> None:
        """Whoever waits for this client has been told that it is gone; the group's thread closes it once more then."""
        if self._closed:
            return
        self._closed = True
        self.coordinator._close_heartbeat()
        self._stop()

    def _stop(self) -> None:
        self._client._manager.close()
        self._client._net.stop(_STOP_MS)
        self._client._net.close()


class _Nobody:
    """The seat of a client that joins nothing."""

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
    """The member is out of the group, if that could be said in time; if not, its session will end.

    A client of its own says it: on the member's connection it would wait behind a join, which may take a minute.
    """
    until = time.monotonic() + timeout_s
    try:
        connection = Connection(settings, group_id, timing, _Nobody(), member_id, max(1, int(timeout_s * 1000)))
    except KafkaError as error:
        log.warning("The group %s could not be told that this worker leaves: %s", group_id, error)
        return
    try:
        coordinator = connection.coordinator
        coordinator.state = MemberState.STABLE
        if coordinator.ensure_coordinator_ready(timeout_ms=max(1.0, (until - time.monotonic()) * 1000)):
            left_ms = max(1.0, (until - time.monotonic()) * 1000)
            coordinator.maybe_leave_group("the worker stops", timeout_ms=left_ms)
    except KafkaError as error:
        log.warning("The group %s could not be told that this worker leaves: %s", group_id, error)
    finally:
        connection.close()
