"""kafka-python's connections for the copying: no copies of records, TLS with a time limit, reasons of failures."""

from __future__ import annotations

import ssl
import time
from collections import deque
from itertools import islice
from typing import Any, Final

from kafka import errors

from headrace.connectors.mirror.copy.wire import BrokerWire
from headrace.plugins.interop.kafka import kafka_python_internals
from headrace.plugins.interop.kafka.kafka_python_internals import KafkaConnection, Pieces

_MOST_PIECES: Final = 512
"""The most pieces of one call; systems take 1,024."""
_LATER: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
REFUSED_LOGINS: Final = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)


class _ReadsInPlace(kafka_python_internals.Transport):
    """Reads answers where they stay."""

    def receive_some(self) -> errors.KafkaError | None:
        """Take all that has arrived (of TLS, nothing else would tell that more is there), or the error that ended it.

        An end after some bytes is told by the next call: their reader must first find the reason in them, such as a
        refused login.
        """
        took_some = False
        while self.wants_more:
            room = self.get_protocol().parser.room
            try:
                count = self.socket.recv_into(room)
            except _LATER:
                return None
            except OSError as failed:
                return None if took_some else errors.KafkaConnectionError(failed)
            if not count:
                return None if took_some else errors.KafkaConnectionError("socket disconnected")
            took_some, self.last_read = True, time.monotonic()
            try:
                self.get_protocol().data_received(room[:count])
            except errors.KafkaProtocolError as error:
                return error
        return None


class _PlainTransport(_ReadsInPlace):
    """Sends the pieces of requests together."""

    def write(self, data: Pieces) -> None:
        self.writelines(data)

    def send_some(self, left: deque[Any]) -> tuple[int, errors.KafkaError | None]:
        sent = 0
        while left:
            try:
                count = self.socket.sendmsg(islice(left, _MOST_PIECES))
            except _LATER:
                break
            except OSError as failed:
                return sent, errors.KafkaConnectionError(failed)
            sent += count
            while count and count >= len(left[0]):
                count -= len(left.popleft())
            if count:
                left[0] = memoryview(left[0])[count:]
        return sent, None


class _TlsTransport(_ReadsInPlace, kafka_python_internals.TlsTransport):
    """The same over TLS, with a time limit on the handshake."""

    def write(self, data: Pieces) -> None:
        """Have a request sent, as one piece: each piece would be its own record of TLS."""
        super().write(b"".join(data))

    def send_some(self, left: deque[Any]) -> tuple[int, errors.KafkaError | None]:
        sent = 0
        if self.socket is None:
            return sent, errors.KafkaConnectionError("the connection was closed while sending")
        while left:
            # A record of TLS carries 16 KiB: without a view all that is left would be copied after each.
            piece = memoryview(left.popleft())
            while piece:
                try:
                    count = self.socket.send(piece)
                except _LATER:
                    left.appendleft(piece)
                    return sent, None
                except OSError as failed:
                    return sent, errors.KafkaConnectionError(failed)
                sent, piece = sent + count, piece[count:]
        return sent, None

    async def shake_hands(self, where: str, until: float | None) -> None:
        """Begin TLS with this broker, up to this time of the monotonic clock. Errors: KafkaConnectionError."""
        try:
            while True:
                try:
                    self.socket.do_handshake()
                    return
                except ssl.SSLWantReadError:
                    await self.until_readable(until)
                except ssl.SSLWantWriteError:
                    await self.until_writable(until)
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


class Connections(kafka_python_internals.Connections):
    """kafka-python's connections with our transports, which knows why connections fail.

    Decided: some of its methods are replaced, of the one version that this project installs, because a call for each 4
    KiB of an answer took a third of the copying's CPU and gave the interpreter's lock away each time, and a TLS
    handshake had no time limit; loses: another version has to be looked at.
    """

    failure: errors.KafkaError | None = None
    """The reason of the last refused connection; None once one was made."""

    async def transport_to(self, node: Any, sock: Any, timeout_at: float | None) -> kafka_python_internals.Transport:
        """The transport over this socket; over TLS after its handshake. Errors: KafkaConnectionError."""
        if not self.ssl_enabled:
            return _PlainTransport(self.network, sock, host=node.host)
        transport = _TlsTransport(self.network, sock, host=node.host, ssl_context=self.config["ssl_context"])
        try:
            await transport.shake_hands(f"{node.host}:{node.port}", timeout_at)
        except BaseException:
            transport.close()
            raise
        return transport

    def protocol_of(self, connection: KafkaConnection) -> BrokerWire:
        """Our own protocol over this connection."""
        return BrokerWire(connection)

    def attempted(self, node: Any, failed: errors.KafkaError | None, timeout_at: float | None) -> None:
        """Note why the attempt to connect failed; None if it succeeded."""
        if failed is None or self.failure is None or not _is_cut_short(timeout_at):
            self.failure = failed
        if isinstance(self.failure, REFUSED_LOGINS):
            # It knows of no pause after a login that was refused, and would try it ten times a second.
            self.update_backoff(node.node_id)
            if self.cluster.is_bootstrap(node.node_id):
                self.refuse(node, self.failure)

    def least_loaded_node(self) -> Any:
        """The broker to ask what each can answer: a connected one if there is one, because others may be dead."""
        busy = self.requests_under_way
        return min(busy, key=lambda node: busy[node]) if busy else super().least_loaded_node()

    @property
    def has_lost_all(self) -> bool:
        """True if every known broker was tried in vain since it was last connected to."""
        nodes = [broker.node_id for broker in self.cluster.brokers()]
        return bool(nodes) and all(map(self.was_tried_in_vain, nodes))


def _is_cut_short(timeout_at: float | None) -> bool:
    """True if the time for an attempt is over: its error tells nothing of the broker."""
    return timeout_at is not None and time.monotonic() >= timeout_at
