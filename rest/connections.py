"""Bounds the connections of a server: how many there are, and how long one may take to send the head of a request."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)

MOST: Final = 256
_HEAD_SECONDS: Final = 10.0
_SAY_SECONDS: Final = 60.0


class ConnectionLimits:
    """The limits of one server."""

    def __init__(self, most: int = MOST, head_seconds: float = _HEAD_SECONDS) -> None:
        """`head_seconds` is the time for the head of a request, from the connection's begin or the answer before."""
        self.most = most
        self.head_seconds = head_seconds
        self._said_at = -_SAY_SECONDS

    def say_full(self) -> None:
        """Log that all connections are in use, once a minute."""
        if time.monotonic() - self._said_at >= _SAY_SECONDS:
            self._said_at = time.monotonic()
            log.warning(
                "All %d connections of the REST API are in use: for a new one the one that has asked nothing for "
                "longest is closed; see who connects, or raise rest.max.connections",
                self.most,
            )


class Connection(H11Protocol):
    """A connection within the limits of its server."""

    limits: ClassVar[ConnectionLimits]
    _head_timer: asyncio.TimerHandle | None = None
    _idle_since: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        full = len(self.connections) >= self.limits.most
        room = not full or self._make_room()
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
        if self._is_idle:  # else the next request was there already
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

    def _make_room(self) -> bool:
        """Close the connection that has been idle for longest; false where none is."""
        self.limits.say_full()
        idle = [one for one in self.connections if isinstance(one, Connection) and one._is_idle]
        if not idle:
            return False
        oldest = min(idle, key=lambda one: one._idle_since)
        oldest._stop_timer()
        oldest.transport.abort()
        self.connections.discard(oldest)
        return True


def within(limits: ConnectionLimits) -> type[Connection]:
    """The class of a server's connections."""
    members: dict[str, Any] = {"limits": limits}
    return type("LimitedConnection", (Connection,), members)
