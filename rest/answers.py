"""The JSON of every answer, its members in Connect's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.rest.masking import Masking
from headrace.worker.model import ConnectorInfo, ConnectorState, Offset, PluginInfo, Status, TaskId, TaskInfo

if TYPE_CHECKING:  # it would bring Spark along
    from headrace.worker.tasks.metrics import Stuck


def connector_info(info: ConnectorInfo, masking: Masking) -> dict[str, Any]:
    """ConnectorInfo."""
    return {
        "name": info.name,
        "config": masking.shown(info.config),
        "tasks": [task_id(task) for task in info.tasks],
        "type": info.type,
    }


def task_id(task: TaskId) -> dict[str, Any]:
    """ConnectorTaskId."""
    return {"connector": task.connector, "task": task.task}


def task_info(info: TaskInfo, masking: Masking, plugin: str | None) -> dict[str, Any]:
    """TaskInfo; `plugin` is its connector's class."""
    return {"id": task_id(info.id), "config": masking.shown(info.config, plugin)}


def connector_state(state: ConnectorState) -> dict[str, Any]:
    """ConnectorStateInfo."""
    return {
        "name": state.name,
        "connector": _status(state.connector),
        "tasks": [task_state(number, status) for number, status in sorted(state.tasks.items())],
        "type": state.type,
    }


def task_state(number: int, status: Status) -> dict[str, Any]:
    """TaskState."""
    return {"id": number, **_status(status)}


def _status(status: Status) -> dict[str, Any]:
    # Terraform's client reads every value in here as a string; what is empty is left out.
    optional = {"version": status.version, "trace": status.trace}
    return {
        "state": str(status.state),
        "worker_id": status.worker_id,
        **{key: value for key, value in optional.items() if value},
    }


def offsets(found: Sequence[Offset]) -> dict[str, Any]:
    """ConnectorOffsets."""
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in found]}


def plugin_info(info: PluginInfo) -> dict[str, Any]:
    """PluginInfo."""
    version = {"version": info.version} if info.version else {}
    return {"class": info.class_name, "type": info.type, **version}


def stuck_task(task: TaskId, stuck: Stuck) -> dict[str, Any]:
    """A task that is RUNNING and does not move."""
    return {**task_id(task), "state": "UNHEALTHY", "reason": stuck.reason, "message": stuck.text}
