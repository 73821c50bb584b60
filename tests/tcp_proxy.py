"""A link between a client and a server that a test cuts, heals and slows: a TCP proxy on loopback.

    with TcpProxy(to_port=broker_port) as link:
        link.cut()                                     # connections end, new ones are refused
        link.heal()
        link.slow(bytes_per_s=100_000, delay_ms=80)    # for all connections together, each way
        link.hold(b"alter_table")                      # a request with these bytes never arrives

`ProxiedBroker` has a second listener whose advertised address is such a proxy's: who bootstraps from `link_servers` is
sent through the proxy, who bootstraps from `bootstrap_servers` is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import javaproperties

from headrace.worker.embedded.kafka_broker import Broker
from tests.held_ports import held_port

_READ: Final = 1 << 16
_WAITING: Final = 256
"""So many reads may be on their way in one direction of a connection: more than fast and long links hold."""

_Result = TypeVar("_Result")


class _Direction:
    """One way of the link: what passes takes its turn, whichever connection it is of."""

    def __init__(self) -> None:
        self.bytes_per_s: float | None = None
        self.delay_s = 0.0
        self.passed_bytes = 0
        self.held = 0
        self._holds: bytes | None = None
        self._free_at = 0.0

    def arrival(self, size: int) -> float:
        """The time at which so many bytes, sent now, are there."""
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + (size / self.bytes_per_s if self.bytes_per_s else 0.0)
        return self._free_at + self.delay_s

    def hold(self, words: bytes | None) -> None:
        """Let nothing pass any more on a connection over which these come; None: on no other connection."""
        self._holds = words

    def is_held(self, data: bytes) -> bool:
        """True, and counted, if a connection ends to pass data with these."""
        is_held = self._holds is not None and self._holds in data
        self.held += is_held
        return is_held

    def slice_bytes(self) -> int:
        """The most to send at once, for a slow link to flow and not to jerk."""
        return max(1, int(self.bytes_per_s / 20)) if self.bytes_per_s else _READ


class TcpProxy:
    """Passes connections to `to_port` on; its own port stays its own while the link is cut."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self.port = held_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._there, self._back = _Direction(), _Direction()

    def __enter__(self) -> Self:
        self._thread.start()
        self.heal()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._on_loop(self._end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    @property
    def connections(self) -> int:
        """The number of clients that are connected through it."""
        return len(self._open) // 2

    @property
    def passed_bytes(self) -> int:
        """The bytes that have passed since the beginning, both ways."""
        return self._there.passed_bytes + self._back.passed_bytes

    def cut(self) -> None:
        """Drop all connections, and refuse new ones until `heal`."""
        self._on_loop(self._cut())

    def heal(self) -> None:
        """Accept connections again."""
        self._on_loop(self._heal())

    def slow(self, bytes_per_s: float | None = None, delay_ms: float = 0) -> None:
        """From now on each way carries so much and takes so long; without arguments, as fast as it can."""
        for way in (self._there, self._back):
            way.bytes_per_s, way.delay_s = bytes_per_s, delay_ms / 1000

    def hold(self, words: bytes | None) -> None:
        """Leave a client without an answer from the request on that has these; None: no further client.

        They must come in one piece, as they do in a small request.
        """
        self._there.hold(words)

    @property
    def held(self) -> int:
        """The number of clients that were left without an answer."""
        return self._there.held

    def _on_loop(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _heal(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=_READ)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()

    async def _end_all(self) -> None:
        ours = asyncio.current_task()
        rest = [task for task in asyncio.all_tasks() if task is not ours]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_server = await asyncio.open_connection("127.0.0.1", self._to_port)
        except OSError:
            writer.transport.abort()
            return
        writers = {writer, to_server[1]}
        self._open |= writers
        if self._server is None:  # cut while it was being connected
            writer.transport.abort()
        ways = [
            asyncio.ensure_future(_pass(reader, to_server[1], self._there)),
            asyncio.ensure_future(_pass(to_server[0], writer, self._back)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._open -= writers
            for one in writers:
                one.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Direction) -> None:
    """Until one side ends, everything read from the one is written to the other, after its time on the link."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WAITING)

    async def deliver() -> None:
        while True:
            arrival, data = await waiting.get()
            await asyncio.sleep(arrival - time.monotonic())
            writer.write(data)
            await writer.drain()
            way.passed_bytes += len(data)
            waiting.task_done()

    delivering = asyncio.ensure_future(deliver())
    with contextlib.suppress(OSError):
        try:
            while data := await reader.read(way.slice_bytes()):
                if way.is_held(data):
                    await asyncio.Event().wait()  # until the server or the proxy ends
                await waiting.put((way.arrival(len(data)), data))
                if delivering.done():
                    return
            await waiting.join()
        finally:
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)


class ProxiedBroker(Broker):
    """A broker with a listener more, whose advertised address is the port of a proxy (`behind`) to `link_port`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        link_port: int,
        behind: int,
        settings: Mapping[str, str] | None = None,
        protocol: str = "PLAINTEXT",
    ) -> None:
        super().__init__(data_dir, held_port(), settings=settings)
        self.link_port, self.behind, self._protocol = link_port, behind, protocol

    @property
    def link_servers(self) -> str:
        """`bootstrap.servers` of who is to reach it through the proxy."""
        return f"127.0.0.1:{self.behind}"

    def _write_configs(self, port: int) -> None:
        super()._write_configs(port)
        file = self.data_dir / "server.properties"
        properties = javaproperties.loads(file.read_bytes())
        properties["listeners"] += f",LINK://127.0.0.1:{self.link_port}"
        properties["advertised.listeners"] += f",LINK://127.0.0.1:{self.behind}"
        properties["listener.security.protocol.map"] = f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LINK:{self._protocol}"
        file.write_text(javaproperties.dumps(properties, timestamp=False), encoding="ascii")


@contextlib.contextmanager
def linked_broker(
    data_dir: Path, settings: Mapping[str, str] | None = None, protocol: str = "PLAINTEXT"
) -> Iterator[tuple[ProxiedBroker, TcpProxy]]:
    """A broker that runs, and the link to it, of this security protocol: `(broker, link)`."""
    link_port = held_port()
    with TcpProxy(link_port) as link:
        broker = ProxiedBroker(data_dir, link_port=link_port, behind=link.port, settings=settings, protocol=protocol)
        broker.start()
        try:
            yield broker, link
        finally:
            broker.stop()
