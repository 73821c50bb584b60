"""The host of a task: all that a task needs of its worker, made before the task itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.plugins.contracts import TaskContext
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.converter_retry import RetryBudget
from headrace.worker.deadletters.failed_records import FailureReport
from headrace.worker.engine.driver import Spark
from headrace.worker.hosting.ports import TaskReport
from headrace.worker.logging.redaction import Redaction
from headrace.worker.model import TaskId
from headrace.worker.tasks.interrupts import Interrupts
from headrace.worker.tasks.metrics import TaskMetrics

log = logging.getLogger(__name__)


class OpenResources:
    """The resources that a task has open, closed once the task has to stop or has failed; any thread may call."""

    def __init__(self) -> None:
        self._closes: list[Callable[[], None]] = []
        self._closed = False

    def on_close(self, close: Callable[[], None]) -> None:
        """Call `close` with the others, or at once if these are closed already."""
        self._closes.append(close)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Close everything, so that waits for its answers end; errors are logged."""
        self._closed = True
        while True:
            try:
                close = self._closes.pop()
            except IndexError:
                return  # another thread took the last one
            try:
                close()
            except Exception:
                log.exception("What the task had open cannot be closed")


@dataclass(frozen=True)
class TaskHost:
    """Everything that one start of a task gets from its worker."""

    id: TaskId
    config: Mapping[str, str] = field(repr=False)
    """The task's own, as its connector made it."""
    context: TaskContext
    """For its plugin."""
    spark: Spark
    report: TaskReport
    metrics: TaskMetrics
    topic_used: Callable[[TaskId, str], None]
    """Called with each topic that the task uses, with every batch."""
    membership_ok: Callable[[], bool]
    """Called before each batch: a worker that its cluster may count as dead begins none."""
    interrupts: Interrupts
    retry_budget: RetryBudget
    """For its converters."""
    redaction: Redaction = field(default_factory=Redaction, repr=False)
    paused: bool = False
    resources: OpenResources = field(default_factory=OpenResources)
    at_end: OpenResources = field(default_factory=OpenResources)
    """Resources that its last batch may still use, closed after it."""

    @property
    def stop(self) -> StopToken:
        """Set once the task has to end."""
        return self.context.stopping

    def uses(self, topics: Iterable[str]) -> None:
        """Report that the task uses these topics; with each batch, as operators may reset the list."""
        for topic in set(topics):
            self.topic_used(self.id, topic)

    def reported(self, reported: FailureReport) -> None:
        """Log and count what was reported of failed records."""
        if reported:
            reported.tell()
            self.metrics.reported(reported)
