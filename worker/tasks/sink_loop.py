"""The loop of a sink task, as the two places see it where its batches run: inline and as Spark jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import PartitionResult, TopicPartition


class SinkLoop(Protocol):
    """The loop of a task, as its batches use it; on the thread that runs the batch."""

    @property
    def abandoned(self) -> bool:
        """True once the task may commit nothing any more."""

    @property
    def is_paused(self) -> bool:
        """True if an operator has paused the task."""

    @property
    def is_lent(self) -> bool:
        """True on the thread that takes many tasks' batches, which waits for nothing."""

    def may_take(self) -> bool:
        """True if records may be taken now."""

    def measure(self) -> None:
        """Measure where the task stands, if that is due."""

    def commit_when_due(self) -> None:
        """Commit what was reached, if the commit interval has passed."""

    def stay(self, seconds: float) -> None:
        """Wait, while the consumer stays a member of its group."""

    def stay_after(self, error: RetriableError, failures: int, what: str) -> None:
        """Wait before the next attempt. Errors: ConverterTimeout."""

    def recovered(self, failures: int) -> None:
        """Say that a batch succeeded after so many attempts that failed, if any did."""

    def count(self, reached: Sequence[PartitionResult]) -> None:
        """Count what an inline batch moved whose offsets are committed already. Errors: RecordError."""

    def reached(self, reached: Sequence[PartitionResult]) -> None:
        """Take over what an inline batch made durable. Errors: RecordError."""

    def reached_by_job(self, reached: Sequence[PartitionResult]) -> None:
        """Take over what a job made durable. Errors: RecordError."""

    def go_on(self, done: Mapping[TopicPartition, int]) -> None:
        """Note that everything before these offsets is done with."""
