"""The programs of one task by the shape of their rows, for the task's own thread."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headrace.worker.engine.inline import Program
from headrace.worker.engine.programs import JobProgram
from headrace.worker.pipeline.scope import TaskScope

MOST_PROGRAMS: Final = 256
"""So many shapes of a task's rows have their programs kept, beside one for each topic of a source."""


class ShapePrograms:
    """Programs that are compiled when they are needed; those used longest ago are compiled again then."""

    def __init__(
        self,
        scope: TaskScope,
        row_type: Callable[[str], StructType],
        build: Callable[[DataFrame, str], DataFrame],
        topics: Callable[[], Sequence[str]] = lambda: (),
        forget: Callable[[str], object] = lambda shape: None,
    ) -> None:
        """`topics`: those of a source; `forget` is called with a shape whose program is kept no more."""
        self._scope = scope
        self._row_type = row_type
        self._build = build
        self._topics = topics
        self._forget = forget
        self._programs: OrderedDict[str, Program | JobProgram] = OrderedDict()

    @property
    def most(self) -> int:
        """How many are kept."""
        return MOST_PROGRAMS + len(self._topics())

    def of(self, shape: str) -> Program | JobProgram:
        """The program for rows of this shape. Errors: EngineLost, and what `build` raises."""
        scope, program = self._scope, self._programs.pop(shape, None)
        if program is None or program.generation != scope.engine.projections.spark.generation:
            program = scope.engine.program(
                self._row_type(shape), lambda rows: self._build(rows, shape), scope.about, scope.stop
            )
        self._programs[shape] = program
        while len(self._programs) > self.most:
            gone, _ = self._programs.popitem(last=False)
            self._forget(gone)
        return program

    def drop(self, shape: str) -> None:
        """Compile the program for rows of this shape anew when it is needed next."""
        self._programs.pop(shape, None)

    def clear(self) -> None:
        """Compile all anew when they are needed next."""
        self._programs.clear()
