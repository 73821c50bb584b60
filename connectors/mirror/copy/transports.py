"""kafka-python's connections for the copying: large pieces, TLS with a time limit, and why a connection fails."""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

from kafka import errors
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

_PIECE_BYTES: Final = 1 << 18
_LATER: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
REFUSED_LOGINS: Final = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)


class _PlainTransport(KafkaTCPTransport):  # type: ignore[misc]
    """Reads large answers in large pieces."""

    def _sock_recv(self) -> tuple[bytes, errors.KafkaError | None]:
        return _received(self._sock)


class _TlsTransport(KafkaSSLTransport):  # type: ignore[misc]
    """The same over TLS, with a time limit on the handshake, and large requests sent without being copied."""

    def _sock_recv(self) -> tuple[bytes, errors.KafkaError | None]:
        return _received(self._sock)

    def _sock_send(self) -> tuple[int, errors.KafkaError | None]:
        sent = 0
        if self._sock is None:
            return sent, errors.KafkaConnectionError("the connection was closed while sending")
        while self._write_buffer:
            # A record of TLS carries 16 KiB: without a view all that is left would be copied after each.
            left = memoryview(self._write_buffer.popleft())
            while left:
                try:
                    count = self._sock.send(left)
                except _LATER:
                    self._write_buffer.appendleft(left)
                    return sent, None
                except OSError as failed:
                    return sent, errors.KafkaConnectionError(failed)
                sent, left = sent + count, left[count:]
        return sent, None

    async def shake_hands(self, where: str, until: float | None) -> None:
        """Begin TLS with this broker, up to this time of the monotonic clock. Errors: KafkaConnectionError."""
        try:
            while True:
                try:
                    self._sock.do_handshake()
                    return
                except ssl.SSLWantReadError:
                    await self._net.wait_read(self._sock, until)
                except ssl.SSLWantWriteError:
                    await self._net.wait_write(self._sock, until)
        except errors.KafkaTimeoutError:
            raise errors.KafkaConnectionError(
                f"{where} accepts connections and does not answer to TLS; see that it is a listener with TLS, and "
                "that its broker is not overloaded"
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise errors.KafkaConnectionError(
                f"the certificate of {where} is not trusted ({error.verify_message}); look at the certificates in "
                "ssl.truststore.location, and at ssl.endpoint.identification.algorithm"
            ) from error
        except OSError as error:
            raise errors.KafkaConnectionError(
                f"TLS with {where} cannot begin ({error}); look at security.protocol and its port, and at the ssl "
                "settings of both sides"
            ) from error


class Connections(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's connections with our transports, which knows why connections fail.

    Decided: some of its methods are replaced, of the one version that this project installs, because a call for
    each 4 KiB of an answer took a third of the copying's CPU and gave the interpreter's lock away each time, and a TLS
    handshake had no time limit; loses: another version has to be looked at.
    """

    failure: errors.KafkaError | None = None
    """Why the last connection that was tried could not be made; None once one was."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        options = self.config["socket_options"]
        sock = await create_connection(self._net, node.host, node.port, options, timeout_at=timeout_at)
        if not self.ssl_enabled:
            return _PlainTransport(self._net, sock, host=node.host)
        transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
        try:
            await transport.shake_hands(f"{node.host}:{node.port}", timeout_at)
        except BaseException:
            transport.close()
            raise
        return transport

    async def _connect(self, node: Any, conn: Any, *arguments: Any, **named: Any) -> None:
        await super()._connect(node, conn, *arguments, **named)
        self.failure = conn.init_future.exception
        if isinstance(self.failure, REFUSED_LOGINS):
            # It knows of no pause after a login that was refused, and would try it ten times a second.
            self.update_backoff(node.node_id)
            if self.cluster.is_bootstrap(node.node_id):
                self._auth_failures[node.node_id] = self.failure

    def least_loaded_node(self) -> Any:
        """The broker to ask what each can answer: one that is connected, where there is one; others may be dead."""
        busy = {
            node: len(connection.in_flight_requests)
            for node, connection in self._conns.items()
            if connection.connected and not connection.paused and not self.cluster.is_bootstrap(node)
        }
        return min(busy, key=lambda node: busy[node]) if busy else super().least_loaded_node()

    def forget_refusals(self) -> None:
        """Let a login be tried again where it was refused."""
        self._auth_failures.clear()

    @property
    def has_lost_all(self) -> bool:
        """Whether every broker that it knows was tried in vain since it was last connected to."""
        nodes = [broker.node_id for broker in self.cluster.brokers()]
        return bool(nodes) and all(node in self._backoff and node not in self._conns for node in nodes)


def _received(sock: socket.socket) -> tuple[bytes, errors.KafkaError | None]:
    """All that has arrived (of TLS, nothing else would tell that more is there), or the error that ended it.

    What came before the end is given first, such as why a login is refused; the next call tells of the end.
    """
    pieces: list[bytes] = []
    error = None
    while error is None:
        try:
            piece = sock.recv(_PIECE_BYTES)
        except _LATER:
            break
        except OSError as failed:
            error = errors.KafkaConnectionError(failed)
        else:
            if piece:
                pieces.append(piece)
            else:
                error = errors.KafkaConnectionError("socket disconnected")
    return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), None if pieces else error
