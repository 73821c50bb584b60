"""Requests of a sink task to its worker, and failures between batches: an extension of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from headrace.plugins.offsets import TopicPartition


class SinkRequests(NamedTuple):
    """Requests of a sink task since the last ones."""

    offsets: Mapping[TopicPartition, int] = MappingProxyType({})
    """Offsets to continue from, forward or back, for partitions assigned to the task."""
    commit: bool = False
    """True: commit soon."""
    rests: Mapping[TopicPartition, float] = MappingProxyType({})
    """Seconds from now during which a partition delivers no records; 0 resumes it."""


class RequestingSink:
    """Extension of a sink task that may fail between batches, or asks for what Java's `SinkTaskContext` has."""

    commits_offsets: bool = False
    """True if the task may commit its group's offsets itself, in transactions (`TaskContext.group_member`).

    Reading then begins at an offset that no open transaction can still change.
    """

    def requests(self) -> SinkRequests:
        """Return what the task asks of its worker since the last call; called often, between batches.

        Errors: any, for failures between batches.
        """
        return SinkRequests()

    def left_out(self) -> Mapping[TopicPartition, int]:
        """Return how many rows of the last inline batch were deliberately not sent, by partition.

        Called once after `commit`.
        """
        return {}
