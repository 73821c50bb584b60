"""The values that every room of the worker uses: connectors, tasks, their states and statuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from headrace.config.connector.unknown_settings import UnknownSetting

Config = Mapping[str, str | None]
"""A connector's configuration as an operator gave it; a null value counts as absent."""

Kind = Literal["source", "sink"]

Offset = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""A partition, and its offset."""


class State(StrEnum):
    """The state of a connector or a task, by Connect's name; only connectors are STOPPED."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class AutoRestart(StrEnum):
    """Says if an automatic start of a failed task may help."""

    NO = "no"
    YES = "yes"
    BY_NEW_LOGIN = "by a new login"
    """Only if variables of the config may have other credentials by then: the same ones would lock the account."""


class TargetState(StrEnum):
    """The state that an operator wants a connector to be in."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


INITIAL_STATES: Final[Mapping[str, TargetState]] = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
"""The target of a new connector, by its name in `initial_state`."""


class TaskId(NamedTuple):
    """A task of a connector, counted from 0."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@dataclass(frozen=True)
class ConnectorInfo:
    """A connector with its configuration."""

    name: str
    config: Config
    tasks: Sequence[TaskId]
    type: str
    """`source`, `sink`, or `unknown` if this worker does not know its class."""
    unread: Sequence[UnknownSetting] = ()
    """The settings that nothing reads; empty unless the config was just given."""


@dataclass(frozen=True)
class TaskInfo:
    """A task as its connector configured it."""

    id: TaskId
    config: Config


@dataclass(frozen=True)
class Status:
    """The status of a connector or a task, as one worker reported it last."""

    state: State
    worker_id: str
    version: str | None = None
    """The plugin's."""
    trace: str | None = None
    generation: int = 0


@dataclass(frozen=True)
class ConnectorState:
    """The statuses of a connector and its tasks."""

    name: str
    connector: Status
    tasks: Mapping[int, Status]
    type: str


@dataclass(frozen=True)
class Signed:
    """A request of another worker of the cluster: its raw body and its claimed signature."""

    body: bytes
    signature: str | None
    """Base64, as in the header X-Connect-Authorization."""
    algorithm: str | None
    """As in the header X-Connect-Request-Signature-Algorithm."""

    @property
    def is_signed(self) -> bool:
        """True if it has a signature, right or wrong."""
        return self.signature is not None and self.algorithm is not None


@dataclass(frozen=True)
class PluginInfo:
    """A plugin that this worker can use."""

    class_name: str
    type: str
    version: str | None


@dataclass(frozen=True)
class Health:
    """The worker's ability to take requests."""

    status: Literal["healthy", "starting", "unhealthy"]
    message: str
