"""The task of a consumer, as the consumer's parts see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.plugins.offsets import TopicPartition


class ConsumerTask(Protocol):
    """The task itself."""

    abandoned: bool
    """True once the task may commit nothing any more."""

    def may_take(self) -> bool:
        """True if the task may take records now; asked after a wait for them, as that may have changed."""

    def wait(self, seconds: float) -> None:
        """Sleep, unless the task is woken."""


class RebalanceListener(Protocol):
    """Acts for the task when its partitions come, go or are committed; called on its own thread."""

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Open partitions that come; return the offsets that the outside system knows better."""

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Give the outside system these positions before Kafka; return those to commit now, None: all.

        Errors: RetriableError.
        """

    def end_batch(self, lost: bool) -> None:
        """End all writing; its outcome counts unless the partitions are lost."""

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Close partitions that go."""
