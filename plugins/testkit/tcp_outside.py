"""A link to a real server that fails on command: a TCP proxy on loopback."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final

from headrace.plugins.testkit.outside import Failure, Outside

_READ: Final = 1 << 16


class TcpOutside(Outside):
    """Passes connections to a server on; `port` is the one for the plugin's config.

    A request is what a client sends at once. A retriable failure is a lost connection. How a permanent one comes about
    only the server's test can know: override `fail_next` for it, such as by taking away a right.
    """

    def __init__(self, to_port: int, to_host: str = "127.0.0.1") -> None:
        super().__init__()
        self._server = (to_host, to_port)
        self._open: set[socket.socket] = set()
        self._listening = self._listen(0)
        self.port: int = self._listening.getsockname()[1]

    def fail_next(self, error: Failure | Exception, after: int = 0) -> None:
        """Drop the connection in one request. Errors: NotImplementedError for a permanent failure."""
        if error is Failure.PERMANENT:
            raise NotImplementedError(f"{type(self).__name__} overrides no fail_next for {error!r}")
        super().fail_next(self.dropped, after)

    def restart(self) -> None:
        """Drop all connections, and take new ones."""
        self._end()
        self._listening = self._listen(self.port)

    def close(self) -> None:
        """End the link."""
        super().close()
        self._end()

    def _listen(self, port: int) -> socket.socket:
        listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listening,), name="outside", daemon=True).start()
        return listening

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                try:
                    server = socket.create_connection(self._server, timeout=10)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                self._open |= {client, server}
                for ends in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass, args=ends, name="outside", daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_READ):
                if is_request and self.due() is not None:
                    break
                target.sendall(data)
        for one in (source, target):
            self._open.discard(one)
            _drop(one)

    def _end(self) -> None:
        _drop(self._listening)
        for one in list(self._open):
            _drop(one)


def _drop(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
