"""Lines that wait beside their file until the batch they belong to is complete.

A batch from Spark writes one partition in several parts at once; each part is a hidden file, and the task appends them
in order. A batch that fails, or whose writers outlive it, so leaves nothing in the file itself.

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

from headrace.connectors.file.paths import FileError
from headrace.connectors.file.writer import Appender, joined


@dataclass(frozen=True)
class StagingFolder:
    """Where one task's parts wait."""

    folder: str
    prefix: str
    allowed: tuple[str, ...]

    @classmethod
    def beside(cls, path: str, task: str, allowed: tuple[str, ...]) -> StagingFolder | None:
        """Beside `path`, where files may be made there at all; else None."""
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
        """The path of a part of this batch that is not there yet."""
        return os.path.join(self.folder, f"{self._of(batch)}{uuid.uuid4().hex}.part")

    def sweep(self, kept: Sequence[str] = ()) -> None:
        """No part is left but those of these batches."""
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
        """The lines are in the part."""
        if rows.num_rows:
            if self._part is None:
                self._part = Appender(self.stage.new(self.attempt), self.stage.allowed)
            self._part.append(joined(rows.column("line")), b"\n")

    def finish(self) -> bytes:
        """The path of the part; nothing where there were no lines."""
        if self._part is None:
            return b""
        self._part.close()
        return self._part.path.encode()

    def abort(self) -> None:
        """The part is gone."""
        if self._part is not None:
            self._part.close()
            with suppress(OSError):
                os.unlink(self._part.path)
