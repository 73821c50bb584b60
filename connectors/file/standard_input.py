"""Standard input as a source: a thread reads ahead into a bounded buffer, and a plan takes the lines in it.

Lines are counted, and their number is the only offset: `{"position": null, "line": 17}`. By it a batch that failed is
read again. After a restart of the worker it names nothing: what was read before went with the process.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.connectors.file.errors import FileError
from headrace.connectors.file.lines import Lines, last_line_end, split_lines
from headrace.connectors.file.reader import OFFSET, SCHEMA

BUFFER_BYTES: Final = 8 << 20
_READ_BYTES: Final = 1 << 16

log = logging.getLogger(__name__)


class StandardInput:
    """Keeps lines of a descriptor until they are released; one reader in a process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._changed = threading.Condition()
        self._kept = b""
        self._released = 0
        self._ended = False
        self._owner: object = None
        self._thread: threading.Thread | None = None

    def claim(self, owner: object, name: str) -> None:
        """Makes `owner` the reader until it leaves. Errors: FileError if another one reads."""
        with self._changed:
            if self._owner not in (None, owner):
                raise FileError(
                    f"Standard input is read by another connector already; give connector {name} a 'file', or stop "
                    "the other one."
                )
            self._owner = owner
            if self._thread is None:
                # A blocking read of a terminal cannot be ended; the thread goes on for the next task, and dies with us.
                self._thread = threading.Thread(target=self._read, name="standard-input", daemon=True)
                self._thread.start()

    def leave(self, owner: object) -> None:
        """Lets another task claim it."""
        with self._changed:
            if self._owner is owner:
                self._owner = None

    @property
    def released(self) -> int:
        """The count of released lines."""
        return self._released

    def release(self, lines: int) -> None:
        """Releases the first `lines` lines since the start of the process."""
        with self._changed:
            if lines > self._released:
                ends = self._complete(self._kept).ends
                gone = min(lines - self._released, len(ends))
                self._kept = self._kept[int(ends[gone - 1]) :] if gone else self._kept
                self._released += gone
                self._changed.notify_all()

    def lines(self, rows: int, most_bytes: int) -> bytes:
        """The complete lines in the buffer, within the limits but one at least; empty if there are none."""
        with self._changed:
            kept = self._kept
            if not (ends := self._complete(kept).ends).size:
                return b""
            fitting = int(np.searchsorted(ends, most_bytes, side="right"))
            return kept[: int(ends[max(1, min(rows, fitting)) - 1])]

    def _complete(self, data: bytes) -> Lines:
        return split_lines(data, closed=self._ended)

    def _read(self) -> None:
        while data := self._next():
            with self._changed:
                self._kept += data
                # A line longer than the buffer is let through: nothing could be released before it is complete.
                self._changed.wait_for(
                    lambda: len(self._kept) < BUFFER_BYTES or not last_line_end(self._kept, len(self._kept))
                )
        with self._changed:
            self._ended = True
        log.info("Standard input has ended")

    def _next(self) -> bytes:
        try:
            # Not sys.stdin: its lock, held by this thread in a blocking read, would break the interpreter's end.
            return os.read(self._descriptor, _READ_BYTES)
        except OSError as e:
            log.warning("Standard input cannot be read any more: %s", e)
            return b""


@dataclass(frozen=True)
class StandardInputReader:
    """Lines taken from standard input, after `line` others."""

    data: bytes
    line: int

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """The lines as one batch."""
        values = split_lines(self.data, closed=True).values
        count = len(values)
        numbers = pa.array(np.arange(self.line + 1, self.line + count + 1))
        columns = [pa.nulls(count, field.type) for field in OFFSET]
        columns[OFFSET.get_field_index("line")] = numbers
        yield pa.record_batch([values, pa.StructArray.from_arrays(columns, fields=list(OFFSET))], schema=SCHEMA)


STANDARD_INPUT: Final = StandardInput(0)
