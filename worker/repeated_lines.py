"""Bounds what the log repeats: of equal lines, and of lines from one place, some are written and the others counted.

Each connector and task has bounds of its own. Lines of others, and of requests that read, are equal where they differ
in numbers only; Headrace's only where they do not differ, as a number may be a part of a name. Bounded are INFO and
above; lower levels are asked for.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

EVERY_S: Final = 10.0
MOST_EQUAL: Final = 10
"""Equal lines that are written in ten seconds; one of Kafka's clients, which repeat themselves forty times a second."""
MOST_OF_PLACE: Final = 1_000
"""Lines that one place in the code writes of one connector or task in ten seconds."""
_MOST_KEPT: Final = 10_000
_LONGEST: Final = 1_000

_NUMBERS: Final = re.compile(r"\d+")
_OURS: Final = ("headrace.", "org.apache.kafka.connect.")
_ONCE: Final = ("kafka.", "uvicorn.")
_READS: Final = re.compile(r'"(?:GET|HEAD|OPTIONS) ')


class LeftOut(logging.LogRecord):
    """A line about lines that were left out: its text has no secrets, and `context` is theirs."""

    context: str


@dataclass
class _Seen:
    since: float
    written: int = 0
    left_out: int = 0
    line: LeftOut | None = None
    """The first that was left out."""


class RepeatedLines(logging.Filter):
    """Passes lines within these bounds; once ten seconds are over, a line says how many were left out."""

    def __init__(
        self,
        emit: Callable[[logging.LogRecord], object],
        context: Callable[[], str],
        shown: Callable[[logging.LogRecord], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`emit` writes the lines that count; `context` is of this thread, `shown` a line's message without secrets."""
        super().__init__()
        self._emit = emit
        self._context = context
        self._shown = shown
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[int, _Seen] = {}
        self._next_look = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO:
            return True
        now, context = self._clock(), self._context()
        kind = None if record.exc_info is None or record.exc_info[0] is None else record.exc_info[0].__name__
        client = record.name.endswith(".client") or record.name.startswith(_ONCE)
        equal = hash(("text", record.name, record.levelno, context, _text(record, client), kind))
        place = hash(("place", record.name, record.lineno, context))
        with self._lock:
            over = self._over(now)
            left_out = self._counts(equal, 1 if client else MOST_EQUAL, now) or self._counts(place, MOST_OF_PLACE, now)
        if left_out is not None and left_out.line is None:
            # Invariant 6: redacted here, on the thread and in the scope of the line; later, another's would be taken.
            left_out.line = _about(record, context, self._shown(record))
        self._tell(over)
        return left_out is None

    def flush(self) -> None:
        """Say of all how many were left out."""
        with self._lock:
            seen, self._seen = list(self._seen.values()), {}
        self._tell(seen)

    def _tell(self, seen: list[_Seen]) -> None:
        for one in seen:
            if one.line is not None:
                count = f"{one.left_out:,} lines like this one were left out within {EVERY_S:.0f} s"
                one.line.msg = f"{count}: {one.line.msg}"
                self._emit(one.line)

    def _counts(self, key: int, most: int, now: float) -> _Seen | None:
        """Count a line; what it is counted as where it is left out, None where it is written."""
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen(now)
        if seen.written < most:
            seen.written += 1
            return None
        seen.left_out += 1
        return seen

    def _over(self, now: float) -> list[_Seen]:
        """Those whose ten seconds are over; they are forgotten."""
        if now < self._next_look and len(self._seen) < _MOST_KEPT:
            return []
        everything = len(self._seen) >= _MOST_KEPT
        over = {key: seen for key, seen in self._seen.items() if everything or now - seen.since >= EVERY_S}
        for key in over:
            del self._seen[key]
        self._next_look = min((seen.since for seen in self._seen.values()), default=now) + EVERY_S
        return list(over.values())


def _text(record: logging.LogRecord, client: bool) -> str:
    text = record.getMessage()
    ours = record.name.startswith(_OURS) and not client
    return text if ours and not _READS.search(text) else _NUMBERS.sub("", text)


def _about(record: logging.LogRecord, context: str, shown: str) -> LeftOut:
    text = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
    line = LeftOut(record.name, record.levelno, record.pathname, record.lineno, text, None, None)
    line.context = context
    return line
