"""Stages lines beside their file until their batch is complete.

A batch from Spark writes one partition in several parts at once. Each part is a hidden file, and the task appends them
in order. So a batch that fails, or whose writers outlive it, leaves nothing in the file itself.

A batch may be written while the one before it is appended, so the parts of two batches are kept.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa

from headrace.connectors.file.errors import FileError
from headrace.connectors.file.writer import Appender, joined


@dataclass(frozen=True)
class StagingFolder:
    """The folder of one task's parts."""

    folder: str
    prefix: str
    allowed: tuple[str, ...]

    @classmethod
    def beside(cls, path: str, task: str, allowed: tuple[str, ...]) -> StagingFolder | None:
        """The folder of `path`, if files may be made there; else None."""
        name = sha256(task.encode()).hexdigest()[:12]
        stage = cls(os.path.dirname(path), f".{os.path.basename(path)[:100]}.{name}.", allowed)
        if not os.path.isfile(path):
            return None  # a pipe or a device
        try:
            probe = Appender(stage.new("probe"), allowed)
            probe.open()
            probe.close()
        except FileError:
            return None
        stage.sweep()
        return stage

    def new(self, batch: str) -> str:
        """A new path for a part of this batch."""
        return os.path.join(self.folder, f"{self._of(batch)}{uuid.uuid4().hex}.part")

    def sweep(self, kept: Sequence[str] = ()) -> None:
        """Removes all parts but those of these batches."""
        with suppress(OSError):
            for name in os.listdir(self.folder):
                ours = name.startswith(self.prefix) and name.endswith(".part")
                if ours and not name.startswith(tuple(map(self._of, kept))):
                    with suppress(OSError):  # its writer may have removed it
                        os.unlink(os.path.join(self.folder, name))

    def _of(self, batch: str) -> str:
        return f"{self.prefix}{sha256(batch.encode()).hexdigest()[:12]}."


@dataclass
class StagedLines:
    """Writes the column `line` to a part of its own, in each process and task that it is sent to."""

    stage: StagingFolder
    attempt: str
    _part: Appender | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends the lines to the part."""
        if rows.num_rows:
            if self._part is None:
                self._part = Appender(self.stage.new(self.attempt), self.stage.allowed)
            self._part.append(joined(rows.column("line")), b"\n")

    def finish(self) -> bytes:
        """The path of the part; empty if there were no lines."""
        if self._part is None:
            return b""
        self._part.close()
        return self._part.path.encode()

    def abort(self) -> None:
        """Removes the part."""
        if self._part is not None:
            self._part.close()
            with suppress(OSError):
                os.unlink(self._part.path)
