"""A herder's answers that are alike in both modes: the cluster's id, states, and the topics that connectors used."""

from __future__ import annotations

from abc import abstractmethod

from headrace.worker.errors import NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.herder.services import HerderServices
from headrace.worker.model import ConnectorState, Status, TaskId


class StatusAnswers(Herder):
    """A herder in front of a store of statuses; any thread may call the methods of this class."""

    def __init__(self, services: HerderServices) -> None:
        super().__init__(services.plugins)
        self.statuses = services.statuses
        self._kafka_cluster = services.cluster
        self._topics = services.topics

    @abstractmethod
    def kind_of(self, name: str) -> str:
        """`source`, `sink`, or `unknown` for a connector that is not known or whose class is not."""

    @property
    def cluster_id(self) -> str | None:
        return self._kafka_cluster.id

    def kafka_away_seconds(self) -> float:
        return self._kafka_cluster.away_seconds()

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

    def topics(self, name: str) -> list[str]:
        return self._topics.topics(name)

    def reset_topics(self, name: str) -> None:
        self._topics.reset(name)
