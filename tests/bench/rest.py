"""Measures how fast a worker answers `GET /connectors/{c}/status`, with nothing to do and at full speed.

A closed loop: each of 8 connections asks again as soon as it is answered, from one thread of a process of its own, so
that what is measured is the server.
"""

import multiprocessing
import selectors
import shutil
import socket
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.cluster import Cluster
from tests.bench.context import Bench, Figures
from tests.bench.latency import HELLO, LEAD_S, Schedule, percentile, sleep_until
from tests.bench.lines import LINE_BYTES
from tests.bench.processes import Failed
from tests.bench.sides import Side

CONNECTIONS = 8
TASKS = 4
MOST_LINES_S = 250_000  # of one task of four on two cores: the file must not end before the window
FLOW_BOUND_S = 180


def idle(bench: Bench, side: Side) -> Figures:
    """Four file sources whose files do not grow."""
    with bench.run("rest-idle") as run, Cluster(run, side) as cluster:
        file = run.directory / "in.txt"
        file.write_text(f"{HELLO}\n")
        topics = _start_sources(cluster, file)
        cluster.until(lambda: all(bench.topics.end(t) > 0 for t in topics), "a line in each topic", FLOW_BOUND_S, 0.1)
        cluster.wait_at_rest()
        return _measure(cluster, f"{run.name}-source-0")


def loaded(bench: Bench, side: Side) -> Figures:
    """Four file sources in the middle of a big file."""
    with bench.run("rest-loaded") as run, Cluster(run, side) as cluster:
        file = _long_file(bench, run.directory / "in.txt")
        count = file.stat().st_size // LINE_BYTES
        topics = _start_sources(cluster, file)
        # As many as the throughput file has: just-in-time compilers want to see some.
        cluster.until(
            lambda: sum(map(bench.topics.end, topics)) >= bench.size.lines, "lines in the topics", FLOW_BOUND_S, 0.1
        )
        begin, ends = time.monotonic(), sum(map(bench.topics.end, topics))
        figures = _measure(cluster, f"{run.name}-source-0")
        after = [bench.topics.end(t) for t in topics]
        if max(after) >= count - 1:
            raise Failed(f"{side.name}: a source was done before the window ended: the load was not what it should be")
        return {**figures, "load_rec_s": (sum(after) - ends) / (time.monotonic() - begin)}


def _start_sources(cluster: Cluster, file: Path) -> list[str]:
    run = cluster.run
    topics = run.topics(TASKS)
    sources = [run.source(file, topic, n) for n, topic in enumerate(topics)]
    cluster.start(1)
    for source in sources:
        cluster.create({**source, **cluster.side.source})
    cluster.wait_running({source["name"]: 1 for source in sources})
    return topics


def _long_file(bench: Bench, path: Path) -> Path:
    """The lines again and again: more than a source moves while it is looked at."""
    lines = bench.lines_file()
    seconds = LEAD_S + bench.size.warm_up + bench.size.window
    with path.open("wb") as into:
        while into.tell() < (bench.size.lines + seconds * MOST_LINES_S) * LINE_BYTES:
            with lines.open("rb") as part:
                shutil.copyfileobj(part, into, 1 << 20)
    return path


def _measure(cluster: Cluster, connector: str) -> Figures:
    url = urlsplit(cluster.members[0].url)
    when = Schedule.of(cluster.run.bench)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        asked = pool.submit(ask, str(url.hostname), int(url.port or 0), f"/connectors/{connector}/status", when)
        sleep_until(when.measured)
        begin = cluster.cost()
        sleep_until(when.end)
        spent = cluster.cost() - begin  # the asking process still lives, so that its share is known
        cluster.check()
        took = sorted(asked.result(30))
    if not took:
        raise Failed(f"{cluster.side.name}: no answer within the window")
    return {
        "answers_s": len(took) / (when.end - when.measured),
        "p50_ms": percentile(took, 50),
        "p99_ms": percentile(took, 99),
        "max_ms": took[-1],
        **spent.shares(),
        **cluster.memory(),
    }


def ask(host: str, port: int, path: str, when: Schedule) -> list[float]:
    """The asking process: what each answer to a request sent within the window took.  Units: ms.  Errors: Failed."""
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: application/json\r\n\r\n".encode()
    took: list[float] = []
    sleep_until(when.begin)
    with selectors.DefaultSelector() as selector:
        for _ in range(CONNECTIONS):
            opened = socket.create_connection((host, port), 10)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(opened, selectors.EVENT_READ, _Asker(opened, request))
        waiting = CONNECTIONS
        while waiting:
            ready = selector.select(10)
            if not ready:
                raise Failed("no answer for 10 s")
            for key, _ in ready:
                asker: _Asker = key.data
                if not asker.hear():
                    continue
                now = time.monotonic()
                if when.measured <= asker.sent < when.end:
                    took.append((now - asker.sent) * 1000)
                if now < when.end:
                    asker.ask()
                else:
                    selector.unregister(asker.connection)
                    asker.connection.close()
                    waiting -= 1
    return took


@dataclass
class _Asker:
    """One connection that is kept, with one request under way."""

    connection: socket.socket
    request: bytes
    sent: float = 0.0
    _heard: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.ask()

    def ask(self) -> None:
        """The request is on its way."""
        self._heard.clear()
        self.sent = time.monotonic()
        self.connection.sendall(self.request)

    def hear(self) -> bool:
        """Read a part of the answer; True once it has come whole.

        Errors: Failed for an answer that is not 200 or has no length.
        """
        chunk = self.connection.recv(1 << 16)
        if not chunk:
            raise Failed("the worker closed a connection")
        self._heard += chunk
        head, found, body = self._heard.partition(b"\r\n\r\n")
        return bool(found) and len(body) >= body_length(bytes(head))


def body_length(head: bytes) -> int:
    """Return the length of the body, by the head of a good answer.  Errors: Failed."""
    status, *fields = head.lower().split(b"\r\n")
    lengths = [int(value) for name, _, value in (f.partition(b":") for f in fields) if name == b"content-length"]
    if b" 200" not in status or not lengths:
        raise Failed(f"not the answer that was due: {head[:200]!r}")
    return lengths[0]
