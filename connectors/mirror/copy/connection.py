"""Connections to a cluster's brokers for the copying: the leaders of partitions, requests and their answers.

Everything here runs on one event loop (kafka-python's), which its owner's thread drives; see `link.py`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Set
from typing import Any, Final

from kafka import errors
from kafka.future import Future
from kafka.structs import TopicPartition as Place

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.kafka.client_failures import refused_login
from headrace.config.problems import ConfigError
from headrace.connectors.mirror.copy.transports import REFUSED_LOGINS, Connections
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.kafka_python_internals import NetworkSelector
from headrace.plugins.interop.kafka.tokens import kafka_python
from headrace.plugins.offsets import TopicPartition

_MOST_ANSWER_BYTES: Final = 1 << 30
_LOOKS: Final = 2
_METADATA_MS: Final = 4_000
"""Shorter than a stop waits for its tasks."""
_IN_FLIGHT: Final = 1_000
"""kafka-python refuses requests beyond its bound; ours are bounded by their bytes."""
_CONNECT_S: Final = 2.0
"""A connection in the making is waited for so long; then its partitions rest and the others go on."""


class ClusterConnection:
    """One cluster; `name` stands in errors."""

    def __init__(self, net: NetworkSelector, client: ClientConfig, name: str) -> None:
        self.name = name
        self.servers = str(client.java["bootstrap.servers"])
        self._login = client.login
        self._manager = Connections(net, **_manager_config(client))
        self._manager.cluster.config["allow_auto_create_topics"] = False
        self._manager.cluster.add_listener(self._updated)
        self.updates = 0
        """The count of updates of the leaders: they are the same until it grows."""
        self._is_known = False
        self._found: frozenset[str] = frozenset()
        """Topics that are known since the last update."""
        self._topics: set[str] = set()
        """All topics ever asked for: kafka-python forgets those that it is not asked for again."""
        self._connected_by = 0.0
        """Connections in the making are waited for until then."""

    def _updated(self, _: Any) -> None:
        self.updates += 1
        self._found = frozenset()

    async def know(self, topics: Set[str]) -> None:
        """Learn the leaders of these topics' partitions if they are unknown; before copying or fetching.

        Errors: RetriableError.
        """
        self._connected_by = time.monotonic() + _CONNECT_S
        try:
            if not self._is_known or self._manager.has_lost_all:  # KIP-899: the brokers may have new addresses
                self._is_known = False
                self._manager.forget_refusals()
                self._topics |= topics
                self._manager.cluster.set_topics(self._topics)  # so that the first answer tells of them
                await self._manager.bootstrap_async(_METADATA_MS)
                self._is_known = True
            for _ in range(_LOOKS):  # an answer may be that of a request from before
                if topics <= self._found or all(map(self._has, topics)):
                    self._found |= topics
                    break
                await self._look_up(topics)
        except errors.KafkaError as error:
            raise RetriableError(self._unanswered(error)) from error

    def _unanswered(self, error: errors.KafkaError) -> str:
        cause, cluster = self._manager.failure or error, f"the {self.name} cluster at {self.servers}"
        if isinstance(cause, REFUSED_LOGINS):
            return f"{cluster}: {refused_login(self._login, str(cause))}"
        return (
            f"{cluster} does not answer ({type(cause).__name__}: {cause}); see that its brokers run and can be reached "
            "from here"
        )

    def _has(self, topic: str) -> bool:
        return self._manager.cluster.partitions_for_topic(topic) is not None

    async def _look_up(self, topics: Set[str]) -> None:
        """Ask for the leaders of these topics, too; missing topics stay unknown. Errors: KafkaError."""
        self._topics |= topics
        metadata = self._manager.cluster
        asked = metadata.set_topics(self._topics)
        try:
            await self._manager.wait_for(metadata.request_update() if asked.is_done else asked, _METADATA_MS)
        except (errors.UnknownTopicOrPartitionError, errors.TopicAuthorizationFailedError, errors.InvalidTopicError):
            return

    def nodes(self) -> list[int]:
        """The brokers."""
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    def led_by(self, node: int) -> Set[TopicPartition]:
        """The partitions of known topics that this broker leads."""
        found: Set[TopicPartition] = self._manager.cluster.partitions_for_broker(node) or frozenset()
        return found

    def why_not_led(self, partition: TopicPartition) -> errors.KafkaError:
        """The reason why no leader of the partition is known."""
        leader = self._manager.cluster.leader_for_partition(Place(*partition))
        if leader is None:
            return errors.UnknownTopicOrPartitionError(str(partition))
        return errors.LeaderNotAvailableError(str(partition))

    def is_ready(self, node: int) -> bool:
        """True if the broker takes requests now: not while it is being connected to, or a quota is used up.

        Errors: KafkaError if it cannot be reached now.
        """
        connection = self._manager.get_connection(node)
        if not connection.initializing:
            return not connection.paused
        if time.monotonic() > self._connected_by:
            raise errors.NodeNotReadyError(f"broker {node} does not answer yet")
        return False

    def ready_leader(self, partition: TopicPartition) -> int | None:
        """The leader of the partition; None while it wants no requests.

        Errors: KafkaError if none is known, or it cannot be reached now.
        """
        leader: int | None = self._manager.cluster.leader_for_partition(Place(*partition))
        if leader is None or leader == -1:
            raise self.why_not_led(partition)
        return leader if self.is_ready(leader) else None

    def doubt(self) -> None:
        """Have the leaders looked up anew, soon."""
        if not self._manager.closed:
            self._manager.cluster.request_update()

    def send(self, request: Any, node: int | None = None) -> Any:
        """Send a request; return the future of its answer, which fails with a KafkaError."""
        return self._manager.send(request, node_id=node)

    async def settled(self, future: Any, wait_ms: float) -> bool:
        """Wait for the future, so long at most; True if it is done."""
        try:
            await self._manager.wait_for(future, wait_ms)
        except errors.KafkaTimeoutError:
            return bool(future.is_done)
        return True

    async def pause(self, wait_ms: float) -> None:
        """Wait so long."""
        await self.settled(Future(), wait_ms)

    def close(self) -> None:
        """Close all connections."""
        self._manager.close()


def can_be_reached(client: ClientConfig) -> bool:
    """True if kafka-python can take these settings."""
    try:
        _manager_config(client)
    except ConfigError:
        return False
    return True


def _manager_config(client: ClientConfig) -> dict[str, Any]:
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for key, option in (("receive.buffer.bytes", socket.SO_RCVBUF), ("send.buffer.bytes", socket.SO_SNDBUF)):
        if key in client.java and client[key] > 0:
            options.append((socket.SOL_SOCKET, option, client[key]))
    as_java = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 1000}
    fixed = {
        "socket_options": options,
        "receive_message_max_bytes": _MOST_ANSWER_BYTES,
        "max_in_flight_requests_per_connection": _IN_FLIGHT,
    }
    return {**as_java, **kafka_python(client), **fixed}
