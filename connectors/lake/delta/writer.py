"""Holds rows, brought to the columns of their tables, for the task's commit.

Inline the rows of several batches are held in the task's `Held`. In a job a writer has its own range of offsets, and
leaves its rows in files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from headrace.connectors.lake.delta.fits import RowFits, Shape
from headrace.connectors.lake.delta.held import Held, Holding, Spilled
from headrace.connectors.lake.delta.rows import by_partition, errors, first_of, reached, up_to
from headrace.connectors.lake.delta.settings import DeltaOptions
from headrace.connectors.lake.delta.shapes import TableShape
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import Schema


@dataclass
class Target:
    """The place in the task's process that its writers there use."""

    held: Held
    shape: Shape
    """Errors: RetriableError, LakeError."""


_KEPT: Final[WeakValueDictionary[str, Target]] = WeakValueDictionary()


def keep(name: str, target: Target) -> None:
    """Make writers of this name in this process write there, as long as their task has it."""
    _KEPT[name] = target


@dataclass
class RowWriter:
    """Writes the rows of one batch, or of one partition of it."""

    name: str
    options: DeltaOptions
    layouts: Sequence[Schema]
    shapes: Mapping[str, TableShape]
    folder: str
    """The folder for the rows of jobs."""
    ends: Mapping[TopicPartition, int]
    """The offsets up to which rows are held already; they may come again, as after a rebalance."""
    _spilled: Spilled | None = field(default=None, repr=False)

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows. Errors: RecordsFailed, which names the bad ones; RetriableError, LakeError.

        Rows of a partition after a bad one are left, unless bad ones are skipped.
        """
        failures, holding = errors(rows), self._holding
        fits = list(RowFits(self.options, self.layouts, self._shape, self.ends).of(rows, failures))
        wanted = np.ones(len(rows), bool)
        if failures and not self.options.tolerates:
            wanted = up_to(rows, first_of(rows, list(failures)))
        for shape, places, fitted in fits:
            for partition, mine in by_partition(rows, places):
                if (chosen := mine & wanted[places]).any():
                    holding.add(shape, partition, fitted if chosen.all() else fitted.filter(pa.array(chosen)))
        holding.take(reached(rows if wanted.all() else rows.filter(pa.array(wanted))))
        if failures:
            found = [RecordFailure(row, why) for row, why in sorted(failures.items())]
            raise RecordsFailed(found[0].message, found)

    def finish(self) -> bytes:
        """Return the answer for the task's commit: of a job, the files with its rows. Errors: RetriableError."""
        return b"" if self._spilled is None else self._spilled.finish()

    def abort(self) -> None:
        """Throw away the rows: inline also those of batches before this one, which come again, too."""
        if self._spilled is not None:
            self._spilled.abort()
        elif (target := _KEPT.get(self.name)) is not None:
            target.held.drop()

    def _shape(self, path: str, layout: int | None) -> TableShape | None:
        if (target := _KEPT.get(self.name)) is not None:
            return target.shape(path, layout)
        shape = self.shapes.get(path)
        if shape is None or layout not in (None, *shape.layouts):
            raise RetriableError(f"Records of a schema that is new to {path} are read by a small batch first")
        return shape

    @property
    def _holding(self) -> Holding:
        if (target := _KEPT.get(self.name)) is not None:
            return target.held
        if self._spilled is None:
            self._spilled = Spilled(self.folder)
        return self._spilled
