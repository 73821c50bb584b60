"""The group of the source cluster in which the progress of a Replicator's task stands.

The group has no members: its offsets are set as an operator sets them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from confluent_kafka import KafkaException

from headrace.connectors.mirror.checkpoint.groups import ConsumerGroups
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.group_offsets import GroupOffset
from headrace.plugins.offsets import PartitionResult, TopicPartition

log = logging.getLogger(__name__)


class ProgressGroup:
    """The group of one task's partitions; for the task's thread."""

    def __init__(self, groups: ConsumerGroups, name: str, period_s: float | None) -> None:
        """`period_s`: the time between two commits; None: nothing is committed."""
        self._groups = groups
        self._name = name
        self._period_s = period_s
        self._due = 0.0
        self._waiting: dict[TopicPartition, int] = {}

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the next offsets of those of these partitions that the group has. Errors: RetriableError."""
        wanted = set(partitions)
        committed = self._groups.offsets([self._name]).get(self._name, {}) if wanted else {}
        return {one: at.offset for one, at in committed.items() if one in wanted}

    def reached(self, results: Iterable[PartitionResult]) -> None:
        """Note offsets that are stored."""
        if self._period_s is None:
            return
        for one in results:
            if one.source_partition is not None and one.source_offset is not None:
                at = TopicPartition(one.source_partition["topic"], one.source_partition["partition"])
                self._waiting[at] = one.source_offset["offset"] + 1

    def commit_if_due(self) -> None:
        """Commit what was noted if it is time; a failure is logged, and comes again."""
        now = time.monotonic()
        if self._period_s is None or not self._waiting or now < self._due:
            return
        self._due = now + self._period_s
        offsets = [GroupOffset(*at, offset) for at, offset in self._waiting.items()]
        try:
            self._groups.move(self._name, offsets)
        except (KafkaException, RetriableError) as error:
            log.warning("The progress could not be committed to group %s of the source: %s", self._name, error)
        else:
            self._waiting.clear()
