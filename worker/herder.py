"""What REST and the command line ask of a worker, alike for standalone and distributed; its words and its errors.

One thread decides; those that read answer from snapshots, those that change something wait for the decision, 90 s at
most. Every method may raise what is drawn here:

    ConnectError            its status and message are the answer
    ├── BadRequest          400  the request or the config is wrong: mend it
    ├── Forbidden           403  this worker's settings switch it off
    ├── NotFound            404
    ├── AlreadyExists       409  another connector has the name
    ├── Conflict            409  not now: ask again in a moment
    │   └── Elsewhere       409  another worker decides it: REST asks that one in the requester's place
    └── TimedOut            500  not decided in time; it may still happen
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from headrace.config.validation import Validation
    from headrace.config.variables import Variables
    from headrace.plugins.contracts import Connector
    from headrace.worker.metrics import WorkerMetrics

Config = Mapping[str, str | None]
"""A connector's configuration as an operator gave it; a null value counts as one that is absent."""

Kind = Literal["source", "sink"]

Offset = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""A partition, and how far it is read."""


class ConnectError(Exception):
    """What was asked cannot be done."""

    status = 500

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status or type(self).status


class BadRequest(ConnectError):
    """The request or the config is wrong."""

    status = 400


class Forbidden(ConnectError):
    """This worker's settings switch it off."""

    status = 403


class NotFound(ConnectError):
    """There is no such connector, task or plugin."""

    status = 404


class AlreadyExists(ConnectError):
    """Another connector has the name."""

    status = 409


class Conflict(ConnectError):
    """It cannot be done now; asking again in a moment is worth it."""

    status = 409


class Elsewhere(Conflict):
    """Another worker decides it; `url` is where that one answers, None while nobody knows."""

    def __init__(self, url: str | None) -> None:
        super().__init__(
            "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
            if url is None
            else "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
        )
        self.url = url


class TimedOut(ConnectError):
    """It was not decided in time."""


class State(StrEnum):
    """What a connector or a task is doing, by Connect's name; only connectors are STOPPED."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class TargetState(StrEnum):
    """What an operator wants a connector to be doing."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


INITIAL_STATES: Final[Mapping[str, TargetState]] = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
"""What a new connector is to be doing, by the names that `initial_state` has for it."""


class TaskId(NamedTuple):
    """A task of a connector, counted from 0."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@dataclass(frozen=True)
class ConnectorInfo:
    """A connector as it was configured."""

    name: str
    config: Config
    tasks: Sequence[TaskId]
    type: str
    """`source`, `sink`, or `unknown` where its class is not known here."""


@dataclass(frozen=True)
class TaskInfo:
    """A task as its connector configured it."""

    id: TaskId
    config: Config


@dataclass(frozen=True)
class Status:
    """What one worker said last of a connector or a task."""

    state: State
    worker_id: str
    version: str | None = None
    """Of the plugin."""
    trace: str | None = None
    generation: int = 0


@dataclass(frozen=True)
class ConnectorState:
    """What a connector and its tasks are doing."""

    name: str
    connector: Status
    tasks: Mapping[int, Status]
    type: str


@dataclass(frozen=True)
class Signed:
    """A request of another worker of the cluster: its raw body and what it says to be its signature."""

    body: bytes
    signature: str | None
    """Base64, as in the header X-Connect-Authorization."""
    algorithm: str | None
    """As in the header X-Connect-Request-Signature-Algorithm."""


@dataclass(frozen=True)
class PluginInfo:
    """A plugin that can be used here."""

    class_name: str
    type: str
    version: str | None


@dataclass(frozen=True)
class Health:
    """Whether the worker can take requests."""

    status: Literal["healthy", "starting", "unhealthy"]
    message: str


Report = Callable[[State, str | None], None]
"""Told each new state, with the trace of a failure."""


class TaskReport(Protocol):
    """Told each new state of a task, with the trace of a failure and whether what failed may pass by itself."""

    def __call__(self, state: State, trace: str | None, passing: bool = False, /) -> None: ...


class Tasks(Protocol):
    """Runs tasks for the herder."""

    def start(
        self,
        task: TaskId,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
        kind: Kind,
        paused: bool,
        report: TaskReport,
    ) -> None:
        """The task is about to run; returns at once.

        `report` is called from the task's thread with each new state: RUNNING, PAUSED, FAILED with its trace,
        RESTARTING while the engine is away, UNASSIGNED at the end.
        """

    def pause(self, task: TaskId) -> None:
        """The task will report PAUSED; one that does not run is passed over."""

    def resume(self, task: TaskId) -> None:
        """The task will report RUNNING; one that does not run is passed over."""

    def stop(self, tasks: Collection[TaskId]) -> None:
        """All have been asked to end, and have ended or are abandoned.

        Waits `task.shutdown.graceful.timeout.ms` in total; tasks that do not run are passed over.
        """


class Plugins(Protocol):
    """What a herder knows of the plugins that are installed; names are full Java names or aliases."""

    variables: Variables
    """What `${...}` in configs stands for on this worker."""
    worker: Mapping[str, Any]
    """Parsed worker settings that plugins may read."""

    def kind(self, connector_class: str) -> Kind | None:
        """Whether it is a source or a sink, without loading it; None where it is not known here."""

    def connector(self, connector_class: str) -> type[Connector]:
        """The class, loaded.

        Errors: BadRequest where there is none, or where it cannot be loaded.
        """

    def infos(self, connectors_only: bool = True) -> list[PluginInfo]:
        """All sinks, then all sources, then, if asked for, the others."""

    def settings(self, plugin: str) -> list[dict[str, Any]]:
        """Its settings as Connect's ConfigKeyInfo.

        Errors: NotFound.
        """

    def validate(self, config: Config) -> Validation:
        """What is to be said about a connector's config.

        Errors: BadRequest where it names no connector that is known.
        """


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
