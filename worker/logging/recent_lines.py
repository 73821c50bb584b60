"""Keeps the last lines of the log of each connector and its tasks in memory, as they were written: without secrets.

Decided: by connector, bounded in lines and in bytes, and the connector that was silent longest is forgotten first when
all together are too large; loses: what a Python worker of Spark wrote itself, and lines about a connector that are not
its own, such as those of requests.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOST_LINES: Final = 200
"""The lines that are kept of a connector."""
MOST_BYTES: Final = 64 << 10
"""The bytes of a connector's lines, if it has more than one."""
ALL_BYTES: Final = 16 << 20
"""The bytes of all lines."""
_LONGEST: Final = 8_192
_BESIDE: Final = 160
"""The bytes of a line beside its text."""


class LogLine(NamedTuple):
    """A line of the log."""

    at: int
    """Milliseconds of the epoch."""
    level: str
    text: str


@dataclass
class _Kept:
    lines: deque[LogLine] = field(default_factory=deque)
    size: int = 0


class RecentLines:
    """The last lines of each connector; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0

    def add(self, connector: str, line: LogLine) -> None:
        """Keep a line; a very long text is cut."""
        if len(line.text) > _LONGEST:
            line = line._replace(text=f"{line.text[:_LONGEST]}… ({len(line.text) - _LONGEST} more characters)")
        with self._lock:
            kept = self._kept.setdefault(connector, _Kept())
            self._kept.move_to_end(connector)
            kept.lines.append(line)
            self._grow(kept, _size(line))
            while len(kept.lines) > MOST_LINES or (kept.size > MOST_BYTES and len(kept.lines) > 1):
                self._grow(kept, -_size(kept.lines.popleft()))
            while self._size > ALL_BYTES:
                _, silent = self._kept.popitem(last=False)
                self._size -= silent.size

    def of(self, connector: str, most: int) -> Sequence[LogLine]:
        """Return a connector's last lines, the last one last."""
        with self._lock:
            kept = self._kept.get(connector)
            return list(kept.lines)[-most:] if kept is not None else []

    def _grow(self, kept: _Kept, size: int) -> None:
        kept.size += size
        self._size += size


RECENT: Final = RecentLines()
"""The last lines of this process's log."""


def _size(line: LogLine) -> int:
    return sys.getsizeof(line.text) + _BESIDE
