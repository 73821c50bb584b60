"""kafka-python's private names: hooks of its classes under plain names, its network, its encoding of messages.

Seen in kafka-python 3.0.12, the one version that is installed; any other needs a check (`make upgrade-check`). No other
module uses a private name (`tests/unit/test_private_names.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from struct import pack_into
from typing import Any, Final, cast

from kafka import errors
from kafka.coordinator.base import BaseCoordinator, Generation
from kafka.errors import RebalanceInProgressError
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection as KafkaConnection
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider as AbstractTokenProvider
from kafka.net.selector import NetworkSelector as NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.consumer import DEFAULT_GENERATION_ID
from kafka.protocol.consumer.fetch import FetchResponse
from kafka.protocol.data_container import DataContainer
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer.produce import ProduceRequest
from kafka.protocol.schemas import StructField, load_json
from kafka.protocol.schemas.fields.codecs import Bytes, EncodeBuffer, UnsignedVarInt32

Pieces = Sequence[bytes | bytearray | memoryview]
"""Bytes of a message, to be sent in order."""
_LENGTH_BYTES: Final = 4


class GroupClient(KafkaNetClient):  # type: ignore[misc]  # kafka-python has no types
    """A client with its own thread for requests and heartbeats."""

    def connect(self, timeout_ms: int) -> Any:
        """Connect to any broker; return the version that it speaks. Errors: KafkaError."""
        self._net.start()
        self._manager.bootstrap(timeout_ms)
        return self._manager.broker_version

    def end(self, timeout_ms: int) -> None:
        """End its thread and close its sockets."""
        self._manager.close()
        self._net.stop(timeout_ms)
        self._net.close()


class GroupCoordinator(BaseCoordinator):  # type: ignore[misc]
    """A member's view of its group; kafka-python calls the overridden methods on its own thread."""

    @abstractmethod
    def assigned(self, leader: str, generation: int, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return the assignment of each member; called if this member leads."""

    @abstractmethod
    def joined(self, generation: int, member_id: str, assignment: bytes) -> None:
        """Handle the membership in this generation."""

    @abstractmethod
    def proved(self, at: float) -> None:
        """Handle proof that the broker counted it as a member at `at` (`time.monotonic`) or later."""

    @property
    def member_id(self) -> str:
        """Id of the member; empty before the broker assigns one."""
        return cast(str, self._generation.member_id)

    def come_back_as(self, member_id: str) -> None:
        """Rejoin with the id of a former member."""
        self._generation = Generation(DEFAULT_GENERATION_ID, member_id, None)

    def end_heartbeats(self) -> None:
        """Stop sending heartbeats."""
        self._close_heartbeat()

    def _perform_assignment(self, leader_id: str, protocol: str, members: Sequence[Any]) -> Mapping[str, bytes]:
        subscriptions = {member.member_id: bytes(member.metadata) for member in members}
        return self.assigned(leader_id, self._generation.generation_id, subscriptions)

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        self.joined(generation, member_id, bytes(member_assignment_bytes))

    def _process_sync_group_response(self, response: Any, send_time: float) -> Any:
        assignment = super()._process_sync_group_response(response, send_time)
        self.proved(send_time)
        return assignment

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        try:
            super()._handle_heartbeat_response(response, send_time)
        except RebalanceInProgressError:
            self.proved(send_time)
            raise
        self.proved(send_time)


class Transport(KafkaTCPTransport):  # type: ignore[misc]
    """A connection whose receiving and sending subclasses implement."""

    def receive_some(self) -> errors.KafkaError | None:
        """Receive what has arrived; return the error that ended the connection, if any."""
        raise NotImplementedError

    def send_some(self, left: deque[Any]) -> tuple[int, errors.KafkaError | None]:
        """Send and remove the first part of `left`; return the number of bytes, and the error that ended it."""
        raise NotImplementedError

    @property
    def wants_more(self) -> bool:
        """True while it reads and is not closed."""
        return bool(self._read and not self._closed)

    @property
    def socket(self) -> Any:
        """The socket; None once it is closed."""
        return self._sock

    async def until_readable(self, until: float | None = None) -> None:
        """Wait until something arrives, up to this time. Errors: KafkaTimeoutError."""
        await self._net.wait_read(self._sock, until)

    async def until_writable(self, until: float | None = None) -> None:
        """Wait until something can be sent, up to this time. Errors: KafkaTimeoutError."""
        await self._net.wait_write(self._sock, until)

    async def _read_from_sock(self) -> None:
        while self.wants_more:
            await self.until_readable()
            if (error := self.receive_some()) is not None:
                self.abort(error=error)

    def _sock_send(self) -> tuple[int, errors.KafkaError | None]:
        return self.send_some(self._write_buffer)


class TlsTransport(Transport, KafkaSSLTransport):  # type: ignore[misc]
    """A connection over TLS."""


class Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Connections to a cluster's brokers, whose transports subclasses create."""

    async def transport_to(self, node: Any, sock: Any, timeout_at: float | None) -> Transport:
        """Return the transport over a socket connected to this broker. Errors: KafkaError."""
        raise NotImplementedError

    def attempted(self, node: Any, failed: errors.KafkaError | None, timeout_at: float | None) -> None:
        """Handle the end of an attempt to connect, with its error if it failed."""
        raise NotImplementedError

    def protocol_of(self, connection: KafkaConnection) -> Protocol:
        """Return the protocol of a new connection."""
        raise NotImplementedError

    @property
    def network(self) -> NetworkSelector:
        """Event loop of the connections."""
        return self._net

    def refuse(self, node: Any, failure: errors.KafkaError) -> None:
        """Fail all requests to this bootstrap broker until `forget_refusals`."""
        self._auth_failures[node.node_id] = failure

    def forget_refusals(self) -> None:
        """Allow refused logins to be tried again."""
        self._auth_failures.clear()

    @property
    def requests_under_way(self) -> dict[Any, int]:
        """Number of requests under way to each broker that is connected and accepts more."""
        return {
            node: len(connection.in_flight_requests)
            for node, connection in self._conns.items()
            if connection.connected and not connection.paused and not self.cluster.is_bootstrap(node)
        }

    def was_tried_in_vain(self, node_id: Any) -> bool:
        """True if the last attempt to connect to this broker failed."""
        return node_id in self._backoff and node_id not in self._conns

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        options = self.config["socket_options"]
        sock = await create_connection(self._net, node.host, node.port, options, timeout_at=timeout_at)
        return await self.transport_to(node, sock, timeout_at)

    async def _connect(
        self, node: Any, conn: Any, reset_backoff_on_connect: bool = True, timeout_at: float | None = None
    ) -> None:
        def made(transport: Any) -> None:
            KafkaConnection.connection_made(conn, transport)
            conn.parser = self.protocol_of(conn)

        conn.connection_made = made
        await super()._connect(node, conn, reset_backoff_on_connect, timeout_at)
        self.attempted(node, conn.init_future.exception, timeout_at)


class Protocol(KafkaProtocol):  # type: ignore[misc]
    """Requests and answers of one connection."""

    def __init__(self, connection: KafkaConnection) -> None:
        config = connection.config
        super().__init__(
            client_id=config["client_id"],
            receive_message_max_bytes=config["receive_message_max_bytes"],
            ident=f"node={connection.node_id}",
        )

    def check_size(self, size: int) -> None:
        """Check the size of an answer. Errors: KafkaProtocolError if no answer has this size."""
        self._validate_frame_size(size)

    def answer_in(self, data: Any) -> Any:
        """Parse the answer to the oldest request from `data`."""
        return self._process_response(data)

    def add_header(self, request: Any) -> int:
        """Add the header to the request; return its correlation id."""
        correlation: int = self._next_correlation_id()
        request.with_header(correlation_id=correlation, client_id=self._client_id)
        return correlation


class _Views(Bytes):  # type: ignore[misc]
    """Bytes that are read as a view of the answer."""

    @classmethod
    def emit_decode_from(cls, ctx: Any, var_name: str, indent: str, compact: bool = False) -> None:
        length = ctx.next_var("length")
        if compact:
            UnsignedVarInt32.emit_decode_from(ctx, length, indent)
            ctx.emit(indent, f"{length} -= 1")
        else:
            ctx.emit(indent, f"{length} = unpack_from('>i', data, pos)[0]")
            ctx.emit(indent, "pos += 4")
        ctx.emit(indent, f"{var_name} = None")
        ctx.emit(indent, f"if {length} >= 0:")
        ctx.emit(indent, f"    {var_name} = data[pos:pos + {length}]")
        ctx.emit(indent, f"    pos += {length}")


class _Apart(Bytes):  # type: ignore[misc]
    """Bytes given in pieces, which are kept beside the request with their positions."""

    @classmethod
    def emit_encode_into(cls, ctx: Any, val_expr: str, indent: str, compact: bool = False) -> None:
        length = ctx.next_var("length")
        ctx.emit(indent, f"{length} = sum(map(len, {val_expr}))")
        if compact:
            ctx.emit(indent, f"{length} += 1")
            UnsignedVarInt32.emit_encode_into(ctx, length, indent)
        else:
            ctx.emit_reserve(indent, 4)
            ctx.emit(indent, f"pack_into('>i', buf, pos, {length})")
            ctx.emit(indent, "pos += 4")
        ctx.emit(indent, f"out.apart.append((pos, {val_expr}))")


def _layout(message: str, codec: type[Bytes]) -> StructField:
    layout = StructField(load_json(message))
    for field in _fields(layout):
        if field.name == "records":
            field._type = codec
    return layout


def _fields(layout: StructField) -> Iterator[Any]:
    for field in layout.fields.values():
        yield field
        if field.is_struct_array():
            yield from _fields(field.array_of)


class _FetchAnswer(DataContainer):  # type: ignore[misc]
    """A FetchResponse whose records are views."""

    _struct = _layout("FetchResponse", _Views)


class _Written(EncodeBuffer):  # type: ignore[misc]
    """A request as written, without its records."""

    __slots__ = ("apart",)

    def __init__(self) -> None:
        super().__init__(1 << 10)
        self.apart: list[tuple[int, Pieces]] = []

    def pieces(self) -> Iterator[bytes | bytearray | memoryview]:
        """Yield all non-empty pieces in order; before version 9 nothing follows the records."""
        written, at = memoryview(self.buf), 0
        for end, records in (*self.apart, (self.pos, ())):
            yield from filter(len, (written[at:end], *records))
            at = end


@cache
def _produce(version: int) -> Any:
    compact = ProduceRequest.flexible_version_q(version)
    return _layout("ProduceRequest", _Apart).compiled_encode_into(version, compact=compact, tagged=compact)


@cache
def _fetched(version: int) -> Any:
    compact = FetchResponse.flexible_version_q(version)
    layout = _FetchAnswer._struct
    return layout.compiled_decode_from(version, compact=compact, tagged=compact, data_class=_FetchAnswer)


def fetched(data: memoryview, version: int) -> Any:
    """Parse the FetchResponse in this memory, without header; its records are views of the memory."""
    return _fetched(version)(data, 0)[0]


def pieces_of(request: Any) -> list[bytes | bytearray | memoryview]:
    """Return a ProduceRequest as sent, with its length and header; its records are given as pieces."""
    written = _Written()
    written.pos = _LENGTH_BYTES
    request.encode_header_into(written, flexible=request.flexible_version_q(request.API_VERSION))
    _produce(request.API_VERSION)(request, written)
    pieces = list(written.pieces())
    pack_into(">i", written.buf, 0, sum(map(len, pieces)) - _LENGTH_BYTES)
    return pieces
