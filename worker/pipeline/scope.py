"""The scope of a task: what all parts of its pipeline have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

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
from headrace.worker.pipeline.stages import Stages


@dataclass(frozen=True)
class TaskScope:
    """The name, engine, bounds and reporting that one task's parts share."""

    about: str
    """The task's name in logs and errors."""
    engine: Engine
    bounds: Bounds
    reporting: Reporting
    """Reports bad records, if at all, and says if they are tolerated."""
    tell: Callable[[FailureReport], None] = FailureReport.tell
    """Called with what was reported of a batch's failed records, however the batch ended."""
    stages: Stages = field(default_factory=Stages)
    """Times the stages of its batches."""

    @property
    def stop(self) -> StopToken:
        """Set once the task has to end."""
        return self.bounds.stop

    @property
    def tolerate(self) -> bool:
        """True if bad records are left out instead of failing the task."""
        return self.reporting.handling.tolerate

    def program(
        self, schema: StructType, build: Callable[[DataFrame], DataFrame], key: Hashable | None = None
    ) -> Program | JobProgram:
        """As `Engine.program`, for this task."""
        return self.engine.program(schema, build, self.about, self.bounds, key)


@contextlib.contextmanager
def asking_converters() -> Iterator[None]:
    """Turn a retriable error of a converter, which may ask a server, into ConverterAway."""
    try:
        yield
    except EngineLost:
        raise
    except RetriableError as error:
        raise ConverterAway(str(error)) from error
