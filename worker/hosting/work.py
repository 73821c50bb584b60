"""What a worker of a cluster runs of the cluster's connectors and tasks; for the deciding thread only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from itertools import groupby

from headrace.worker.errors import BadRequest
from headrace.worker.hosting.connector import WorkerConnector
from headrace.worker.hosting.connectors import LocalConnectors
from headrace.worker.hosting.connectors_and_tasks import ConnectorsAndTasks
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.hosting.herder_loop import note_errors
from headrace.worker.hosting.ports import Plugins, Tasks
from headrace.worker.hosting.task_restarts import TaskRestarts
from headrace.worker.hosting.tasks import LocalTasks
from headrace.worker.model import State, Status, TargetState, TaskId
from headrace.worker.redaction import trace_of
from headrace.worker.storage.cluster_config import ClusterConfig
from headrace.worker.storage.statuses import StatusStore

log = logging.getLogger(__name__)


class LocalWork:
    """Starts, ends and redirects connectors and tasks as the cluster's configuration says."""

    def __init__(
        self,
        worker_id: str,
        plugins: Plugins,
        tasks: Tasks,
        statuses: StatusStore,
        reconfigure: Callable[[str, WorkerConnector], None],
        restarts: TaskRestarts | None = None,
    ) -> None:
        """`reconfigure` is called, from any thread, when a connector's task configs are to be taken."""
        self._worker_id = worker_id
        self._plugins = plugins
        self._statuses = statuses
        self._reconfigure = reconfigure
        self._connectors = LocalConnectors(worker_id, statuses, reconfigure)
        self._tasks = LocalTasks(worker_id, tasks, statuses, restarts)
        self._held: set[TaskId] = set()
        self._failed: set[str] = set()

    @property
    def running(self) -> ConnectorsAndTasks:
        """What was started and not ended since, what failed included."""
        return ConnectorsAndTasks.of(self._connectors.names | self._failed, self._held)

    def instance(self, name: str) -> WorkerConnector | None:
        """The connector's instance here."""
        return self._connectors.get(name)

    def start(self, work: ConnectorsAndTasks, cluster: ClusterConfig) -> None:
        """All of it has been started, or is FAILED."""
        for name in sorted(work.connectors):
            note_errors(self.start_connector(name, cluster), f"starting connector {name}")
        self._start_tasks(work.tasks, cluster)

    def stop(self, work: ConnectorsAndTasks) -> None:
        """It has ended, or is abandoned; the statuses say so."""
        self._held -= work.tasks
        self._tasks.halt(sorted(work.tasks))
        self._failed -= work.connectors
        self._connectors.end(work.connectors)

    def start_connector(self, name: str, cluster: ClusterConfig) -> Future[TargetState]:
        """The connector is on its way to its target; answered when it is there."""
        self._failed.discard(name)
        try:
            there = self._connectors.start(name, self.configured(name, cluster))
        except Exception as error:
            self._failed.add(name)
            self._connectors.failed(name, error)
            failed: Future[TargetState] = Future()
            failed.set_exception(error)
            return failed
        instance = self._connectors.get(name)
        assert instance is not None
        self._tell_started(name, instance, there)
        return there

    def restart_connector(self, name: str, cluster: ClusterConfig) -> Future[TargetState]:
        """The connector has ended, and a new instance is on its way."""
        self.stop(ConnectorsAndTasks.of([name]))
        return self.start_connector(name, cluster)

    def restart_tasks(self, tasks: Collection[TaskId], cluster: ClusterConfig) -> bool:
        """Whether all of them, which run here, could be started anew."""
        self._tasks.halt(sorted(tasks))
        return self._start_tasks(tasks, cluster)

    def show_restarting(self, work: ConnectorsAndTasks, cluster: ClusterConfig) -> None:
        """It is shown as RESTARTING."""
        for name in work.connectors:
            self._connectors.restarting(name, self.configured(name, cluster))
        for task in work.tasks:
            self._statuses.tell(task, Status(State.RESTARTING, self._worker_id))

    def retarget(self, name: str, cluster: ClusterConfig) -> None:
        """The connector and its tasks, as far as they run here, are on their way to the connector's target."""
        target = cluster.targets[name]
        instance = self._connectors.get(name)
        if instance is not None:
            there = instance.transition(target)
            note_errors(there, f"changing the state of connector {name} to {target}")
            self._tell_started(name, instance, there)
        tasks = [task for task in self._held if task.connector == name]
        if target is TargetState.STARTED:
            self._tasks.resume(tasks)
        else:
            self._tasks.pause(tasks)

    def configured(self, name: str, cluster: ClusterConfig) -> ConnectorDefinition:
        """The connector as the cluster has it.

        Errors: BadRequest where its class is not known here.
        """
        config = cluster.connectors[name]
        class_name = config.get("connector.class") or ""
        kind = self._plugins.kind(class_name)
        if kind is None:
            raise BadRequest(
                f"Connector {name} is of class {class_name}, which this worker does not have. Install the plugin that "
                "has it on every worker of the cluster, then restart the connector"
            )
        plugin = self._plugins.connector(class_name)
        return ConnectorDefinition(
            dict(config),
            kind,
            plugin,
            cluster.targets[name],
            cluster.task_configs(name),
            cluster.applied.get(name),
            variables=self._plugins.variables,
            worker=self._plugins.worker,
        )

    def _start_tasks(self, tasks: Collection[TaskId], cluster: ClusterConfig) -> bool:
        """Whether all of them could be started."""
        by_connector = groupby(sorted(tasks), lambda task: task.connector)
        started = [self._start_tasks_of(name, list(its), cluster) for name, its in by_connector]
        return all(started)

    def _start_tasks_of(self, name: str, tasks: Sequence[TaskId], cluster: ClusterConfig) -> bool:
        self._held.update(tasks)
        try:
            configured = self.configured(name, cluster)
        except Exception as error:
            trace = trace_of(error)
            for task in tasks:
                log.error("Failed to start task %s: %s", task, trace)
                self._statuses.tell(task, Status(State.FAILED, self._worker_id, None, trace))
            return False
        started = [self._tasks.start(task, configured) for task in tasks]
        return all(started)

    def _tell_started(self, name: str, instance: WorkerConnector, there: Future[TargetState]) -> None:
        def tell(ended: Future[TargetState]) -> None:
            if ended.exception() is None and ended.result() is TargetState.STARTED:
                self._reconfigure(name, instance)

        there.add_done_callback(tell)
