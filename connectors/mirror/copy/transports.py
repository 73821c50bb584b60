"""kafka-python's connections for the copying: no copies of records, TLS with a time limit, reasons of failures."""

from __future__ import annotations

import ssl
import time
from functools import partial
from itertools import islice
from typing import Any, Final

from kafka import errors
from kafka.net.connection import KafkaConnection
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from headrace.connectors.mirror.copy.wire import Pieces, Wire

_MOST_PIECES: Final = 512
"""The most pieces of one call; systems take 1,024."""
_LATER: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
REFUSED_LOGINS: Final = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)


class _ReadsInPlace(KafkaTCPTransport):  # type: ignore[misc]
    """Reads answers in place."""

    async def _read_from_sock(self) -> None:
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            if (error := self._receive()) is not None:
                self.abort(error=error)

    def _receive(self) -> errors.KafkaError | None:
        """Take all that has arrived (with TLS, nothing else would tell that there is more), or return the error that
        ended it.

        An end after some bytes is told by the next call: their reader must first find the reason in them, such as a
        refused login.
        """
        took_some = False
        while self._read and not self._closed:
            room = self._protocol.parser.room
            try:
                count = self._sock.recv_into(room)
            except _LATER:
                return None
            except OSError as failed:
                return None if took_some else errors.KafkaConnectionError(failed)
            if not count:
                return None if took_some else errors.KafkaConnectionError("socket disconnected")
            took_some, self.last_read = True, time.monotonic()
            try:
                self._protocol.data_received(room[:count])
            except errors.KafkaProtocolError as error:
                return error
        return None


class _PlainTransport(_ReadsInPlace):
    """Sends the pieces of requests together."""

    def write(self, data: Pieces) -> None:
        self.writelines(data)

    def _sock_send(self) -> tuple[int, errors.KafkaError | None]:
        sent, pieces = 0, self._write_buffer
        while pieces:
            try:
                count = self._sock.sendmsg(islice(pieces, _MOST_PIECES))
            except _LATER:
                break
            except OSError as failed:
                return sent, errors.KafkaConnectionError(failed)
            sent += count
            while count and count >= len(pieces[0]):
                count -= len(pieces.popleft())
            if count:
                pieces[0] = memoryview(pieces[0])[count:]
        return sent, None


class _TlsTransport(_ReadsInPlace, KafkaSSLTransport):  # type: ignore[misc]
    """Sends and reads over TLS, with a time limit on the handshake."""

    def write(self, data: Pieces) -> None:
        """Have a request sent, as one piece: each piece would be its own record of TLS."""
        super().write(b"".join(data))

    def _sock_send(self) -> tuple[int, errors.KafkaError | None]:
        sent = 0
        if self._sock is None:
            return sent, errors.KafkaConnectionError("the connection was closed while sending")
        while self._write_buffer:
            # A record of TLS carries 16 KiB: without a view the rest would be copied after each.
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
    """kafka-python's connections with our transports, and the reason of the last failure.

    Decided: some of its methods are replaced, of the one version that this project installs, because a call for each 4
    KiB of an answer took a third of the copying's CPU and gave the interpreter's lock away each time, and a TLS
    handshake had no time limit; loses: another version has to be looked at.
    """

    failure: errors.KafkaError | None = None
    """The reason of the last refused connection; None once one was made."""

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

    async def _connect(
        self, node: Any, conn: Any, reset_backoff_on_connect: bool = True, timeout_at: float | None = None
    ) -> None:
        conn.connection_made = partial(_made, conn)
        await super()._connect(node, conn, reset_backoff_on_connect, timeout_at)
        failed = conn.init_future.exception
        if failed is None or self.failure is None or not _is_cut_short(timeout_at):
            self.failure = failed
        if isinstance(self.failure, REFUSED_LOGINS):
            # It knows of no pause after a login that was refused, and would try it ten times a second.
            self.update_backoff(node.node_id)
            if self.cluster.is_bootstrap(node.node_id):
                self._auth_failures[node.node_id] = self.failure

    def least_loaded_node(self) -> Any:
        """The broker for requests that any can answer: a connected one, if there is one; others may be dead."""
        busy = {
            node: len(connection.in_flight_requests)
            for node, connection in self._conns.items()
            if connection.connected and not connection.paused and not self.cluster.is_bootstrap(node)
        }
        return min(busy, key=lambda node: busy[node]) if busy else super().least_loaded_node()

    def forget_refusals(self) -> None:
        """Let refused logins be tried again."""
        self._auth_failures.clear()

    @property
    def has_lost_all(self) -> bool:
        """True if every known broker was tried in vain since it was last connected to."""
        nodes = [broker.node_id for broker in self.cluster.brokers()]
        return bool(nodes) and all(node in self._backoff and node not in self._conns for node in nodes)


def _is_cut_short(timeout_at: float | None) -> bool:
    """True if the time for an attempt is over: its error tells nothing of the broker."""
    return timeout_at is not None and time.monotonic() >= timeout_at


def _made(connection: KafkaConnection, transport: Any) -> None:
    KafkaConnection.connection_made(connection, transport)
    connection.parser = Wire(connection)
