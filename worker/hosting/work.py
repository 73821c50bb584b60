"""A worker's share of its cluster's connectors and tasks; for the deciding thread only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from itertools import groupby

from headrace.worker.hosting.connector import WorkerConnector
from headrace.worker.hosting.connectors import LocalConnectors
from headrace.worker.hosting.connectors_and_tasks import ConnectorsAndTasks
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.hosting.herder_loop import note_errors
from headrace.worker.hosting.ports import PluginCatalog
from headrace.worker.hosting.tasks import LocalTasks
from headrace.worker.logging.redaction import Redaction, trace_of
from headrace.worker.model import State, Status, TargetState, TaskId
from headrace.worker.storage.cluster_config import ClusterConfig
from headrace.worker.storage.statuses import StatusStore

log = logging.getLogger(__name__)


class LocalWork:
    """Starts, ends and redirects connectors and tasks as the cluster's configuration says."""

    def __init__(
        self,
        worker_id: str,
        plugins: PluginCatalog,
        statuses: StatusStore,
        connectors: LocalConnectors,
        tasks: LocalTasks,
        publish: Callable[[str, WorkerConnector], None],
    ) -> None:
        """`publish` is called, from any thread, to publish the task configs of a started connector."""
        self._worker_id = worker_id
        self._plugins = plugins
        self._statuses = statuses
        self._connectors = connectors
        self._tasks = tasks
        self._publish = publish
        self._held: set[TaskId] = set()
        self._failed: set[str] = set()

    @property
    def running(self) -> ConnectorsAndTasks:
        """The connectors and tasks that were started and not ended since, including failed ones."""
        return ConnectorsAndTasks.of(self._connectors.names | self._failed, self._held)

    def start(self, work: ConnectorsAndTasks, cluster: ClusterConfig) -> None:
        """Start all of it; a connector or task that cannot be started is FAILED."""
        for name in sorted(work.connectors):
            note_errors(self.start_connector(name, cluster), f"starting connector {name}")
        self._start_tasks(work.tasks, cluster)

    def stop(self, work: ConnectorsAndTasks) -> None:
        """End all of it, as statuses then show; a connector or task that does not end in time is abandoned."""
        self._held -= work.tasks
        self._tasks.halt(sorted(work.tasks))
        self._failed -= work.connectors
        self._connectors.end(work.connectors)

    def start_connector(self, name: str, cluster: ClusterConfig) -> Future[TargetState]:
        """Start the connector on its way to its target; the future completes when it is reached."""
        self._failed.discard(name)
        try:
            instance, there = self._connectors.start(name, self._defined(name, cluster))
        except Exception as error:
            self._failed.add(name)
            self._connectors.fail(name, error, _redaction(name, cluster))
            failed: Future[TargetState] = Future()
            failed.set_exception(error)
            return failed
        self._publish_when_started(name, instance, there)
        return there

    def restart_connector(self, name: str, cluster: ClusterConfig) -> Future[TargetState]:
        """End the connector and start a new instance; the future completes at its target."""
        self.stop(ConnectorsAndTasks.of([name]))
        return self.start_connector(name, cluster)

    def restart_tasks(self, tasks: Collection[TaskId], cluster: ClusterConfig) -> bool:
        """Restart these tasks, which run on this worker; True if all could be started."""
        self._tasks.halt(sorted(tasks))
        return self._start_tasks(tasks, cluster)

    def show_restarting(self, work: ConnectorsAndTasks, cluster: ClusterConfig) -> None:
        """Show all of it as RESTARTING."""
        for name in work.connectors:
            self._connectors.show_restarting(name, self._defined(name, cluster))
        for task in work.tasks:
            self._statuses.tell(task, Status(State.RESTARTING, self._worker_id))

    def retarget(self, name: str, cluster: ClusterConfig) -> None:
        """Bring the connector and its tasks, as far as they run on this worker, to the connector's target."""
        target = cluster.targets[name]
        instance = self._connectors.get(name)
        if instance is not None:
            there = instance.transition(target)
            note_errors(there, f"changing the state of connector {name} to {target}")
            self._publish_when_started(name, instance, there)
        tasks = [task for task in self._held if task.connector == name]
        if target is TargetState.STARTED:
            self._tasks.resume(tasks)
        else:
            self._tasks.pause(tasks)

    def _defined(self, name: str, cluster: ClusterConfig) -> ConnectorDefinition:
        return ConnectorDefinition.of(name, cluster, self._plugins)

    def _start_tasks(self, tasks: Collection[TaskId], cluster: ClusterConfig) -> bool:
        by_connector = groupby(sorted(tasks), lambda task: task.connector)
        started = [self._start_tasks_of(name, list(its), cluster) for name, its in by_connector]
        return all(started)

    def _start_tasks_of(self, name: str, tasks: Sequence[TaskId], cluster: ClusterConfig) -> bool:
        self._held.update(tasks)
        try:
            configured = self._defined(name, cluster)
        except Exception as error:
            trace = trace_of(error, _redaction(name, cluster))
            for task in tasks:
                log.error("Failed to start task %s: %s", task, trace)
                self._statuses.tell(task, Status(State.FAILED, self._worker_id, None, trace))
            return False
        started = [self._tasks.start(task, configured) for task in tasks]
        return all(started)

    def _publish_when_started(self, name: str, instance: WorkerConnector, there: Future[TargetState]) -> None:
        def publish(ended: Future[TargetState]) -> None:
            if ended.exception() is None and ended.result() is TargetState.STARTED:
                self._publish(name, instance)

        there.add_done_callback(publish)


def _redaction(name: str, cluster: ClusterConfig) -> Redaction:
    """The redaction of a connector that cannot even be defined: by the names of its settings."""
    return Redaction.of({key: value for key, value in cluster.connectors[name].items() if value is not None})
