"""Watches a running pipe from outside: lines of its files, the end of its topic, its connectors' status.

Decided: the end-to-end delay is sampled at the files and not taken from record timestamps, because a record's timestamp
is when the source read the line, not when it was appended. A sample: the source file is seen to have n lines at t0, the
sink file is first seen to have n lines at t1; the delay is t1 - t0, true to one look (both ends are late by less than
that). Loses: it needs every line of the source to become one line of the sink, in order; a duplicate makes the samples
smaller.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

_CHUNK_BYTES: Final = 1 << 20


class LineCount:
    """Counts the complete lines of a growing file; `\\n`, `\\r\\n` and `\\r` end a line, as for the file source."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self._position = 0
        self._inode = 0
        self._after_cr = False

    def update(self) -> int:
        """Read what was appended and return the count; a file made anew is counted on from its start."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return self.lines
        if found.st_ino != self._inode or found.st_size < self._position:
            self._inode, self._position, self._after_cr = found.st_ino, 0, False
        if found.st_size > self._position:
            with open(self.path, "rb") as file:
                file.seek(self._position)
                # Only up to the size seen: a writer faster than this reader would hold it here for ever.
                while (left := found.st_size - self._position) > 0 and (chunk := file.read(min(left, _CHUNK_BYTES))):
                    self._position += len(chunk)
                    self._count(chunk)
        return self.lines

    def _count(self, chunk: bytes) -> None:
        # A `\r` at the very end may be half of a `\r\n`: it counts with the next byte.
        self.lines += self._after_cr and not chunk.startswith(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        self.lines += chunk.count(b"\n") - self._after_cr
        if b"\r" in chunk:
            self.lines += chunk.count(b"\r") - chunk.count(b"\r\n")


@dataclass(frozen=True, slots=True)
class Delay:
    """Units: milliseconds, over the latest samples."""

    median_ms: float
    max_ms: float


class Delays:
    """Samples of the end-to-end delay; lines from before the first look are no samples."""

    def __init__(self, backlog_lines: int, keep: int = 200) -> None:
        self._noted = backlog_lines
        self._waiting: deque[tuple[int, float]] = deque()
        self._samples: deque[float] = deque(maxlen=keep)

    def look(self, source_lines: int, sink_lines: int, now_s: float) -> None:
        """Note one look at both files."""
        if source_lines > self._noted:
            self._noted = source_lines
            self._waiting.append((source_lines, now_s))
        while self._waiting and self._waiting[0][0] <= sink_lines:
            self._samples.append((now_s - self._waiting.popleft()[1]) * 1000)

    def recent(self) -> Delay | None:
        return Delay(median(self._samples), max(self._samples)) if self._samples else None


class PipeWatch(threading.Thread):
    """Asks worker and broker a few times a second, so that their slow answers never slow the looks at the files."""

    def __init__(self, rest_url: str, bootstrap_servers: str, topic: str, connectors: tuple[str, ...]) -> None:
        super().__init__(name="pipe-watch", daemon=True)
        self.answers = threading.Event()
        self.failure: str | None = None
        self.running = False
        self.topic_records = 0
        self._rest_url = rest_url
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._connectors = connectors
        self._ending = threading.Event()

    def close(self) -> None:
        """End the thread, now or soon; it calls neither worker nor broker again."""
        self._ending.set()
        self.join(timeout=5)

    def run(self) -> None:
        import httpx
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": self._bootstrap_servers, "group.id": "headrace-watch", "log_level": 0}
        consumer = Consumer(settings)
        try:
            with httpx.Client(base_url=self._rest_url, timeout=2, trust_env=False) as client:
                while not self._ending.is_set():
                    self._ask_worker(client)
                    self._ask_broker(consumer)
                    self._ending.wait(0.25)
        finally:
            consumer.close()

    def _ask_worker(self, client: Any) -> None:
        import httpx

        states: list[str] = []
        for name in self._connectors:
            try:
                answer = client.get(f"/connectors/{name}/status")
                self.answers.set()
                if answer.status_code != httpx.codes.OK:
                    return
                status = answer.json()
            except (httpx.HTTPError, ValueError):
                return
            self.failure = self.failure or failure_in(status)
            states += [part["state"] for part in (status["connector"], *status["tasks"])]
            states += [] if status["tasks"] else ["UNASSIGNED"]
        self.running = all(state == "RUNNING" for state in states)

    def _ask_broker(self, consumer: Any) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=2)
        except KafkaException:
            return  # the topic is made with its first record
        self.topic_records = high - low


def failure_in(status: dict[str, Any]) -> str | None:
    """The failed connector or task and its trace, in the body of `GET /connectors/{name}/status`; else None."""
    parts = [(status["name"], status["connector"])]
    parts += [(f"{status['name']} task {task['id']}", task) for task in status["tasks"]]
    for name, part in parts:
        if part["state"] == "FAILED":
            return f"{name} has FAILED: {part.get('trace') or 'no trace'}".rstrip()
    return None
