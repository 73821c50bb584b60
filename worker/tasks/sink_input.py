"""The input of a sink task: its consumer's settings, topics and positions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from headrace.plugins.contracts import GroupMember
from headrace.worker.kafka.topic_ids import TopicIds
from headrace.worker.model import TaskId
from headrace.worker.tasks.committed_offsets import StableOffsets
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.subscription import TopicSubscription

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SinkInput:
    """The source of a sink task's records, and the interval of its commits."""

    consumer: Callable[[], Mapping[str, Any]] = field(repr=False)
    """Makes the librdkafka configuration of its consumer, for the topics as they are when it begins."""
    subscription: TopicSubscription
    positions: Positions
    topic_ids: TopicIds
    commit_interval_s: float
    largest_record: int
    """The most bytes of a record."""
    stable_offsets: StableOffsets
    """For a sink that commits offsets itself."""
    expel: Callable[[GroupMember], None]
    """`group_member.expel` with the task's admin client."""

    def expel_soon(self, member: GroupMember, task: TaskId) -> None:
        """Remove the member of an abandoned task from its group, on a thread of its own."""
        threading.Thread(
            target=copy_context().run, args=(self._expel, member), name=f"leave-group-{task}", daemon=True
        ).start()

    def _expel(self, member: GroupMember) -> None:
        try:
            self.expel(member)
        except Exception as error:
            log.warning("The abandoned task keeps its place in its group, until its session ends: %s", error)
