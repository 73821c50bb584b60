"""Limits a server's connections in number, and in the time for a TLS handshake and for a request's head.

Decided: an https connection is accepted as a plain one and starts TLS itself: it counts from its first byte, its client
is known if TLS fails, and each connection has the newest certificates; loses: about 30 lines that asyncio's TLS servers
have.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from typing import Any, ClassVar, Final, Self

from cryptography import x509
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace.config.tls import RenewedContext
from headrace.rest.security.distinguished_names import rfc2253
from headrace.rest.security.principal import certificate_state

log = logging.getLogger(__name__)

MOST: Final = 256
_HEAD_SECONDS: Final = 10.0
_SAY_SECONDS: Final = 60.0


class ConnectionLimits:
    """The limits of one server."""

    def __init__(self, most: int = MOST, head_seconds: float = _HEAD_SECONDS) -> None:
        """`head_seconds`: the time for a TLS handshake, and from there or the last answer for a request's head."""
        self.most = most
        self.head_seconds = head_seconds
        self._said_at = -_SAY_SECONDS
        self._refusal_said_at = -_SAY_SECONDS
        self._refusals = 0

    def say_full(self) -> None:
        """Logs that all connections are in use, at most once a minute."""
        if time.monotonic() - self._said_at >= _SAY_SECONDS:
            self._said_at = time.monotonic()
            log.warning(
                "All %d connections of the REST API are in use: for a new one the one that has asked nothing for "
                "longest is closed; see who connects, or raise rest.max.connections",
                self.most,
            )

    def say_refused(self, client: str, why: str) -> None:
        """Logs a failed TLS handshake, at most once a minute; the next line counts those in between."""
        self._refusals += 1
        if time.monotonic() - self._refusal_said_at >= _SAY_SECONDS:
            more = f" ({self._refusals - 1} more since the last such line)" if self._refusals > 1 else ""
            log.warning("TLS with %s failed: %s%s", client, why, more)
            self._refusal_said_at = time.monotonic()
            self._refusals = 0


class Connection(H11Protocol):
    """A connection within its server's limits."""

    limits: ClassVar[ConnectionLimits]
    _head_timer: asyncio.TimerHandle | None = None
    _idle_since: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        room = self._has_room()
        super().connection_made(transport)
        if room:
            self._expect_head()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_idle:
            self._stop_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_idle:  # else the next request has begun
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        self._stop_timer()
        self._idle_since = self.loop.time()
        self._head_timer = self.loop.call_later(self.limits.head_seconds, self._end)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end(self) -> None:
        self._stop_timer()
        self.transport.close()

    def _has_room(self) -> bool:
        return len(self.connections) < self.limits.most or self._make_room()

    def _make_room(self) -> bool:
        """Closes the connection that has been idle for longest; False if none is idle."""
        self.limits.say_full()
        idle = [one for one in self.connections if isinstance(one, Connection) and one._is_idle]
        if not idle:
            return False
        oldest = min(idle, key=lambda one: one._idle_since)
        oldest._stop_timer()
        oldest.transport.abort()
        self.connections.discard(oldest)
        return True


class TlsConnection(Connection):
    """An https connection; it counts as idle during its handshake, so it can make room for others."""

    tls: ClassVar[RenewedContext]
    _raw: asyncio.Transport
    _handshake: asyncio.Task[None] | None = None
    _early: bytes | None = b""
    """Data received before `_begin`; None from then on."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        room = self._has_room()
        self.transport = self._raw = transport
        if not room:
            transport.abort()
            return
        self.connections.add(self)
        self._idle_since = self.loop.time()
        transport.pause_reading()
        self._handshake = self.loop.create_task(self._shake_hands())

    def data_received(self, data: bytes) -> None:
        if self._early is not None:
            self._early += data
        else:
            super().data_received(data)

    def shutdown(self) -> None:
        super().shutdown()
        if self._is_idle:
            self._raw.close()

    def _end(self) -> None:
        super()._end()
        self._raw.close()  # without waiting for the client's close: an idle connection loses nothing

    async def _shake_hands(self) -> None:
        try:
            context = self.tls.fresh()
            if context is None:
                context = await asyncio.to_thread(self.tls.current)
            if self._raw.is_closing():
                return
            transport = await self.loop.start_tls(
                self._raw,
                self,
                _OneHandshake.of(context, self._raw),
                server_side=True,
                ssl_handshake_timeout=self.limits.head_seconds,
                ssl_shutdown_timeout=self.limits.head_seconds,
            )
            if transport is not None and not self._raw.is_closing():  # else it was closed meanwhile
                self._begin(transport)
        except Exception as error:
            self._raw.abort()
            if not isinstance(error, OSError):
                raise
            self._say_refused(error)
        finally:
            if self._early is not None:
                self.connections.discard(self)

    def _begin(self, transport: asyncio.Transport) -> None:
        shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if shown is not None:
            subject = x509.load_der_x509_certificate(shown).subject
            self.app_state = {**self.app_state, **certificate_state(rfc2253(subject))}
        self.connections.discard(self)  # else it would count twice
        super().connection_made(transport)
        early, self._early = self._early, None
        if early:
            self.data_received(early)

    def _say_refused(self, error: OSError) -> None:
        client = self._raw.get_extra_info("peername")
        where = f"{client[0]}:{client[1]}" if client else "a client"
        if isinstance(error, ConnectionResetError | BrokenPipeError):  # such as a load balancer's probe
            log.debug("%s left before TLS had begun", where)
        else:
            self.limits.say_refused(where, _reason(error, self.limits.head_seconds))


class _Handshake(ssl.SSLObject):
    """TLS of one connection; sends the alert to a client whose handshake fails, which asyncio leaves out."""

    outgoing: ssl.MemoryBIO
    raw: asyncio.Transport

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            self.raw.write(self.outgoing.read())
            raise


class _OneHandshake(ssl.SSLContext):
    """Wraps the context of one connection, so that its handshake has the raw transport."""

    _context: ssl.SSLContext
    _raw: asyncio.Transport

    @classmethod
    def of(cls, context: ssl.SSLContext, raw: asyncio.Transport) -> Self:
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made._context, made._raw = context, raw
        context.sslobject_class = _Handshake
        return made

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any) -> ssl.SSLObject:
        made = self._context.wrap_bio(incoming, outgoing, *args, **named)
        if isinstance(made, _Handshake):
            made.outgoing, made.raw = outgoing, self._raw
        return made


def _reason(error: OSError, seconds: float) -> str:
    if isinstance(error, ConnectionAbortedError):
        return f"it did not end within {seconds:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not trusted: {error.verify_message}"
    reason = str(getattr(error, "reason", None) or error)
    return _REASONS.get(reason, reason.replace("_", " ").lower())


_REASONS: Final = {
    "HTTP_REQUEST": "the client speaks http, and the listener https",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, which ssl.client.auth=required asks for",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority of this worker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept this worker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept this worker's certificate",
}
"""OpenSSL's reasons in words."""


def within(limits: ConnectionLimits, tls: RenewedContext | None = None) -> type[Connection]:
    """The class of a server's connections; with `tls`, of https connections."""
    if tls is None:
        return type("LimitedConnection", (Connection,), {"limits": limits})
    return type("LimitedTlsConnection", (TlsConnection,), {"limits": limits, "tls": tls})
