"""The protocols by which the herder reaches tasks and plugins without knowing Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from headrace.worker.model import AutoRestart, Config, Kind, PluginInfo, State, TaskId

if TYPE_CHECKING:
    from headrace.config.connector.validation import Validation
    from headrace.config.lint.finding import Finding
    from headrace.config.lint.view import Surroundings
    from headrace.config.variables import Variables
    from headrace.plugins.contracts import Connector

Report = Callable[[State, str | None], None]
"""Takes each new state, with the trace of a failure."""


class TaskReport(Protocol):
    """Takes each new state of a task, with the trace of a failure and if an automatic start may help."""

    def __call__(self, state: State, trace: str | None, restart: AutoRestart = AutoRestart.NO, /) -> None: ...


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
        generation: int | None = None,
    ) -> None:
        """Start the task in the background; `generation`: as of `ConnectorDefinition`.

        `report` is called from the task's thread with each new state: RUNNING, PAUSED, FAILED with its trace,
        RESTARTING while the engine is away, UNASSIGNED at the end.
        """

    def pause(self, task: TaskId) -> None:
        """Pause the task, which reports PAUSED; a task that does not run is ignored."""

    def resume(self, task: TaskId) -> None:
        """Resume the task, which reports RUNNING; a task that does not run is ignored."""

    def stop(self, tasks: Collection[TaskId]) -> None:
        """End these tasks; those that do not end in time are abandoned.

        Waits `task.shutdown.graceful.timeout.ms` in total; tasks that do not run are ignored.
        """


class PluginCatalog(Protocol):
    """The installed plugins as a herder needs them; names are full Java names or aliases."""

    variables: Variables
    """The values of `${...}` in configs on this worker."""
    worker: Mapping[str, Any]
    """Parsed worker settings that plugins may read."""

    def kind(self, connector_class: str) -> Kind | None:
        """Source or sink, found without loading the class; None if this worker does not know it."""

    def connector(self, connector_class: str, version: str | None = None) -> type[Connector]:
        """Load the class, in the latest version that `version` (`connector.plugin.version`) allows.

        Errors: BadRequest if there is none, or if it cannot be loaded.
        """

    def infos(self, connectors_only: bool = True) -> list[PluginInfo]:
        """All sinks, then all sources, then, unless `connectors_only`, the others; each version."""

    def settings(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        """The settings as Connect's ConfigKeyInfo, of the latest version that `version` allows. Errors: NotFound."""

    def validate(self, config: Config) -> Validation:
        """Validate a connector's config. Errors: BadRequest if it names no known connector."""

    def lint(
        self, config: Config, around: Surroundings | None = None, validation: Validation | None = None
    ) -> list[Finding]:
        """Judge a config as it is written, by the rules of lint; no variable is resolved.

        `validation`: its result if it is there already.
        """
