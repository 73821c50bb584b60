"""The proxy that stands for a link in fault tests passes, cuts, heals and slows."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tests.tcp_proxy import TcpProxy


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def link(echo: int) -> Iterator[TcpProxy]:
    with TcpProxy(echo) as proxy:
        yield proxy


def there_and_back(connection: socket.socket, data: bytes) -> bytes:
    threading.Thread(target=connection.sendall, args=(data,), daemon=True).start()
    got = bytearray()
    while len(got) < len(data):
        more = connection.recv(1 << 16)
        if not more:
            break
        got += more
    return bytes(got)


def is_ended(connection: socket.socket) -> bool:
    """The other side has reset it, or ended it, as the kernel likes."""
    try:
        return connection.recv(1) == b""
    except OSError:
        return True


def connected(link: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=60)


def test_all_bytes_pass_both_ways_on_several_connections(link: TcpProxy) -> None:
    data = bytes(range(256)) * 20_000
    with connected(link) as one, connected(link) as two:
        assert there_and_back(one, data) == data
        assert there_and_back(two, b"two") == b"two"
        assert link.connections == 2
    assert link.passed_bytes >= 2 * len(data)


def test_a_cut_link_drops_what_is_connected_and_refuses_what_comes_until_it_is_healed(link: TcpProxy) -> None:
    with connected(link) as before:
        assert there_and_back(before, b"a") == b"a"
        link.cut()
        assert is_ended(before)
        with pytest.raises(ConnectionRefusedError):
            connected(link)
    link.heal()
    with connected(link) as after:
        assert there_and_back(after, b"c") == b"c"


def test_a_slow_link_carries_so_much_a_second(link: TcpProxy) -> None:
    with connected(link) as one:
        link.slow(bytes_per_s=400_000)
        started = time.monotonic()
        assert len(there_and_back(one, b"x" * 200_000)) == 200_000
        assert 0.4 < time.monotonic() - started < 60
        link.slow()
        assert len(there_and_back(one, b"x" * 2_000_000)) == 2_000_000


def test_a_long_link_takes_its_time_but_many_bytes_are_on_their_way_at_once(link: TcpProxy) -> None:
    with connected(link) as one:
        link.slow(delay_ms=100)
        started = time.monotonic()
        assert there_and_back(one, b"x") == b"x"
        assert time.monotonic() - started > 0.2
        started = time.monotonic()
        assert len(there_and_back(one, b"x" * 10_000_000)) == 10_000_000
        assert time.monotonic() - started < 20  # one read after another, it would be 30 s


def test_a_server_that_is_away_ends_the_connection() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with TcpProxy(unused.getsockname()[1]) as nowhere, connected(nowhere) as one:
            assert is_ended(one)
