"""A compacted topic in memory that several workers of a test may open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from headrace.config.worker.config import WorkerConfig
from headrace.plugins.errors import RetriableError
from headrace.worker.storage.compacted_topic import TopicRecord, TopicSettings

CONFIG = WorkerConfig.distributed(
    {
        "bootstrap.servers": "127.0.0.1:9",
        "group.id": "group",
        "key.converter": "JsonConverter",
        "value.converter": "JsonConverter",
        "config.storage.topic": "configs",
        "offset.storage.topic": "offsets",
        "offset.flush.timeout.ms": "200",
        "status.storage.topic": "statuses",
        "config.history.topic": "history",
    }
)

NOW_MS = 1_800_000_000_000
"""The timestamp of the first record."""


class FakeLog:
    """The records of the topic, and its followers."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while records are added and read: each is read once, and those of one write together."""
        self.records: list[TopicRecord] = []
        self.topics: list[FakeTopic] = []
        self.errors: list[Exception] = []
        """Errors that the next sends fail with, one each."""
        self.held: list[tuple[bytes, bytes | None, Future[int]]] | None = None
        """While it is a list, what is sent waits there."""

    def open(self, _settings: TopicSettings, on_record: Callable[[TopicRecord], None]) -> FakeTopic:
        """As the constructor of `CompactedTopic`."""
        self.topics.append(FakeTopic(self, on_record))
        return self.topics[-1]

    def put(self, key: str | bytes, value: str | bytes | None) -> int:
        """Some other worker's record; returns its offset."""
        made = [None if text is None else text if isinstance(text, bytes) else text.encode() for text in (key, value)]
        with self.lock:
            offset = len(self.records)
            self.records.append(TopicRecord(made[0], made[1], 0, offset, NOW_MS + offset))
            for topic in self.topics:
                topic.follow()
            return offset

    def arrive(self) -> None:
        """Let arrive what was held back."""
        held, self.held = self.held or [], None
        for key, value, future in held:
            future.set_result(self.put(key, value))

    def pairs(self) -> list[tuple[str, str | None]]:
        """Keys and values so far."""
        return [((r.key or b"").decode(), None if r.value is None else r.value.decode()) for r in self.records]


class FakeTopic:
    """One worker's view; what it has sent is read at once, unless it lags."""

    def __init__(self, log: FakeLog, on_record: Callable[[TopicRecord], None]) -> None:
        self.log = log
        self.on_record = on_record
        self.read = 0
        self.lags = True

    def start(self, timeout_s: float) -> None:
        self.lags = False
        self.follow()

    def follow(self) -> None:
        with self.log.lock:
            while not self.lags and self.read < len(self.log.records):
                record = self.log.records[self.read]
                self.read += 1
                self.on_record(record)

    def read_to_end(self, timeout_s: float) -> None:
        with self.log.lock:
            lags, self.lags = self.lags, False
            self.follow()
            self.lags = lags

    def send(self, key: bytes, value: bytes | None) -> Future[int]:
        future: Future[int] = Future()
        if self.log.errors:
            future.set_exception(self.log.errors.pop(0))
        elif self.log.held is not None:
            self.log.held.append((key, value, future))
        else:
            future.set_result(self.log.put(key, value))
        return future

    def send_all(self, records: list[tuple[bytes, bytes | None]], timeout_s: float) -> list[int]:
        with self.log.lock:
            sent = [self.send(key, value) for key, value in records]
        return [one.result(timeout_s) for one in sent]

    def withdraw(self) -> None:
        held, self.log.held = self.log.held or [], None
        for _, _, future in held:
            future.set_exception(RetriableError("withdrawn"))

    def stop(self) -> None:
        self.log.topics.remove(self)
