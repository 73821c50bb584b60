"""One batch of a task, or an attempt at one that failed, as traces show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.worker.model import Kind, TaskId
from headrace.worker.pipeline.stages import Stage, StageTime


@dataclass(frozen=True)
class BatchTrace:
    """A batch. Units: times are of `time.monotonic`."""

    kind: Kind
    began: float
    ended: float
    records: int
    bytes: int
    stages: Mapping[Stage, StageTime]
    error: str | None = None
    """The class of the error that ended the attempt."""


OnBatch = Callable[[TaskId, BatchTrace], None]
"""Takes each batch, on the task's thread."""
