"""The protocols by which the herder reaches tasks and plugins without knowing Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from headrace.worker.model import Config, Kind, PluginInfo, State, TaskId

if TYPE_CHECKING:
    from headrace.config.validation import Validation
    from headrace.config.variables import Variables
    from headrace.plugins.contracts import Connector

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
