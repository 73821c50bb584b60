"""The scope of a task: what its pipeline, and all the parts of that, have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headrace.plugins.errors import RetriableError
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.converter_retry import ConverterAway
from headrace.worker.deadletters.failed_records import FailureReport
from headrace.worker.deadletters.reporting import Reporting
from headrace.worker.engine.bounds import Bounds
from headrace.worker.engine.driver import EngineLost
from headrace.worker.engine.inline import Program
from headrace.worker.engine.programs import Engine, JobProgram


@dataclass(frozen=True)
class TaskScope:
    """Whom one task's parts work for, what they share with other tasks, and how they end and report."""

    about: str
    """The task's name in logs and errors."""
    engine: Engine
    bounds: Bounds
    reporting: Reporting
    """How bad records are reported, if at all, and whether they are tolerated."""
    tell: Callable[[FailureReport], None] = FailureReport.tell
    """Called with what was reported of the failed records of a batch, however that ended."""

    @property
    def stop(self) -> StopToken:
        """Set once the task has to end."""
        return self.bounds.stop

    @property
    def tolerate(self) -> bool:
        """Whether bad records are left out instead of failing the task."""
        return self.reporting.handling.tolerate

    def program(
        self, schema: StructType, build: Callable[[DataFrame], DataFrame], key: Hashable | None = None
    ) -> Program | JobProgram:
        """As `Engine.program`, for this task."""
        return self.engine.program(schema, build, self.about, self.bounds, key)


@contextlib.contextmanager
def asking_converters() -> Iterator[None]:
    """Within it a retriable error of a converter, which may ask a server, becomes ConverterAway."""
    try:
        yield
    except EngineLost:
        raise
    except RetriableError as error:
        raise ConverterAway(str(error)) from error
