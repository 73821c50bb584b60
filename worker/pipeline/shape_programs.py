"""The programs of one task by the shape of their rows, for the task's own thread."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import pyarrow as pa

from headrace.worker.engine.bounds import Bounds
from headrace.worker.pipeline.scope import TaskScope

MOST_PROGRAMS: Final = 256
"""The number of programs kept, beside one for each topic of a source."""


class RowProgram(Protocol):
    """Runs expressions over a batch, such as a `Program`."""

    @property
    def generation(self) -> int:
        """The generation of the Spark session that it is compiled for."""

    def run(self, batch: pa.RecordBatch, bounds: Bounds) -> pa.RecordBatch:
        """Return one row for each row of the batch. Errors: as `Program.run`."""


class ShapePrograms:
    """Programs that are compiled when needed; those used longest ago are dropped first."""

    def __init__(
        self,
        scope: TaskScope,
        make: Callable[[str], RowProgram],
        topics: Callable[[], Sequence[str]] = lambda: (),
        forget: Callable[[str], object] = lambda shape: None,
    ) -> None:
        """`make` compiles the program for a shape, `forget` is called once it is dropped; `topics`: a source's."""
        self._scope = scope
        self._make = make
        self._topics = topics
        self._forget = forget
        self._programs: OrderedDict[str, RowProgram] = OrderedDict()

    @property
    def most(self) -> int:
        """The number of programs kept."""
        return MOST_PROGRAMS + len(self._topics())

    def of(self, shape: str) -> RowProgram:
        """The program for rows of this shape. Errors: those of `make`."""
        program = self._programs.pop(shape, None)
        if program is None or program.generation != self._scope.engine.projections.spark.generation:
            program = self._make(shape)
        self._programs[shape] = program
        while len(self._programs) > self.most:
            gone, _ = self._programs.popitem(last=False)
            self._forget(gone)
        return program

    def drop(self, shape: str) -> None:
        """Compile the program for rows of this shape anew when next needed."""
        self._programs.pop(shape, None)

    def clear(self) -> None:
        """Compile all anew when next needed."""
        self._programs.clear()
