"""The herder's interface for REST and the command line, the same in standalone and distributed mode.

One thread decides. Methods that read answer from snapshots; methods that change something wait for the decision, for
90 s at most. Every method may raise the `ConnectError` tree of `worker/errors.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from headrace.config.lint.finding import Finding
from headrace.worker.hosting.ports import PluginCatalog
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
from headrace.worker.preview.model import Previews
from headrace.worker.storage.history import Revision
from headrace.worker.storage.signing import SessionKey

if TYPE_CHECKING:  # it needs Kafka's client
    from headrace.worker.herder.dead_letters import ConnectorLetters


class Herder(ABC):
    """Keeps connectors and tasks as they were configured."""

    def __init__(self, plugins: PluginCatalog, previews: Previews) -> None:
        self.plugins = plugins
        self.previews = previews

    @abstractmethod
    def check_known(self) -> None:
        """Check that all connectors are known, with their states; a starting worker has to read or create them first.

        Errors: Starting.
        """

    @property
    @abstractmethod
    def cluster_id(self) -> str | None:
        """Id of the Kafka cluster; None until known."""

    @property
    def session_key(self) -> SessionKey | None:
        """Key that the workers of a cluster share; None until known, and in standalone mode."""
        return None

    def other_workers(self) -> Sequence[str]:
        """Return the URLs of the other workers of the group; none in standalone mode. Errors: ConnectError."""
        return ()

    @abstractmethod
    def kafka_away_seconds(self) -> float:
        """Probe the brokers: 0 if one answers, else the seconds since the first failed probe."""

    @abstractmethod
    def health(self, timeout_seconds: float = 10) -> Health:
        """Return the worker's health; unhealthy if no decision is taken within the time."""

    @abstractmethod
    def connectors(self) -> list[str]:
        """List the names of all connectors."""

    @abstractmethod
    def connector_info(self, name: str) -> ConnectorInfo:
        """Return the connector's config, tasks and kind. Errors: NotFound."""

    @abstractmethod
    def connector_state(self, name: str) -> ConnectorState:
        """Return the states of the connector and of its tasks. Errors: NotFound."""

    @abstractmethod
    def task_infos(self, name: str) -> list[TaskInfo]:
        """List the connector's tasks with their configs. Errors: NotFound."""

    @abstractmethod
    def task_state(self, task: TaskId) -> Status:
        """Return the state of a task. Errors: NotFound."""

    @abstractmethod
    def lint(self, config: Config, others: Collection[str], tasks: int | None = None) -> list[Finding]:
        """Judge a connector's config by the rules of lint, with the facts of the Kafka cluster.

        `others`: connectors that it is compared with; `tasks`: the number of tasks that it has, if it runs.
        """

    @abstractmethod
    def create(self, name: str, config: Config, target: TargetState = TargetState.STARTED) -> ConnectorInfo:
        """Create a connector; `config` has its `name`.

        Errors: BadRequest with everything that is wrong with the config; AlreadyExists.
        """

    @abstractmethod
    def configure(self, name: str, config: Config) -> tuple[bool, ConnectorInfo]:
        """Set the connector's config; returns True if it was created."""

    @abstractmethod
    def patch(self, name: str, changes: Config) -> ConnectorInfo:
        """Merge changes into the connector's config; a null removes its key."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete the connector and its tasks; its offsets stay."""

    @abstractmethod
    def pause(self, name: str) -> None:
        """Pause the connector and its tasks; they keep their resources."""

    @abstractmethod
    def resume(self, name: str) -> None:
        """Resume the connector and its tasks; a STOPPED connector makes its tasks again."""

    @abstractmethod
    def stop_connector(self, name: str) -> None:
        """Stop the connector and remove its tasks; its config stays."""

    @abstractmethod
    def restart(self, name: str) -> None:
        """Restart the connector without its tasks."""

    @abstractmethod
    def restart_with(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorState:
        """Begin a restart; returns the state, with the parts to restart as RESTARTING."""

    @abstractmethod
    def restart_task(self, task: TaskId) -> None:
        """Restart the task."""

    @abstractmethod
    def offsets(self, name: str) -> Sequence[Offset]:
        """Return the offset of each of the connector's partitions."""

    @abstractmethod
    def offsets_at(self, name: str, at_ms: int) -> Sequence[Offset]:
        """Return, for each partition that a sink has an offset of, the offset of the first record since an instant.

        Errors: BadRequest for a source, whose offsets know no time.
        """

    @abstractmethod
    def alter_offsets(self, name: str, offsets: Sequence[Offset]) -> str:
        """Set offsets of a STOPPED connector, None resets a partition; returns the message for the requester."""

    @abstractmethod
    def reset_offsets(self, name: str) -> str:
        """Reset all offsets of a STOPPED connector; returns the message for the requester."""

    @abstractmethod
    def revisions(self, name: str) -> Sequence[Revision]:
        """List the recorded changes of a connector, the oldest first; also of one that was deleted.

        Errors: Forbidden if no history is kept; NotFound.
        """

    @abstractmethod
    def put_task_configs(self, name: str, configs: Sequence[Config], request: Signed) -> None:
        """Store the task configs of a connector that another worker runs."""

    @abstractmethod
    def fence_zombies(self, name: str, request: Signed) -> None:
        """Fence the former tasks of an exactly-once source."""

    @abstractmethod
    def set_cluster_level(self, namespace: str, level: str) -> None:
        """Set the namespace's log level on every worker."""

    @abstractmethod
    def drain(self) -> None:
        """Finish and commit the current work, and leave all work to other workers until this one restarts."""

    @abstractmethod
    def topics(self, name: str) -> list[str]:
        """List the topics that the connector used since the last reset; none for an unknown connector."""

    @abstractmethod
    def reset_topics(self, name: str) -> None:
        """Forget the topics that the connector used."""

    @abstractmethod
    def dead_letters(self, name: str) -> ConnectorLetters:
        """Return the connector's dead letters, to look at. Errors: NotFound."""

    @abstractmethod
    def dead_letters_to_change(self, name: str) -> ConnectorLetters:
        """Return the connector's dead letters, to replay or to delete; one worker of a cluster does so.

        Errors: NotFound.
        """

    @abstractmethod
    def stop(self) -> None:
        """End all connectors and tasks, or abandon them; no decision follows."""
