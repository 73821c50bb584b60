"""Feeds lines of JSON into a topic, each as one record."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.worker.cli.own_worker import PipeFailed

_CHUNK_BYTES: Final = 1 << 16
_CREATE_S: Final = 60.0
_PARTS: Final = frozenset({"key", "value", "headers"})
_EXAMPLE: Final = '{"key": 1, "value": {"id": 1}, "headers": {"a": "b"}}'


class WrongLine(ValueError):
    """A line is no record; the text says why."""


class Line(NamedTuple):
    """A record as it is sent."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] | None = None


def record_of(text: str, with_keys: bool) -> Line:
    """Read a line: the value, or with keys an object of `key`, `value` and `headers`. Errors: WrongLine."""
    try:
        found = json.loads(text, parse_constant=_refused)
        if not with_keys:
            return Line(None if found is None else text.strip().encode())
        if not isinstance(found, dict) or not found.keys() <= _PARTS or not isinstance(found.get("headers", {}), dict):
            raise WrongLine(f"with --keys a line is an object such as {_EXAMPLE}")
        headers = [(name, _header(value)) for name, value in found.get("headers", {}).items()]
        return Line(_bytes(found.get("value")), _bytes(found.get("key")), headers)
    except WrongLine:
        raise
    except ValueError as error:
        raise WrongLine(f'it is no JSON ({error}); write a text in quotes, as in "text"') from error


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is none of JSON's numbers")


def _bytes(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _header(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else _bytes(value)


def lines_of(file: FileIO) -> Iterator[str]:
    """Yield the lines of a file as they come, the last one also without a line end.

    It reads the file descriptor itself: a thread that waits for standard input inside of Python's buffer would hold its
    lock when the process ends.
    """
    rest = b""
    while chunk := file.read(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", "replace")


def create_topics(bootstrap_servers: str, topics: Sequence[str]) -> None:
    """Create topics of one partition, for a sink looks seldom for topics that are missing. Errors: PipeFailed."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
            made.result(_CREATE_S)
    except KafkaException as error:
        raise PipeFailed(f"the topics {', '.join(topics)} cannot be made: {error}") from error


class RecordFeed(threading.Thread):
    """Sends the lines of a file, or of standard input, to a topic."""

    def __init__(
        self, bootstrap_servers: str, topic: str, file: Path | None, with_keys: bool, tell: Callable[[str], None]
    ) -> None:
        super().__init__(name="record-feed", daemon=True)
        self.ended = threading.Event()
        """Set once all lines were sent."""
        self.refused = 0
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": 0})
        self._topic, self._file, self._with_keys, self._tell = topic, file, with_keys, tell

    def run(self) -> None:
        """Send line after line; a line that is no record is told and left out."""
        try:
            with FileIO(0, closefd=False) if self._file is None else FileIO(self._file) as file:
                for number, text in enumerate(lines_of(file), 1):
                    self._feed(number, text)
            self._producer.flush()
        except OSError as error:
            self._refuse(f"{self._file or 'standard input'} cannot be read: {error.strerror}")
        finally:
            self.ended.set()

    def _feed(self, number: int, text: str) -> None:
        if not text.strip():
            return
        try:
            record = record_of(text, self._with_keys)
            self._send(record)
        except (WrongLine, KafkaException) as error:
            self._refuse(f"line {number} was not sent: {error}")

    def _send(self, record: Line) -> None:
        while True:
            try:
                self._producer.produce(self._topic, on_delivery=self._delivered, **record._asdict())
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._refuse(f"a record was not sent: {error}")

    def _refuse(self, why: str) -> None:
        self.refused += 1
        self._tell(why)
