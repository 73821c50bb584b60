"""Reads the planned parts of log files, in any process of the worker's host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from headrace.connectors.file.offsets import HEAD_BYTES, head_of, same_head
from headrace.connectors.logs.files.contents import DAMAGED, Content
from headrace.connectors.logs.files.envelopes import Format, unwrapped
from headrace.connectors.logs.files.events import Events, Joining, events
from headrace.connectors.logs.files.offsets import TYPE, LogOffset
from headrace.connectors.logs.lines import Encoding, Lines, split
from headrace.plugins.contracts import RetriableError

ROW: Final = pa.schema(
    [
        ("value", pa.string()),
        ("stream", pa.string()),
        ("logged", pa.int64()),
        ("path", pa.string()),
        ("position", pa.int64()),
    ]
)
_SCHEMA: Final = ROW.append(pa.field("source_offset", TYPE))
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Reading:
    """The way in which the bytes of a log become events."""

    format: Format
    encoding: Encoding
    most_bytes: int
    """Of a line."""
    joining: Joining

    @property
    def joins(self) -> bool:
        """True if an event may have several lines."""
        return self.joining.pattern is not None or self.format in (Format.DOCKER, Format.CRI)

    @property
    def chunk(self) -> int:
        """The bytes in which there is a complete event, or a part of one that is too large."""
        most = 2 * (self.most_bytes + (self.joining.most_bytes if self.joins else 0))
        return max(_CHUNK_BYTES, most + 64)


@dataclass(frozen=True)
class Part:
    """The part `(after, upto]` of a file of a log; `closed`: what is complete by then is all that there is."""

    path: str
    content: Content
    after: LogOffset
    upto: int
    closed: bool


@dataclass(frozen=True)
class LogReader:
    """Reads parts, and nothing beyond, however the files grow meanwhile.

    Ends short if a file was cut or overwritten since it was planned; the next plan finds that and says so.
    """

    parts: tuple[Part | None, ...]
    reading: Reading

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """The events of this part with the offset after each."""
        part = self.parts[split]
        if part is None or part.upto <= part.after.position:
            return
        try:
            with part.content.stream() as stream:
                yield from self._batches(part, stream)
        except (OSError, *DAMAGED) as e:
            where = f"{part.content.file.path} after position {part.after.position}"
            raise RetriableError(f"Reading {where} failed: {e}") from e

    def _batches(self, part: Part, stream: BinaryIO) -> Iterator[pa.RecordBatch]:
        start = stream.read(HEAD_BYTES)
        if not same_head(start, part.after.head):
            return
        stream.seek(part.after.position)
        position, data, most = part.after.position, b"", self.reading.chunk
        while True:
            more = stream.read(min(most - len(data), part.upto - position - len(data)))
            data += more
            at_end = position + len(data) >= part.upto
            if not more and not at_end:
                return
            lines, found, taken = self._events(data, position == 0, at_end, at_end and part.closed)
            if taken:
                yield _batch(part, lines, found, position, start)
                used = int(lines.ends[taken - 1])
                position, data = position + used, data[used:]
            if at_end:
                return

    def _events(self, data: bytes, is_first: bool, at_end: bool, closed: bool) -> tuple[Lines, Events, int]:
        reading = self.reading
        lines = split(data, reading.encoding, reading.most_bytes, at_end, is_first)
        pieces = unwrapped(lines.texts, reading.format)
        found, taken = events(pieces, reading.joining, closed)
        if not taken and len(lines.texts) and len(data) >= reading.chunk:
            # A part of a line of a container whose rest does not come: what others write must not wait for it.
            found, taken = events(pieces, reading.joining, closed=True)
        return lines, found, taken


def gives_events(part: Part, reading: Reading) -> bool:
    """True if there is a complete event in this part: a line that may go on is none."""
    if not reading.joins or part.upto - part.after.position >= reading.chunk:
        return True
    return next(LogReader((part,), reading).read(0), None) is not None


def _batch(part: Part, lines: Lines, found: Events, position: int, start: bytes) -> pa.RecordBatch:
    count = len(found.texts)
    begins = np.concatenate([np.zeros(1, np.int64), lines.ends])[found.first] + position
    positions = lines.ends[found.after - 1] + position
    heads = np.full(count, head_of(start, HEAD_BYTES))
    for row in range(int(np.searchsorted(positions, HEAD_BYTES))):  # the file's first KiB only
        heads[row] = head_of(start, int(positions[row]))
    after = part.after
    members = [
        pa.array(positions),
        _constant(after.file, count, pa.string()),
        *(_constant(value, count, pa.int64()) for value in (after.inode, after.device)),
        pa.array(heads),
        _constant(after.modified, count, pa.int64()),
    ]
    offsets = pa.StructArray.from_arrays(members, fields=list(TYPE))
    path = _constant(part.path, count, pa.string())
    columns = [found.texts, found.streams, found.times, path, pa.array(begins), offsets]
    return pa.record_batch(columns, schema=_SCHEMA)


def _constant(value: object, count: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)
