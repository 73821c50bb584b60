"""A herder's part that both modes share: the cluster's id, states, used topics, offsets and the history."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from headrace.config.worker.history import HISTORY_TOPIC
from headrace.worker.errors import Forbidden, NotFound, Starting
from headrace.worker.herder.api import Herder
from headrace.worker.herder.services import HerderServices
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.model import Config, ConnectorState, Offset, Status, TaskId
from headrace.worker.storage.history import Revision

if TYPE_CHECKING:  # it needs Kafka's client
    from headrace.worker.herder.dead_letters import ConnectorLetters


class StatusAnswers(Herder):
    """Herder over a store of statuses; any thread may call the methods of this class."""

    not_yet: ClassVar[str]
    """The step of the start after which all connectors are known; named in an error."""

    def __init__(self, services: HerderServices) -> None:
        super().__init__(services.plugins, services.previews)
        self._knowing = threading.Event()
        self.statuses = services.statuses
        self._kafka_cluster = services.cluster
        self._topics = services.topics
        self._dead_letters = services.dead_letters
        self._offset_changes = services.offset_changes
        self._history = services.history

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

    def revisions(self, name: str) -> Sequence[Revision]:
        if self._history is None:
            raise Forbidden(f"No history of connectors is kept; name a topic for it in {HISTORY_TOPIC} of all workers.")
        found = self._history.revisions(name)
        if not found:
            raise NotFound(f"The history has no change of connector {name}")
        return found

    def alter_offsets(self, name: str, offsets: Sequence[Offset]) -> str:
        return self._offset_changes.alter(self._changeable(name), offsets, self._history)

    def reset_offsets(self, name: str) -> str:
        return self._offset_changes.reset(self._changeable(name), self._history)

    @abstractmethod
    def _changeable(self, name: str) -> ConnectorDefinition:
        """Return the connector, whose offsets may be changed now. Errors: ConnectError if they may not."""

    def topics(self, name: str) -> list[str]:
        return self._topics.topics(name)

    def reset_topics(self, name: str) -> None:
        self._topics.reset(name)

    def dead_letters(self, name: str) -> ConnectorLetters:
        return self._dead_letters.of(self.definition(name), lambda: self._others(name))

    def _others(self, name: str) -> dict[str, Config]:
        return {other: self.connector_info(other).config for other in self.connectors() if other != name}
