"""Outside systems that fail on command: one in the test's own process, and one that answers HTTP."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit


class Failure(StrEnum):
    """The ways in which an outside system fails as a whole."""

    RETRIABLE = "retriable"
    """It is overloaded or restarts: the same request may succeed later. By HTTP: 503."""
    PERMANENT = "permanent"
    """The same request never succeeds, such as one without rights. By HTTP: 401."""


class Outside:
    """A system in the test's own process; a plugin's fake client calls `meet` at the beginning of each request.

    `errors` says how the client fails. The commands may come from any thread.
    """

    errors: Mapping[Failure, Exception] = {
        Failure.RETRIABLE: ConnectionError("the outside system is overloaded, on command"),
        Failure.PERMANENT: RuntimeError("the outside system refuses the login, on command"),
    }
    """The client's errors; set those of the real one, which the plugin has to tell apart."""
    dropped: Exception = ConnectionResetError("the connection was dropped, on command")
    """The client's error if its connection is lost."""

    def __init__(self) -> None:
        self.refused: Collection[Any] = frozenset()
        """Values that it refuses, each for itself. By HTTP: 422, if `answer` says so."""
        self.failed = 0
        """The number of requests that failed on command."""
        self.waiting = 0
        """The number of requests that a `slow` holds up now."""
        self._next: Failure | Exception | None = None
        self._after = 0
        self._slow_s = 0.0
        self._healed = threading.Event()
        self._lock = threading.Lock()

    # -- commands ------------------------------------------------------------------------------------------------------

    def fail_next(self, error: Failure | Exception, after: int = 0) -> None:
        """Fail one request: the next one, or the one after so many others."""
        with self._lock:
            self._next, self._after = error, after

    def drop_connection(self, after: int = 0) -> None:
        """Drop the connection in the next request, or in the one after so many others."""
        self.fail_next(self.dropped, after)

    def restart(self) -> None:
        """Stop and start again: all connections are lost."""
        self.drop_connection()

    def slow(self, seconds: float) -> None:
        """Take so long for each request from now on."""
        self._healed.clear()
        self._slow_s = seconds

    def refuse(self, values: Collection[Any]) -> None:
        """Refuse these values from now on, and take the others of a request."""
        self.refused = frozenset(values)

    def heal(self) -> None:
        """Take all commands back."""
        with self._lock:
            self._next, self._slow_s, self.refused = None, 0.0, frozenset()
        self._healed.set()

    # -- requests ------------------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """Begin a request. Errors: what a command says."""
        due = self.due()
        if due is not None:
            raise self.errors[due] if isinstance(due, Failure) else due

    def due(self) -> Failure | Exception | None:
        """Begin a request; return how it is to fail."""
        if self._slow_s:
            self._wait()
        with self._lock:
            if self._next is None or self._after > 0:
                self._after -= 1
                return None
            due, self._next = self._next, None
            self.failed += 1
        return due

    def close(self) -> None:
        """End it, with all requests that wait."""
        self.heal()

    def _wait(self) -> None:
        with self._lock:
            self.waiting += 1
        self._healed.wait(self._slow_s)
        with self._lock:
            self.waiting -= 1


@dataclass(frozen=True)
class Request:
    """A request to a `HttpOutside`."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """Return the body's JSON."""
        return json.loads(self.body)


class HttpOutside(Outside, ABC):
    """A service on loopback; `answer` says what it does, and `url` where it is.

        class Shop(HttpOutside):
            def answer(self, request):
                return [price for price in self.prices if price["id"] > int(request.query["since"])]

    A request that fails on command is not shown to `answer`, except for one whose connection is dropped: what it did
    has happened, and the client does not know.
    """

    statuses: ClassVar[Mapping[Failure, int]] = {Failure.RETRIABLE: 503, Failure.PERMANENT: 401}
    headers: Mapping[str, str] = {}
    """Headers of each answer, beside those of its body."""

    def __init__(self) -> None:
        super().__init__()
        self._answering = threading.Lock()
        self._server = self._served(0)
        self._port: int = self._server.server_address[1]

    @property
    def url(self) -> str:
        """The address of the service, the same after a restart."""
        return f"http://127.0.0.1:{self._port}"

    @abstractmethod
    def answer(self, request: Request) -> Any:
        """Return the answer: its JSON value, or `(status, JSON value)`; called by one thread at a time."""

    def restart(self) -> None:
        """Stop and start again at the same address: all connections are lost."""
        self._server.end()
        self._server = self._served(self._port)

    def close(self) -> None:
        """End the service."""
        super().close()
        self._server.end()

    def _served(self, port: int) -> _Server:
        server = _Server(port, self._handle, lambda: self.headers)
        threading.Thread(target=server.serve_forever, args=(0.02,), name="outside", daemon=True).start()
        return server

    def _handle(self, request: Request) -> tuple[int, Any] | None:
        """Return the answer; None: drop the connection."""
        due = self.due()
        if isinstance(due, Failure):
            return self.statuses[due], {"error": f"a {due} failure, on command"}
        with self._answering:
            answer = self.answer(request)
        if due is not None:
            return None
        return answer if isinstance(answer, tuple) else (200, answer)


class _Server(ThreadingHTTPServer):
    """Answers by a function, and can drop its connections."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self,
        port: int,
        handle: Callable[[Request], tuple[int, Any] | None],
        headers: Callable[[], Mapping[str, str]],
    ) -> None:
        self.handle = handle
        self.headers = headers
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away in the middle is no news here."""

    def end(self) -> None:
        """Stop, and drop all connections."""
        self.shutdown()
        self.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer of two packets takes 40 ms
    server: _Server

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, url.path, dict(parse_qsl(url.query)), dict(self.headers), body)
        answer = self.server.handle(request)
        if answer is None:
            self.close_connection = True
            return
        status, value = answer
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in self.server.headers().items():
            self.send_header(name, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
