"""Selects the connector and tasks of an operator's restart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.worker.errors import NotFound
from headrace.worker.hosting.connectors_and_tasks import ConnectorsAndTasks
from headrace.worker.model import ConnectorState, State, TaskId
from headrace.worker.storage.statuses import StatusStore


def restart_plan(
    statuses: StatusStore, name: str, tasks: Iterable[TaskId], include_tasks: bool, only_failed: bool
) -> ConnectorsAndTasks:
    """The connector and the tasks to restart, on any worker."""
    connector = statuses.get(name)
    restart = not only_failed or (connector is not None and connector.state is State.FAILED)
    known = statuses.tasks(name) if include_tasks else {}
    chosen = [
        task for task in tasks if task.task in known and (not only_failed or known[task.task].state is State.FAILED)
    ]
    return ConnectorsAndTasks.of([name] if restart else [], chosen)


def shown(statuses: StatusStore, name: str, plan: ConnectorsAndTasks, kind: str) -> ConnectorState:
    """The connector's upcoming state: all in the plan is RESTARTING. Errors: NotFound if it has no status."""
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
