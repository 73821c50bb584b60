"""A herder's answers that both modes share: the cluster's id, states, and the topics that connectors used."""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from headrace.worker.errors import NotFound, Starting
from headrace.worker.herder.api import Herder
from headrace.worker.herder.services import HerderServices
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.model import Config, ConnectorState, Status, TaskId

if TYPE_CHECKING:  # it needs Kafka's client
    from headrace.worker.herder.dead_letters import ConnectorLetters


class StatusAnswers(Herder):
    """Herder over a store of statuses; any thread may call the methods of this class."""

    not_yet: ClassVar[str]
    """The step of the start after which all connectors are known; named in an error."""

    def __init__(self, services: HerderServices) -> None:
        super().__init__(services.plugins)
        self._knowing = threading.Event()
        self.statuses = services.statuses
        self._kafka_cluster = services.cluster
        self._topics = services.topics
        self._dead_letters = services.dead_letters

    @abstractmethod
    def kind_of(self, name: str) -> str:
        """Return `source` or `sink`; `unknown` if the connector or its class is unknown."""

    @abstractmethod
    def definition(self, name: str) -> ConnectorDefinition:
        """Return the connector's definition as this worker knows it. Errors: NotFound; BadRequest."""

    def know(self) -> None:
        """Note that all connectors are known, with their states."""
        self._knowing.set()

    def check_known(self) -> None:
        if not self._knowing.is_set():
            raise Starting(f"This worker is still starting up and has not been able to {self.not_yet} yet")

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

    def dead_letters(self, name: str) -> ConnectorLetters:
        return self._dead_letters.of(self.definition(name), lambda: self._others(name))

    def _others(self, name: str) -> dict[str, Config]:
        return {other: self.connector_info(other).config for other in self.connectors() if other != name}
