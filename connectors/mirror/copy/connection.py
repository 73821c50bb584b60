"""A cluster as the copying sees it: connections to its brokers, the leaders of partitions, requests and their answers.

Everything here runs on one event loop (kafka-python's), which its owner's thread drives; see `link.py`.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Set
from functools import partial
from typing import Any, Final

from kafka import errors
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.structs import TopicPartition as Place

from headrace.config.client_config import ClientConfig
from headrace.config.problems import ConfigError
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition

_MOST_ANSWER_BYTES: Final = 1 << 30
_LOOKS: Final = 2
_METADATA_MS: Final = 4_000
"""Shorter than a stop waits for its tasks."""
_PIECE_BYTES: Final = 1 << 18
_IN_FLIGHT: Final = 1_000
"""kafka-python refuses requests beyond its bound; ours are bounded by what they carry."""


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's connections, which read large answers in large pieces instead of 4 KiB at a time.

    Decided: one method of its transport is replaced, of the one version that this project installs, because a call for
    each 4 KiB took a third of the copying's CPU, and gave the interpreter's lock away each time; loses: another version
    has to be looked at.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at)
        transport._sock_recv = partial(_received, transport._sock)
        return transport


def _received(sock: socket.socket) -> tuple[bytes, errors.KafkaError | None]:
    """All that has arrived (of TLS, nothing else would tell that more is there), and the error that ended it."""
    pieces: list[bytes] = []
    error = None
    while True:
        try:
            piece = sock.recv(_PIECE_BYTES)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            break
        except OSError as failed:
            error = errors.KafkaConnectionError(failed)
            break
        if not piece:
            error = errors.KafkaConnectionError("socket disconnected")
            break
        pieces.append(piece)
    return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), error


class ClusterConnection:
    """One cluster; `name` stands in errors."""

    def __init__(self, net: NetworkSelector, client: ClientConfig, name: str) -> None:
        self.name = name
        self.servers = str(client.java["bootstrap.servers"])
        self._manager = _Manager(net, **_manager_config(client))
        self._manager.cluster.config["allow_auto_create_topics"] = False
        self._is_known = False
        self._topics: set[str] = set()
        """All that were ever asked for: kafka-python forgets those that it is not asked for again."""

    async def know(self, topics: Iterable[str]) -> None:
        """Learn the leaders of these topics' partitions, where they are not known.

        Errors: RetriableError.
        """
        wanted = set(topics)
        try:
            if not self._is_known:
                await self._manager.bootstrap_async(_METADATA_MS)
                self._is_known = True
            for _ in range(_LOOKS):  # an answer may be that of a request from before
                if all(map(self._has, wanted)):
                    break
                await self._look_up(wanted)
        except errors.KafkaError as error:
            raise RetriableError(
                f"the {self.name} cluster at {self.servers} does not answer ({type(error).__name__}: {error}); "
                "see that its brokers run and can be reached from here"
            ) from error

    def _has(self, topic: str) -> bool:
        return self._manager.cluster.partitions_for_topic(topic) is not None

    async def _look_up(self, topics: set[str]) -> None:
        """Ask for the leaders of these topics, too; those that are not there stay unknown. Errors: KafkaError."""
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
        """The partitions that this broker leads, of those whose topics are known."""
        found: Set[TopicPartition] = self._manager.cluster.partitions_for_broker(node) or frozenset()
        return found

    def led(self) -> Set[TopicPartition]:
        """The partitions that some broker leads."""
        return frozenset().union(*map(self.led_by, self.nodes()))

    def why_not_led(self, partition: TopicPartition) -> errors.KafkaError:
        """Why no broker is known that leads the partition."""
        leader = self._manager.cluster.leader_for_partition(Place(*partition))
        if leader is None:
            return errors.UnknownTopicOrPartitionError(f"{partition.topic}-{partition.partition}")
        return errors.LeaderNotAvailableError(f"{partition.topic}-{partition.partition}")

    def is_ready(self, node: int) -> bool:
        """Whether the broker takes requests now: not while a quota is used up.

        Errors: KafkaError where it cannot be reached now.
        """
        return not self._manager.get_connection(node).paused

    def ready_leader(self, partition: TopicPartition) -> int | None:
        """The broker that leads the partition; None while it wants no requests.

        Errors: KafkaError where none is known, or it cannot be reached now.
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
        """A future of the answer; it fails with a KafkaError."""
        return self._manager.send(request, node_id=node)

    async def settled(self, future: Any, wait_ms: float) -> bool:
        """Wait for the future, so long at most; whether it is done."""
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
    """Whether kafka-python can log in with these settings: not with OAUTHBEARER."""
    try:
        _manager_config(client)
    except ConfigError:
        return False
    return client.login.mechanism != "OAUTHBEARER"


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
    return {**as_java, **client.kafka_python(), **fixed}
