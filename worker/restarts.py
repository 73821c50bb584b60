"""What a restart that an operator asked for restarts."""

from __future__ import annotations

from dataclasses import replace

from headrace.worker.cluster_config import ClusterConfig
from headrace.worker.herder import ConnectorState, NotFound, State, TaskId
from headrace.worker.status import StatusStore
from headrace.worker.work import Work


def restart_plan(
    statuses: StatusStore, cluster: ClusterConfig, name: str, include_tasks: bool, only_failed: bool
) -> Work:
    """The connector and the tasks that are to be restarted, wherever they run."""
    connector = statuses.get(name)
    restart = not only_failed or (connector is not None and connector.state is State.FAILED)
    known = statuses.tasks(name) if include_tasks else {}
    tasks = [
        task
        for task in cluster.tasks(name)
        if task.task in known and (not only_failed or known[task.task].state is State.FAILED)
    ]
    return Work.of([name] if restart else [], tasks)


def shown(statuses: StatusStore, name: str, plan: Work, kind: str) -> ConnectorState:
    """The connector's state as it is about to be: what is in the plan is RESTARTING.

    Errors: NotFound where it has no status.
    """
    connector = statuses.get(name)
    if connector is None:
        raise NotFound(f"Status for connector {name} not found")
    tasks = {
        number: replace(status, state=State.RESTARTING) if TaskId(name, number) in plan.tasks else status
        for number, status in statuses.tasks(name).items()
    }
    if name in plan.connectors:
        connector = replace(connector, state=State.RESTARTING)
    return ConnectorState(name, connector, tasks, kind)
