"""Large requests over TLS, and the time after which a broker counts as out of reach."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.copy import connection
from headrace.connectors.mirror.copy.connection import ClusterConnection
from headrace.connectors.mirror.copy.transports import _TlsTransport
from headrace.plugins.interop.kafka.kafka_python_internals import NetworkSelector


class NarrowSocket:
    """Takes so many bytes at once, and none after so many calls."""

    def __init__(self, at_once: int, calls: int) -> None:
        self.at_once, self.calls = at_once, calls
        self.taken: list[memoryview] = []

    def send(self, data: memoryview) -> int:
        if not self.calls:
            raise ssl.SSLWantWriteError
        self.calls -= 1
        self.taken.append(data[: self.at_once])
        return len(self.taken[-1])


def test_what_is_left_of_a_request_is_never_copied() -> None:
    transport: Any = object.__new__(_TlsTransport)
    request = bytes(range(100))
    transport._sock, transport._write_buffer = NarrowSocket(16, 3), deque([request, b"next"])
    assert transport._sock_send() == (48, None)
    transport._sock.calls = 100
    assert transport._sock_send() == (56, None)
    pieces: list[memoryview] = transport._sock.taken
    assert b"".join(pieces) == request + b"next"
    assert all(piece.obj is request for piece in pieces[:-1])


@pytest.fixture
def cluster() -> Iterator[ClusterConnection]:
    net = NetworkSelector()
    made = ClusterConnection(net, ClientConfig("consumer", {"bootstrap.servers": "127.0.0.1:1"}), "source (A)")
    yield made
    made.close()
    net.close()


def test_a_connection_that_is_being_made_is_waited_for_a_moment(
    cluster: ClusterConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = SimpleNamespace(initializing=True, paused=set())
    monkeypatch.setattr(cluster._manager, "get_connection", lambda node: broker)
    now = 100.0
    monkeypatch.setattr(connection.time, "monotonic", lambda: now)
    cluster._connected_by = now + 2
    assert not cluster.is_ready(1)
    now += 3
    with pytest.raises(errors.NodeNotReadyError, match="broker 1 does not answer yet"):
        cluster.is_ready(1)
    broker.initializing = False
    assert cluster.is_ready(1)
    broker.paused.add("throttle")
    assert not cluster.is_ready(1)
