"""A proxy of a cluster of one broker that answers metadata as a fenced broker does: with no broker, or no leaders.

    with MetadataProxy(mock.bootstrap) as proxy:
        proxy.fence()      # from now on there are no brokers
        proxy.heal()

A client that bootstraps from `proxy.servers` goes through it for good: it replaces the broker's address by its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self

from kafka.errors import LeaderNotAvailableError
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

METADATA: Final = 3
FIND_COORDINATOR: Final = 10
_NOBODY: Final = -1


class MetadataProxy:
    """Passes requests to the broker on, and its answers back."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        """The broker's own address, for clients that do not go through the proxy."""
        self._host, _, port = broker.rpartition(":")
        self._port = int(port)
        self._fenced = self._leaderless = False
        self.fenced_answers = 0
        """The number of metadata answers that said that there are no brokers."""
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="metadata-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._on_loop(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.advertised_port = self.port
        """The port that clients connect to after they have bootstrapped."""
        return self

    def __exit__(self, *_: object) -> None:
        self._on_loop(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    @property
    def servers(self) -> str:
        """`bootstrap.servers` for clients that go through it."""
        return f"127.0.0.1:{self.port}"

    def fence(self) -> None:
        """Answer from now on as a fenced broker does: no broker is there, and no partition has a leader."""
        self._fenced = self._leaderless = True

    def lose_leaders(self) -> None:
        """Answer from now on that the broker is there, and that no partition has a leader."""
        self._leaderless = True

    def heal(self) -> None:
        """Answer from now on as the broker does."""
        self._fenced = self._leaderless = False

    def _on_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _end(self) -> None:
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        while rest := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.gather(*rest, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection(self._host, self._port)
        self._open |= {writer, to_broker}
        if not self._server.is_serving():  # ended while it was being connected
            writer.transport.abort()
        asked: dict[int, tuple[int, int]] = {}

        def note(request: bytes) -> bytes:
            kind, version, correlation = struct.unpack_from(">hhi", request)
            if kind in self._changes:
                asked[correlation] = kind, version
            return request

        def change(answer: bytes) -> bytes:
            kind, version = asked.pop(struct.unpack_from(">i", answer)[0], (None, 0))
            return answer if kind is None else self._changes[kind](self, answer, version)

        ways = [asyncio.ensure_future(_pass(reader, to_broker, note))]
        ways += [asyncio.ensure_future(_pass(from_broker, writer, change))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for one in (writer, to_broker):
                one.transport.abort()
            self._open -= {writer, to_broker}

    def _metadata(self, answer: bytes, version: int) -> bytes:
        told = MetadataResponse.decode(answer, version=version, header=True)
        for broker in told.brokers:
            broker.host, broker.port = "127.0.0.1", self.advertised_port
        if self._fenced:
            told.brokers, told.controller_id = [], _NOBODY
            self.fenced_answers += 1
        if self._leaderless:
            for topic in told.topics:
                for partition in topic.partitions:
                    partition.leader_id, partition.error_code = _NOBODY, LeaderNotAvailableError.errno
        return bytes(told.encode(header=True))

    def _coordinator(self, answer: bytes, version: int) -> bytes:
        told = FindCoordinatorResponse.decode(answer, version=version, header=True)
        for one in told.coordinators if version >= 4 else [told]:
            if one.host:
                one.host, one.port = "127.0.0.1", self.advertised_port
        return bytes(told.encode(header=True))

    _changes: Final[dict[int, Callable[[MetadataProxy, bytes, int], bytes]]] = {
        METADATA: _metadata,
        FIND_COORDINATOR: _coordinator,
    }


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, changed: Callable[[bytes], bytes]) -> None:
    """Write each message from one side to the other, until one of them ends."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            message = changed(await reader.readexactly(size))
            writer.write(struct.pack(">i", len(message)) + message)
            await writer.drain()
