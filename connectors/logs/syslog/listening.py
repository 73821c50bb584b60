"""Listens for messages on UDP, TCP or TLS: one thread for all senders, which reads only what there is room for.

While the inbox is full, connections are not read, so that TCP holds their senders back; datagrams are read, dropped and
counted.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.logs.syslog.framing import Framer, FramingError
from headrace.connectors.logs.syslog.inbox import Inbox
from headrace.plugins.contracts import RetriableError

_READ_BYTES: Final = 1 << 16
_DATAGRAMS: Final = 1_000
"""The most datagrams that are taken at once."""
_RECEIVE_BYTES: Final = 8 << 20
_HANDSHAKE_S: Final = 10.0
_TELL_S: Final = 10.0
_TICK_S: Final = 1.0
_SCARCE_S: Final = 0.1

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """The place where messages are awaited."""

    kind: str
    """UDP, TCP or TCPSSL."""
    host: str
    port: int
    port_key: str = "syslog.port"

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.port}"


@dataclass
class _Connection:
    socket: socket.socket
    remote: str
    framer: Framer
    since: float
    is_shaking: bool
    is_registered: bool = True


class Listener:
    """Receives messages on a thread of its own until `close`."""

    def __init__(
        self,
        address: Address,
        inbox: Inbox,
        arrived: Callable[[], None],
        context: Callable[[], ssl.SSLContext] | None,
        most_bytes: int,
        most_connections: int,
        idle_s: float,
    ) -> None:
        """`arrived` is called after messages came; `idle_s`: a silent connection is closed after it, 0 never."""
        self.address = address
        self._inbox, self._arrived, self._context = inbox, arrived, context
        self._most_bytes, self._most_connections, self._idle_s = most_bytes, most_connections, idle_s
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, _Connection] = {}
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._ended = False
        self._told: dict[str, float] = {}
        self._told_dropped = 0
        try:
            self._socket = self._bound()
        except BaseException:
            self._woken.close()
            self._wake.close()
            raise
        self.port = self._socket.getsockname()[1]
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=f"syslog-{self.port}", daemon=True)
        self._thread.start()

    def made_room(self) -> None:
        """Has connections read again; any thread may call."""
        with suppress(OSError):
            self._wake.send(b"r")

    def close(self) -> None:
        """Ends the thread and closes all sockets."""
        self._ended = True
        self.made_room()
        self._thread.join(10)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ended:
                self._round()
        except Exception:
            log.exception("Listening on %s ended", self.address)
        finally:
            sockets = [one.socket for one in self._connections.values()]
            for each in (*sockets, self._socket, self._woken, self._wake):
                each.close()
            self._selector.close()

    @property
    def is_alive(self) -> bool:
        """False if the thread ended by an error."""
        return self._thread.is_alive()

    def _round(self) -> None:
        events = self._selector.select(_TICK_S)
        count = self._inbox.counts.received
        for key, _ in events:
            if key.fileobj is self._woken:
                self._woken.recv(4096)
            elif key.fileobj is not self._socket:
                self._read(self._connections[key.fd])
            elif self.address.kind == "UDP":
                self._receive()
            else:
                self._accept()
        self._pace()
        self._expire()
        self._tell_dropped()
        if self._inbox.counts.received != count:
            self._arrived()

    def _receive(self) -> None:
        messages: list[bytes] = []
        remotes: list[str] = []
        counts = self._inbox.counts
        for _ in range(_DATAGRAMS):
            try:
                data, remote = self._socket.recvfrom(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError:  # such as an ICMP answer to nothing of ours
                continue
            messages.append(data[: self._most_bytes])
            counts.truncated += len(data) > self._most_bytes
            remotes.append(_plain(remote[0]))
        if not self._inbox.has_room:
            counts.dropped += len(messages)
        elif messages:
            self._inbox.put(messages, remotes, time.time_ns() // 1_000_000)

    def _accept(self) -> None:
        try:
            accepted, remote = self._socket.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._tell("scarce", "%s: a connection waits, because this process has no room for it: %s. Raise its "
                           "limit of open files, or lower connections.max", self.address, error)  # fmt: skip
                time.sleep(_SCARCE_S)  # the waiting connection would be told of without end
            return
        name = _plain(remote[0])
        if len(self._connections) >= self._most_connections:
            accepted.close()
            self._inbox.counts.refused += 1
            self._tell("full", "%s: a connection of %s is refused: there are %d, the most of connections.max",
                       self.address, name, self._most_connections)  # fmt: skip
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._context is not None:
            try:
                accepted = self._context().wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
            except (OSError, ConfigError) as error:
                accepted.close()
                self._tell("tls", "%s: a connection of %s cannot be secured: %s", self.address, name, error)
                return
        one = _Connection(accepted, name, Framer(self._most_bytes), time.monotonic(), self._context is not None)
        self._connections[accepted.fileno()] = one
        self._selector.register(accepted, selectors.EVENT_READ)

    def _read(self, one: _Connection) -> None:
        try:
            if one.is_shaking:
                one.socket.do_handshake()  # type: ignore[attr-defined]
                one.is_shaking = False
            while True:
                data = one.socket.recv(_READ_BYTES)
                self._took(one, data)
                # What TLS has deciphered already is no event of the socket.
                if not data or not getattr(one.socket, "pending", int)() or not self._inbox.has_room:
                    break
        except (BlockingIOError, ssl.SSLWantReadError):
            # A sender that made TLS wait to write would else be told of without end.
            self._selector.modify(one.socket, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._selector.modify(one.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
        except (OSError, FramingError) as error:
            self._inbox.counts.refused += 1
            self._drop(one)
            self._tell("broken", "%s: a connection of %s is broken off: %s", self.address, one.remote, error)

    def _took(self, one: _Connection, data: bytes) -> None:
        one.since = time.monotonic()
        if not data:
            self._drop(one)
        truncated = one.framer.truncated
        messages = one.framer.feed(data) if data else one.framer.rest()
        self._inbox.counts.truncated += one.framer.truncated - truncated
        messages = [message for message in messages if message.strip(b"\r\0 ")]
        if messages:
            self._inbox.put(messages, [one.remote] * len(messages), time.time_ns() // 1_000_000)

    def _pace(self) -> None:
        """Reads connections only while there is room."""
        has_room = self._inbox.has_room
        for one in list(self._connections.values()):
            if one.is_registered and not has_room:
                self._selector.unregister(one.socket)
                one.is_registered = False
            elif has_room and not one.is_registered:
                self._selector.register(one.socket, selectors.EVENT_READ)
                one.is_registered = True
                one.since = time.monotonic()  # it was not read, so it was not silent
                if getattr(one.socket, "pending", int)():
                    self._read(one)

    def _expire(self) -> None:
        now = time.monotonic()
        for one in list(self._connections.values()):
            most = _HANDSHAKE_S if one.is_shaking else self._idle_s
            if most and one.is_registered and now - one.since > most:
                self._drop(one)
                if one.is_shaking:
                    self._inbox.counts.refused += 1
                    self._tell("handshake", "%s: %s did not finish its TLS handshake in %d s", self.address,
                               one.remote, most)  # fmt: skip

    def _drop(self, one: _Connection) -> None:
        if self._connections.pop(one.socket.fileno(), None) is not None:
            if one.is_registered:
                self._selector.unregister(one.socket)
            one.socket.close()

    def _tell_dropped(self) -> None:
        counts = self._inbox.counts
        lost = counts.dropped + counts.truncated
        if lost > self._told_dropped and self._tell(
            "dropped",
            "%s: %d messages were dropped so far because Kafka takes fewer than arrive, and %d were cut at "
            "message.max.bytes",
            self.address, counts.dropped, counts.truncated,
        ):  # fmt: skip
            self._told_dropped = lost

    def _tell(self, kind: str, text: str, *values: Any) -> bool:
        """Logs a warning, each kind once in a while: anybody may cause it."""
        now = time.monotonic()
        if now - self._told.get(kind, -_TELL_S) < _TELL_S:
            return False
        self._told[kind] = now
        log.warning(text, *values)
        return True

    def _bound(self) -> socket.socket:
        """Errors: RetriableError if the port is taken; ConfigError if this worker may not or cannot listen there."""
        address = self.address
        kind = socket.SOCK_DGRAM if address.kind == "UDP" else socket.SOCK_STREAM
        try:
            family, *_, where = socket.getaddrinfo(address.host, address.port, type=kind, flags=socket.AI_PASSIVE)[0]
            made = socket.socket(family, kind)
        except OSError as error:
            raise ConfigError(Problem(
                "syslog.listen.address", address.host, f"It is no address of this machine: {error}."
            )) from error  # fmt: skip
        try:
            made.setblocking(False)
            if kind == socket.SOCK_DGRAM:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            else:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(where)
            if kind == socket.SOCK_STREAM:
                made.listen(128)
        except OSError as error:
            made.close()
            raise _refusal(address, error) from error
        return made


def _refusal(address: Address, error: OSError) -> Exception:
    if error.errno == errno.EADDRINUSE:
        return RetriableError(
            f"{address} is taken by another process or connector of this machine. End it, or choose another "
            f"{address.port_key}."
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        text = "This worker's user may not listen on ports below 1024."
        remedy = "Choose a higher port and have senders or the firewall lead there, or give the worker's process the "
        return ConfigError(Problem(address.port_key, str(address.port), text, remedy + "right CAP_NET_BIND_SERVICE."))
    return ConfigError(Problem(
        "syslog.listen.address", address.host, f"This machine cannot listen there: {error.strerror}."
    ))  # fmt: skip


def _plain(address: str) -> str:
    return address.removeprefix("::ffff:")
