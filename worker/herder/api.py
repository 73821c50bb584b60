"""The herder's interface: REST and the command line call it, alike for standalone and distributed.

One thread decides. Methods that read answer from snapshots; methods that change something wait for the decision, 90 s
at most. Every method may raise the `ConnectError` tree of `worker/errors.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.worker.hosting.ports import Plugins
from headrace.worker.model import (
    Config,
    ConnectorInfo,
    ConnectorState,
    Health,
    Offset,
    Signed,
    Status,
    TargetState,
    TaskId,
    TaskInfo,
)

if TYPE_CHECKING:
    from headrace.worker.herder.metrics import WorkerMetrics


class Herder(ABC):
    """Keeps connectors and tasks as they were configured."""

    plugins: Plugins
    metrics: WorkerMetrics | None = None
    """What `/metrics` shows; given by who puts the worker together."""

    @property
    @abstractmethod
    def cluster_id(self) -> str | None:
        """The id of the Kafka cluster, None while it is not known."""

    @abstractmethod
    def health(self, timeout_seconds: float = 10) -> Health:
        """Whether the deciding thread takes requests within that time."""

    @abstractmethod
    def connectors(self) -> list[str]:
        """The names of all connectors."""

    @abstractmethod
    def connector_info(self, name: str) -> ConnectorInfo:
        """How it was configured."""

    @abstractmethod
    def connector_state(self, name: str) -> ConnectorState:
        """What it and its tasks are doing."""

    @abstractmethod
    def task_infos(self, name: str) -> list[TaskInfo]:
        """Its tasks as the connector configured them."""

    @abstractmethod
    def task_state(self, task: TaskId) -> Status:
        """What a task is doing."""

    @abstractmethod
    def create(self, name: str, config: Config, target: TargetState = TargetState.STARTED) -> ConnectorInfo:
        """The connector exists; `config` has its `name`.

        Errors: BadRequest with everything that is wrong with the config; AlreadyExists.
        """

    @abstractmethod
    def configure(self, name: str, config: Config) -> tuple[bool, ConnectorInfo]:
        """The connector has this config; whether it had to be created."""

    @abstractmethod
    def patch(self, name: str, changes: Config) -> ConnectorInfo:
        """The connector's config has these changes; a null removes its key."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """The connector and its tasks are gone; its offsets stay."""

    @abstractmethod
    def pause(self, name: str) -> None:
        """The connector and its tasks will pause; they keep what they hold."""

    @abstractmethod
    def resume(self, name: str) -> None:
        """The connector and its tasks will run, made anew where they had been stopped."""

    @abstractmethod
    def stop_connector(self, name: str) -> None:
        """The connector is stopped and has no tasks; its config stays."""

    @abstractmethod
    def restart(self, name: str) -> None:
        """The connector, without its tasks, has been started anew."""

    @abstractmethod
    def restart_with(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorState:
        """A restart of all that was asked for is under way; those parts are shown as RESTARTING."""

    @abstractmethod
    def restart_task(self, task: TaskId) -> None:
        """The task has been stopped and started."""

    @abstractmethod
    def offsets(self, name: str) -> Sequence[Offset]:
        """How far each of its partitions is read."""

    @abstractmethod
    def alter_offsets(self, name: str, offsets: Sequence[Offset]) -> str:
        """These partitions of a STOPPED connector are read so far, None resets one; what to tell the requester."""

    @abstractmethod
    def reset_offsets(self, name: str) -> str:
        """All partitions of a STOPPED connector begin anew; what to tell the requester."""

    @abstractmethod
    def put_task_configs(self, name: str, configs: Sequence[Config], request: Signed) -> None:
        """A worker that runs the connector says which tasks it is to have."""

    @abstractmethod
    def fence_zombies(self, name: str, request: Signed) -> None:
        """No former task of this exactly-once source can write any more."""

    @abstractmethod
    def set_cluster_level(self, namespace: str, level: str) -> None:
        """Every worker will log this namespace from this level on."""

    @abstractmethod
    def drain(self) -> None:
        """The worker finishes and commits what it has under way, and leaves its work to others until it restarts."""

    @abstractmethod
    def topics(self, name: str) -> list[str]:
        """The topics that it used since the last reset; none for an unknown connector."""

    @abstractmethod
    def reset_topics(self, name: str) -> None:
        """The topics that it used are forgotten."""

    @abstractmethod
    def stop(self) -> None:
        """All connectors and tasks have ended or are abandoned; nothing is decided any more."""
