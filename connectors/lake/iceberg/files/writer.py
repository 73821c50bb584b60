"""Writes the rows of a batch to the task's files, or in a job to files of its own."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

import pyarrow as pa

from headrace.connectors.lake.iceberg.files.files import Files, FilesSpec
from headrace.connectors.lake.iceberg.files.targets import Known, UnknownTargets
from headrace.connectors.lake.iceberg.parts import LakePart
from headrace.plugins.errors import RecordsFailed

_KEPT: Final[WeakValueDictionary[str, Files]] = WeakValueDictionary()


def keep(name: str, files: Files) -> None:
    """Make writers of this name in this process write to these files, as long as their task has them."""
    _KEPT[name] = files


def part_of(answer: bytes) -> LakePart:
    """Return the part in an answer of `finish`."""
    made = pickle.loads(answer)
    assert isinstance(made, LakePart)
    return made


@dataclass
class FilesWriter:
    """Writes the rows of one batch, or of one partition of it."""

    name: str
    spec: FilesSpec
    folder: str
    """On the local disk, for the files of jobs; its owner deletes it after their commit."""
    known: Known
    _own: Files | None = field(default=None, repr=False)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows to the files of their tables. Errors: RecordsFailed; as `Files.add`.

        Inline the bad ones are named. In a job one fails the batch.
        """
        failures = self._files.add(rows)
        if failures and self._own is not None:
            raise RecordsFailed(failures[0].message)
        if failures:
            raise RecordsFailed(failures[0].message, failures)

    def finish(self) -> bytes:
        """Complete the files that are due, in a job all; return the answer for `part_of`. Errors: as `Files.finish`."""
        return pickle.dumps(self._files.finish())

    def abort(self) -> None:
        """Throw away the rows: inline also those of batches before this one, which come again, too."""
        self._files.drop()

    @property
    def _files(self) -> Files:
        if (kept := _KEPT.get(self.name)) is not None:
            return kept
        if self._own is None:
            self._own = Files(self.spec, UnknownTargets(), self.folder, self.known)
        return self._own
