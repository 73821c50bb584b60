"""Bounds repetition in the log: of equal lines, and of lines from one place, some are written, the others counted.

Each connector and task has bounds of its own. Headrace's lines are equal if they do not differ at all, as a number may
be a part of a name; other loggers' lines, and those of requests that read, if they differ in numbers only. Only INFO
and above are bounded; lower levels are asked for.

A line that goes on, such as each client's while a broker is away, is counted over periods that double up to ten
minutes. After ten seconds without it, it is a new one.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 10.0
"""The first period over which lines are counted, and the silence after which they are new."""
LONGEST_S: Final = 600.0
"""The longest period."""
MOST_EQUAL: Final = 10
"""Equal lines written in the first period; of Kafka's clients, which repeat themselves at once, one."""
MOST_OF_PLACE: Final = 1_000
"""Lines of one place in the code and one connector or task that are written in the first period."""
_MOST_KEPT: Final = 10_000
_LONGEST: Final = 1_000

_NUMBERS: Final = re.compile(r"\d+")
_OURS: Final = ("headrace.", "org.apache.kafka.connect.")
_ONCE: Final = ("kafka.", "uvicorn.")
_READS: Final = re.compile(r'"(?:GET|HEAD|OPTIONS) ')


class LeftOut(logging.LogRecord):
    """A line about lines that were left out: its text has no secrets, and `context` and `connector` are theirs."""

    context: str
    connector: str


@dataclass
class _LineCount:
    """A kind of line, counted over a period."""

    since: float
    last: float
    lasts_s: float = FIRST_S
    written: int = 0
    left_out: int = 0
    example: LeftOut | None = None
    """The first one that was left out."""

    @property
    def ends(self) -> float:
        """The end of the period, or of the silence after the last line."""
        return min(self.since + self.lasts_s, self.last + FIRST_S)

    def goes_on(self, now: float) -> bool:
        """True if lines were left out, the last one a short time ago."""
        return self.left_out > 0 and now - self.last < FIRST_S

    def next_period(self, now: float) -> _LineCount:
        """A longer period, in which no line is written."""
        return _LineCount(now, self.last, min(2 * self.lasts_s, LONGEST_S), self.written)

    def summary(self) -> LeftOut | None:
        """The line with the number of lines left out; None if no line was."""
        if self.example is None:
            return None
        count = f"{self.left_out:,} lines like this one were left out within {self.lasts_s:.0f} s"
        example = self.example
        return _left_out(example, f"{count}: {example.msg}", example.context, example.connector)


class RepeatedLines(logging.Filter):
    """Passes lines within these bounds; at the end of a period a line gives the number left out."""

    def __init__(
        self,
        emit: Callable[[logging.LogRecord], object],
        context: Callable[[], str],
        shown: Callable[[logging.LogRecord], str],
        clock: Callable[[], float] = time.monotonic,
        connector: Callable[[], str] = str,
    ) -> None:
        """`emit` writes the summaries; `context`, `connector`: this thread's; `shown`: a message without secrets."""
        super().__init__()
        self._emit = emit
        self._context = context
        self._shown = shown
        self._connector = connector
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[int, _LineCount] = {}
        self._next_look = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO:
            return True
        now, context = self._clock(), self._context()
        raised = record.exc_info[0] if record.exc_info else None  # False, if a caller says `exc_info=False`
        kind = None if raised is None else raised.__name__
        client = record.name.endswith(".client") or record.name.startswith(_ONCE)
        equal = hash(("text", record.name, record.levelno, context, _text(record, client), kind))
        place = hash(("place", record.name, record.lineno, context))
        with self._lock:
            over = self._over(now)
            left_out = self._counts(equal, 1 if client else MOST_EQUAL, now) or self._counts(place, MOST_OF_PLACE, now)
        if left_out is not None and left_out.example is None:
            # Invariant 6: redacted here, on the thread and in the scope of the line; later, another's would be taken.
            left_out.example = _left_out(record, _cut(self._shown(record)), context, self._connector())
        self._tell(over)
        return left_out is None

    def flush(self) -> None:
        """Write the counts of all lines left out."""
        with self._lock:
            seen, self._seen = list(self._seen.values()), {}
        self._tell(seen)

    def _tell(self, seen: list[_LineCount]) -> None:
        for one in seen:
            if (summary := one.summary()) is not None:
                self._emit(summary)

    def _counts(self, key: int, most: int, now: float) -> _LineCount | None:
        """Count a line; return its kind if it is left out, None if it is written."""
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _LineCount(now, now)
        seen.last = now
        if seen.written < most:
            seen.written += 1
            return None
        seen.left_out += 1
        return seen

    def _over(self, now: float) -> list[_LineCount]:
        """The kinds whose period is over; those that go on get the next one."""
        everything = len(self._seen) >= _MOST_KEPT
        if now < self._next_look and not everything:
            return []
        over = {key: seen for key, seen in self._seen.items() if everything or seen.ends <= now}
        for key, seen in over.items():
            del self._seen[key]
            if seen.goes_on(now) and not everything:
                self._seen[key] = seen.next_period(now)
        self._next_look = min((one.ends for one in self._seen.values()), default=now + FIRST_S)
        return list(over.values())


def _text(record: logging.LogRecord, client: bool) -> str:
    text = record.getMessage()
    ours = record.name.startswith(_OURS) and not client
    return text if ours and not _READS.search(text) else _NUMBERS.sub("", text)


def _left_out(record: logging.LogRecord, text: str, context: str, connector: str) -> LeftOut:
    line = LeftOut(record.name, record.levelno, record.pathname, record.lineno, text, None, None)
    line.context, line.connector = context, connector
    return line


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
