"""Serves an ASGI app on its own thread, and leaves signals to the process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Final

import uvicorn
from anyio import to_thread
from starlette.types import ASGIApp

from headrace.config.problems import ConfigError, Problem
from headrace.config.tls import RenewedContext
from headrace.config.worker.listeners import Listener
from headrace.rest.connections import Connection, ConnectionLimits, within

_DRAIN_SECONDS: Final = 2
_TICK_SECONDS: Final = 1.0
_THREADS: Final = 200
"""Threads for handlers, as many as in Connect's server."""


class HttpServer:
    """Listens once constructed; requests before `start` wait for it."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        setting: str = "listeners",
        limits: ConnectionLimits | None = None,
        tls: RenewedContext | None = None,
    ) -> None:
        """Binds all listeners; `setting` names them in errors; `limits` apply to all their connections together.

        `tls` is for the listeners with https.

        Errors: ConfigError if one cannot be bound.
        """
        self._sockets: list[socket.socket] = []
        self.bound: list[Listener] = []
        """The listeners with their actual ports."""
        try:
            for listener in listeners:
                self._sockets.append(_bind(listener, setting))
                self.bound.append(listener.bound(self._sockets[-1].getsockname()[1]))
        except ConfigError:
            self._close()
            raise
        self._limits = limits or ConnectionLimits()
        self._tls = tls
        self._server: _Uvicorn | None = None
        self._thread: threading.Thread | None = None

    def start(self, app: ASGIApp) -> None:
        """Starts to answer requests with this app."""
        # Uvicorn's log lines go to our handlers; its access log is off, because we have our own.
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=within(self._limits),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
        server = self._server = _Uvicorn(config, self._secure())
        # Off the main thread uvicorn leaves signals alone.
        self._thread = threading.Thread(
            target=server.run, kwargs={"sockets": self._sockets}, name="rest-server", daemon=True
        )
        self._thread.start()
        server.is_started.wait()

    def stop(self) -> None:
        """Closes all listeners; requests in progress have two seconds to end."""
        if self._server is not None and self._thread is not None:
            self._server.end()
            self._thread.join(_DRAIN_SECONDS + 1)
            self._server.force_exit = True
        self._close()

    def _secure(self) -> dict[socket.socket, type[Connection]]:
        """The sockets with https, each with its connections' protocol."""
        if self._tls is None:
            return {}
        protocol = within(self._limits, self._tls)
        return {one: protocol for one, at in zip(self._sockets, self.bound, strict=True) if at.scheme == "https"}

    def _close(self) -> None:
        for one in self._sockets:
            one.close()


class _Uvicorn(uvicorn.Server):
    """Signals when it has started, and ends when told, without polling ten times a second."""

    def __init__(self, config: uvicorn.Config, secure: Mapping[socket.socket, type[Connection]]) -> None:
        """`secure`: the sockets with https, each with its connections' protocol."""
        super().__init__(config)
        self._secure = secure
        self.is_started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Ends the server; called from another thread, once it has started."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self._loop.call_soon_threadsafe(self._ended.set)

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):  # the tick sets the Date header
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _TICK_SECONDS)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # A request that waits for the herder or for another worker holds a thread.
        to_thread.current_default_thread_limiter().total_tokens = _THREADS
        await super().startup([one for one in sockets or () if one not in self._secure])
        for one, protocol in self._secure.items():
            self.servers.append(await self._listen(one, protocol))
        self.is_started.set()

    async def _listen(self, bound: socket.socket, protocol: type[Connection]) -> asyncio.base_events.Server:
        def connection() -> Connection:
            return protocol(self.config, self.server_state, self.lifespan.state)

        return await asyncio.get_running_loop().create_server(connection, sock=bound, backlog=self.config.backlog)


def _bind(listener: Listener, setting: str) -> socket.socket:
    try:
        if not listener.host and socket.has_dualstack_ipv6():
            bound = socket.create_server(("::", listener.port), family=socket.AF_INET6, dualstack_ipv6=True)
        else:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            bound = socket.create_server((listener.host, listener.port), family=family)
    except OSError as error:
        why = f"It cannot be bound: {error.strerror or error}."
        raise ConfigError(Problem(setting, str(listener), why, "Free the port, or set another.")) from error
    # Connections inherit it. asyncio sets it only if the socket's protocol is IPPROTO_TCP; create_server leaves it 0.
    # Without it each answer on a kept connection waits 40 ms for the client's delayed ACK.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound
