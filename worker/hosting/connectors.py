"""The connectors that a herder runs on its worker: their instances and their statuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial

from headrace.plugins.offsets import SourceOffset, SourcePartition
from headrace.worker.hosting.connector import STOP_SECONDS, WorkerConnector
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.logging.redaction import Redaction, trace_of
from headrace.worker.model import State, Status, TargetState
from headrace.worker.storage.statuses import StatusStore


class LocalConnectors:
    """Starts and ends connectors' instances and keeps their statuses; for the deciding thread only."""

    def __init__(
        self,
        worker_id: str,
        statuses: StatusStore,
        reconfigure: Callable[[str, WorkerConnector], None],
        starts: StartupCounter,
        offset_of: Callable[[str, SourcePartition], SourceOffset | None] = lambda connector, partition: None,
    ) -> None:
        """`reconfigure` is called, from any thread, if a connector wants its task configs taken again.

        `offset_of` reads the stored offset of a connector's source partition.
        """
        self._worker_id = worker_id
        self._statuses = statuses
        self._reconfigure = reconfigure
        self._starts = starts
        self._offset_of = offset_of
        self._instances: dict[str, WorkerConnector] = {}

    @property
    def names(self) -> frozenset[str]:
        """The connectors with an instance on this worker."""
        return frozenset(self._instances)

    def get(self, name: str) -> WorkerConnector | None:
        """The connector's instance."""
        return self._instances.get(name)

    def start(self, name: str, configured: ConnectorDefinition) -> tuple[WorkerConnector, Future[TargetState]]:
        """Start a new instance on its way to the connector's target; the future completes when it is reached."""

        def say(state: State, trace: str | None) -> None:
            self._say(name, configured.version, state, trace)

        self._instances[name] = instance = WorkerConnector(
            name,
            configured.instance,
            lambda: configured.ready,
            report=say,
            reconfigure=lambda: self._reconfigure(name, instance),
            starts=self._starts,
            redaction=configured.redaction(),
            offset_of=partial(self._offset_of, name),
        )
        return instance, instance.transition(configured.target)

    def fail(self, name: str, error: Exception, redaction: Redaction) -> None:
        """Show a connector as FAILED that could not even be made."""
        self._say(name, None, State.FAILED, trace_of(error, redaction))

    def show_restarting(self, name: str, configured: ConnectorDefinition) -> None:
        """Show the connector as RESTARTING."""
        self._say(name, configured.version, State.RESTARTING)

    def end(self, names: Collection[str]) -> None:
        """End the instances of these connectors; those that do not end in time are abandoned."""
        ending = [self._instances.pop(name) for name in names if name in self._instances]
        for instance in ending:
            instance.close()
        until = time.monotonic() + STOP_SECONDS
        for instance in ending:
            instance.join(max(0.0, until - time.monotonic()))

    def _say(self, name: str, version: str | None, state: State, trace: str | None = None) -> None:
        self._statuses.tell(name, Status(state, self._worker_id, version, trace))
