"""Ports that stay this process's own: a free port is anyone's until a server listens on it."""

from __future__ import annotations

import socket
from typing import Final

_held: Final[list[socket.socket]] = []


def held_port() -> int:
    """A loopback port on which nothing listens; nobody is given it by chance before this process ends.

    A server that sets SO_REUSEADDR, as most do, can listen on it.
    """
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
    _held.append(one)
    port: int = one.getsockname()[1]
    return port
