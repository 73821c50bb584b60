"""Reads the lines of a plan, in any process of the worker's host."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.connectors.file.errors import FileError
from headrace.connectors.file.lines import Lines, split_lines
from headrace.connectors.file.offsets import HEAD_BYTES, FileOffset, head_of, same_head
from headrace.plugins.contracts import RetriableError
from headrace.plugins.path_bounds import open_allowed

CHUNK_BYTES: Final = 1 << 20

MAX_LINE_BYTES: Final = 64 << 20
"""A longer line fails its task: no Kafka record would hold it."""

OFFSET: Final = pa.struct(
    [("position", pa.int64()), ("line", pa.int64()), ("_generation", pa.int32()), ("_head", pa.int64())]
)
ROW: Final = pa.schema([pa.field("value", pa.string(), nullable=False)])
SCHEMA: Final = ROW.append(pa.field("source_offset", OFFSET))

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenedFile:
    """The very file that a task has open. It can be opened again after it was renamed or removed."""

    path: str
    device: int
    inode: int
    process: int
    descriptor: int
    allowed: tuple[str, ...]

    def open(self) -> int:
        """Opens this file and no other; returns the descriptor. Errors: RetriableError if it is out of reach."""
        if os.getpid() == self.process:
            return self._same(os.dup(self.descriptor))
        try:
            return self._same(open_allowed(self.path, os.O_RDONLY | os.O_NONBLOCK, self.allowed))
        except (FileNotFoundError, RetriableError):
            return self._through_task()

    def _through_task(self) -> int:
        # The task keeps the file open, and Linux lets its neighbours open it there whatever became of its name.
        try:
            return self._same(os.open(f"/proc/{self.process}/fd/{self.descriptor}", os.O_RDONLY | os.O_NONBLOCK))
        except OSError as e:
            raise RetriableError(
                f"{self.path} was renamed or removed, and is out of reach outside its task: {e}"
            ) from e

    def _same(self, descriptor: int) -> int:
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != (self.device, self.inode):
            os.close(descriptor)
            raise RetriableError(f"{self.path} is another file than the one that was planned")
        return descriptor


@dataclass(frozen=True)
class FileReader:
    """Reads the lines in `(after, upto]` of each split and nothing beyond, however the file grows meanwhile.

    Ends short if the file was cut or overwritten since it was planned; the next plan finds that and says so.
    """

    file: OpenedFile
    ranges: tuple[tuple[FileOffset, int], ...]

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """The lines of this split with the offset after each, in batches of about a MiB or one longer line."""
        after, upto = self.ranges[split]
        try:
            descriptor = self.file.open()
            try:
                yield from self._batches(descriptor, after, upto)
            finally:
                os.close(descriptor)
        except OSError as e:
            raise RetriableError(f"Reading {self.file.path} after position {after.position} failed: {e}") from e

    def _batches(self, descriptor: int, after: FileOffset, upto: int) -> Iterator[pa.RecordBatch]:
        start = os.pread(descriptor, HEAD_BYTES, 0)
        if not same_head(start, after.head):
            return
        position, line, size = after.position, after.line, CHUNK_BYTES
        while position < upto:
            wanted = min(size, upto - position)
            data = os.pread(descriptor, wanted, position)
            lines = split_lines(data, closed=position + len(data) == upto)
            if not len(lines.values):
                if len(data) < wanted:
                    return
                if size >= MAX_LINE_BYTES:
                    raise too_long(self.file.path, position)
                size *= 2
                continue
            yield batch_of(lines, position, line, after.generation, start)
            position += int(lines.ends[-1])
            line = None if line is None else line + len(lines.values)
            size = CHUNK_BYTES


def batch_of(lines: Lines, position: int, line: int | None, generation: int, start: bytes) -> pa.RecordBatch:
    """Rows of these lines. The first begins at `position`, after `line` lines."""
    if (count := len(lines.values)) == 1:
        end = position + int(lines.ends[0])
        offset = end, None if line is None else line + 1, generation, head_of(start, min(HEAD_BYTES, end))
        return pa.RecordBatch.from_arrays([lines.values, pa.array([offset], OFFSET)], schema=SCHEMA)
    positions = lines.ends + position
    numbers = pa.nulls(count, pa.int64()) if line is None else pa.array(np.arange(line + 1, line + count + 1))
    heads = np.full(count, head_of(start, HEAD_BYTES))
    for row in range(int(np.searchsorted(positions, HEAD_BYTES))):  # the file's first KiB only
        heads[row] = head_of(start, int(positions[row]))
    generations = pa.array(np.full(count, generation, np.int32))
    offsets = pa.StructArray.from_arrays(
        [pa.array(positions), numbers, generations, pa.array(heads)], fields=list(OFFSET)
    )
    return pa.record_batch([lines.values, offsets], schema=SCHEMA)


def too_long(path: str, position: int) -> FileError:
    """The error for a line beyond MAX_LINE_BYTES."""
    return FileError(
        f"The line that begins at position {position} of {path} is longer than {MAX_LINE_BYTES} bytes. Break it up, or "
        "stop the connector and set its offset after the line (PATCH /connectors/<name>/offsets with "
        '{"position": <where the next line begins>}).'
    )
