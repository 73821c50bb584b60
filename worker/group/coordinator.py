"""kafka-python's side of a group member: one client, one coordinator, and their callbacks.

kafka-python runs requests and heartbeats on a thread of its own and calls `CoordinatorCallbacks` there: they must
neither wait nor fail, and replace the snapshots that other threads read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from kafka.errors import KafkaError
from kafka.metrics import Metrics
from kafka.structs import MemberState

from headrace.plugins.interop.kafka.kafka_python_internals import GroupClient, GroupCoordinator
from headrace.worker.group.session import Timing

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "sessioned"
"""The only protocol offered: changing protocols while tasks run makes some run twice, in Java too."""

_CONNECT_MS: Final = 5_000
_STOP_MS: Final = 1_000
_METRICS: Final = "connect"


class JoinInterrupted(Exception):
    """The member broke off a join because it has to do something else first."""


class CoordinatorAway(Exception):
    """No coordinator was found, or it did not answer, for a heartbeat interval."""


class CoordinatorCallbacks(Protocol):
    """The member's part in the protocol; called on kafka-python's thread."""

    def subscription(self) -> bytes:
        """Return the subscription to join with. Errors: JoinInterrupted to end the attempt."""

    def assignments(self, leader: str, generation: int, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return an assignment for every member; called if this member leads."""

    def joined(self, generation: int, member_id: str, assignment: bytes) -> None:
        """Called when the member has joined this generation."""

    def proved(self, at: float) -> None:
        """Called when the broker counted it as a member at `at` (`time.monotonic`) or later."""

    def expelled(self, why: str) -> None:
        """Called when the broker does not know the member, or no longer."""

    def wake(self) -> None:
        """Called when the member must check if it has to join again."""


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
        # Without a limit, a join would wait for a broker for ever while this worker runs what others took over.
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


class GroupConnection:
    """A Kafka client for one group; `close()` ends its thread and frees its sockets."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        group_id: str,
        timing: Timing,
        callbacks: CoordinatorCallbacks,
        member_id: str = "",
        timeout_ms: int = _CONNECT_MS,
    ) -> None:
        """Connect to a broker; `member_id` is this worker's former id in the group, if any.

        Errors: KafkaError if no broker answers in time, or none lets this worker in.
        """
        self._closed = False
        self._metrics = Metrics()
        self._client = GroupClient(**settings, metrics=self._metrics, metric_group_prefix=_METRICS)
        try:
            version = self._client.connect(timeout_ms)
            config = {key: settings[key] for key in ("request_timeout_ms", "retry_backoff_ms") if key in settings}
            self.coordinator = Coordinator(self._client, group_id, timing, callbacks, api_version=version, **config)
        except BaseException:
            self._client.end(_STOP_MS)
            raise
        # A new member would have to wait until the old id's session has ended.
        self.coordinator.come_back_as(member_id)

    def traffic(self) -> Mapping[str, float]:
        """Return the client's connections, and its rates of requests and bytes, by kafka-python's names."""
        found = dict(self._metrics.metrics)
        return {name.name: one.value() for name, one in found.items() if name.group == f"{_METRICS}-metrics"}

    def close(self) -> None:
        """Close the client; calls waiting on it fail, and the group's thread then closes it again."""
        if self._closed:
            return
        self._closed = True
        self.coordinator.end_heartbeats()
        self._client.end(_STOP_MS)


class _Nobody:
    """Callbacks of a client that joins no group."""

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
    """Remove the member from the group; if that does not succeed in time, its session expires.

    Uses a client of its own: on the member's connection the request would wait for a join, up to a minute.
    """
    until = time.monotonic() + timeout_s
    try:
        connection = GroupConnection(settings, group_id, timing, _Nobody(), member_id, max(1, int(timeout_s * 1000)))
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
