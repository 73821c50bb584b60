"""Numbered lines on their way: when each was sent, and which have arrived at one end."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

_AT_ONCE: Final = 5_000


def line(stream: str, number: int) -> str:
    """Make the line of a number: no two are equal."""
    return f"{number:09d} {stream}"


class Stream:
    """The lines that one source sends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent_at = array("d")
        """The moment at which each was sent, by its number."""

    def next_line(self, now: float) -> str:
        """Count one more as sent."""
        self.sent_at.append(now)
        return line(self.name, len(self.sent_at) - 1)


class End:
    """A place at which lines of a stream arrive."""

    def __init__(self, name: str, stream: Stream, counts: Callable[[int], bool] = lambda number: True) -> None:
        """`counts` tells which numbers are to arrive here."""
        self.name = name
        self.stream = stream
        self.counts = counts
        self.odd: list[bytes] = []
        """Lines that were never sent, or are torn."""
        self.twice = 0
        self._seen = bytearray()
        self._oldest = 0

    def look(self) -> None:
        """Take what came since the last look; for an end that is a topic `TopicEnds` does."""

    def take(self, values: Iterable[bytes]) -> None:
        """Count these as arrived."""
        for value in values:
            self._take(value)

    def _take(self, value: bytes) -> None:
        number = int(value[:9]) if value[:9].isdigit() else -1
        sent = 0 <= number < len(self.stream.sent_at) and value == line(self.stream.name, number).encode()
        if not sent or not self.counts(number):
            self.odd.append(value)
            return
        if number >= len(self._seen):
            self._seen.extend(bytes(max(number + 1 - len(self._seen), 1024)))
        self.twice += self._seen[number]
        self._seen[number] = 1

    def waiting(self) -> Sequence[int]:
        """List the numbers that are still to arrive."""
        return [number for number in range(self._first(), len(self.stream.sent_at)) if not self._there(number)]

    def late_s(self, now: float) -> float:
        """Tell how long ago the oldest line was sent that has not arrived; 0 if all have."""
        first = self._first()
        return now - self.stream.sent_at[first] if first < len(self.stream.sent_at) else 0.0

    @property
    def arrived(self) -> int:
        """The count of different lines that have arrived."""
        return self._seen.count(1)

    def _first(self) -> int:
        while self._oldest < len(self.stream.sent_at) and self._there(self._oldest):
            self._oldest += 1
        return self._oldest

    def _there(self, number: int) -> bool:
        return not self.counts(number) or (number < len(self._seen) and self._seen[number] == 1)


class FileEnd(End):
    """Lines in a sink's file."""

    def __init__(self, name: str, stream: Stream, path: Path, counts: Callable[[int], bool] = lambda number: True):
        super().__init__(name, stream, counts)
        self._path = path
        self._read = 0

    def look(self) -> None:
        """Take what came since the last look."""
        if not self._path.exists() or self._path.stat().st_size == self._read:
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        if newline:
            self._read += len(whole) + 1
            self.take(whole.split(b"\n"))


class TableEnd(End):
    """Lines in a sink's table in SQLite."""

    def __init__(self, name: str, stream: Stream, path: Path, table: str) -> None:
        super().__init__(name, stream)
        self._path = path
        self.table = table
        self._read = 0

    def look(self) -> None:
        """Take what came since the last look."""
        if not self._path.exists():
            return
        with closing(sqlite3.connect(self._path, timeout=30)) as database:
            there = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [self.table]).fetchone()
            rows = (
                there
                and database.execute(
                    f'SELECT rowid, line FROM "{self.table}" WHERE rowid > ? ORDER BY rowid', [self._read]
                ).fetchall()
            )
        if rows:
            self._read = rows[-1][0]
            self.take(text.encode() for _, text in rows)


class TopicEnds:
    """Lines in topics of one partition each, read by one consumer."""

    def __init__(self, bootstrap: str, ends: dict[str, End]) -> None:
        """Begin at the first records of topics that exist."""
        self._ends = ends
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "soak-look", "enable.auto.commit": False, "log_level": 2}
        )
        if ends:
            self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in ends])

    def look(self) -> None:
        """Take what has come since the last look."""
        while self._ends and (messages := self._consumer.consume(_AT_ONCE, timeout=0.2)):
            for message in messages:
                if message.error() is None:
                    self._ends[message.topic()].take([message.value() or b""])

    def close(self) -> None:
        """Let the consumer go."""
        self._consumer.close()
