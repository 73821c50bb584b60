"""The loop of a sink task, as seen by the parts that run its batches inline and as jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.worker.outcome import Outcome


class SinkLoop(Protocol):
    """The loop of a task, as its batches use it; on the thread that runs the batch."""

    abandoned: bool
    """True once the task may commit nothing any more."""
    is_paused: bool
    """True if an operator has paused the task."""
    is_lent: bool
    """True on the thread that takes many tasks' batches, which waits for nothing."""

    def may_take(self) -> bool:
        """True if records may be taken now."""

    def measure(self) -> None:
        """Measure partitions, uncommitted records and lag, if that is due."""

    def commit_when_due(self) -> None:
        """Commit the reached offsets if the commit interval has passed."""

    def stay(self, seconds: float) -> None:
        """Wait while the consumer stays a member of its group."""

    def stay_after(self, error: RetriableError, failures: int, what: str) -> None:
        """Wait before the next attempt. Errors: ConverterTimeout."""

    def recovered(self, failures: int) -> None:
        """Log that a batch succeeded after `failures` failed attempts, if any."""

    def count(self, outcome: Outcome[TopicPartition]) -> None:
        """Count an inline batch whose offsets are committed already. Errors: RecordError."""

    def reached(self, outcome: Outcome[TopicPartition]) -> None:
        """Note the durable outcome of a batch. Errors: RecordError."""

    def go_on(self, done: Mapping[TopicPartition, int]) -> None:
        """Note that all records before these offsets are done with."""
