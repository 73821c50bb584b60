"""What a herder answers from the statuses, alike in both modes: states, and the topics that connectors used."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.worker.errors import Forbidden, NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.model import ConnectorState, Status, TaskId
from headrace.worker.storage.statuses import StatusStore


@dataclass(frozen=True)
class TopicTracking:
    """`topic.tracking.enable` and `topic.tracking.allow.reset`."""

    enabled: bool = True
    reset: bool = True

    def used(self, statuses: StatusStore, task: TaskId, topic: str) -> None:
        """`topics` will name it; cheap enough for every batch."""
        if self.enabled:
            statuses.put_topic(task, topic)


TRACKED: Final = TopicTracking()


class StatusAnswers(Herder):
    """A herder in front of a store of statuses; what is here may be called from any thread."""

    def __init__(
        self, worker_id: str, statuses: StatusStore, tracking: TopicTracking, cluster_id: Callable[[], str | None]
    ) -> None:
        self.worker_id = worker_id
        self.statuses = statuses
        self._tracking = tracking
        self._cluster_id = cluster_id

    @abstractmethod
    def kind_of(self, name: str) -> str:
        """`source`, `sink`, or `unknown` for a connector that is not known or whose class is not."""

    @property
    def cluster_id(self) -> str | None:
        return self._cluster_id()

    def connector_state(self, name: str) -> ConnectorState:
        status = self.statuses.get(name)
        if status is None:
            raise NotFound(f"No status found for connector {name}")
        return ConnectorState(name, status, self.statuses.tasks(name), self.kind_of(name))

    def task_state(self, task: TaskId) -> Status:
        status = self.statuses.get(task)
        if status is None:
            raise NotFound(f"No status found for task {task}")
        return status

    def topic_used(self, task: TaskId, topic: str) -> None:
        """`topics` will name it; cheap enough for every batch."""
        self._tracking.used(self.statuses, task, topic)

    def topics(self, name: str) -> list[str]:
        self._tracked()
        return self.statuses.topics(name)

    def reset_topics(self, name: str) -> None:
        self._tracked()
        if not self._tracking.reset:
            raise Forbidden("Topic tracking reset is disabled.")
        self.statuses.forget_topics(name)

    def _tracked(self) -> None:
        if not self._tracking.enabled:
            raise Forbidden("Topic tracking is disabled.")
