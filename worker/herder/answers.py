"""A herder's answers that both modes share: the cluster's id, states, and the topics that connectors used."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Collection
from contextlib import suppress
from typing import ClassVar

from headrace.config.lint.finding import Finding
from headrace.config.lint.view import Surroundings
from headrace.plugins.errors import RetriableError
from headrace.worker.errors import NotFound, Starting
from headrace.worker.herder.api import Herder
from headrace.worker.herder.services import HerderServices
from headrace.worker.model import Config, ConnectorState, Status, TaskId


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

    @abstractmethod
    def kind_of(self, name: str) -> str:
        """Return `source` or `sink`; `unknown` if the connector or its class is unknown."""

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

    def lint(self, config: Config, others: Collection[str], tasks: int | None = None) -> list[Finding]:
        facts, why = None, ""
        try:
            facts = self._kafka_cluster.facts()
        except RetriableError as error:
            why = str(error)
        return self.plugins.lint(
            config, Surroundings(cluster=facts, not_asked=why, others=self._configs(others), tasks=tasks)
        )

    def _configs(self, names: Collection[str]) -> dict[str, Config]:
        found: dict[str, Config] = {}
        for name in names:
            with suppress(NotFound):  # just deleted
                found[name] = self.connector_info(name).config
        return found

    def topics(self, name: str) -> list[str]:
        return self._topics.topics(name)

    def reset_topics(self, name: str) -> None:
        self._topics.reset(name)
