"""The connectors that a herder runs on its worker: their instances, and what is heard of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future

from headrace.worker.hosting.connector import STOP_SECONDS, WorkerConnector
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.model import State, Status, TargetState
from headrace.worker.redaction import trace_of
from headrace.worker.storage.statuses import StatusStore

log = logging.getLogger(__name__)


class LocalConnectors:
    """Starts and ends connectors' instances and keeps their statuses; for the deciding thread only."""

    def __init__(
        self, worker_id: str, statuses: StatusStore, reconfigure: Callable[[str, WorkerConnector], None]
    ) -> None:
        """`reconfigure` is called, from any thread, when a connector asks for its task configs to be taken anew."""
        self._worker_id = worker_id
        self._statuses = statuses
        self._reconfigure = reconfigure
        self._instances: dict[str, WorkerConnector] = {}

    @property
    def names(self) -> frozenset[str]:
        """Those that have an instance here."""
        return frozenset(self._instances)

    def get(self, name: str) -> WorkerConnector | None:
        """Its instance."""
        return self._instances.get(name)

    def start(self, name: str, configured: ConnectorDefinition) -> Future[TargetState]:
        """A new instance is on its way to the connector's target; answered when it is there."""

        def say(state: State, trace: str | None) -> None:
            self._say(name, configured.version, state, trace)

        self._instances[name] = instance = WorkerConnector(
            name,
            configured.instance,
            lambda: configured.plain,
            report=say,
            reconfigure=lambda: self._reconfigure(name, instance),
            secrets=configured.secrets,
        )
        return instance.transition(configured.target)

    def failed(self, name: str, error: Exception) -> None:
        """The connector could not even be made: it is FAILED."""
        trace = trace_of(error)
        log.error("Failed to start connector %s: %s", name, trace)
        self._say(name, None, State.FAILED, trace)

    def restarting(self, name: str, configured: ConnectorDefinition) -> None:
        """It is shown as RESTARTING."""
        self._say(name, configured.version, State.RESTARTING)

    def end(self, names: Collection[str]) -> None:
        """Their instances have ended or are abandoned."""
        ending = [self._instances.pop(name) for name in names if name in self._instances]
        for instance in ending:
            instance.close()
        until = time.monotonic() + STOP_SECONDS
        for instance in ending:
            instance.join(max(0.0, until - time.monotonic()))

    def _say(self, name: str, version: str | None, state: State, trace: str | None = None) -> None:
        self._statuses.tell(name, Status(state, self._worker_id, version, trace))
