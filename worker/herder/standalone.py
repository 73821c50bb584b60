"""Herder of a standalone worker: connectors in memory, one deciding thread.

A request for a change waits for a decision; plugin code runs on the connectors' own threads, and its answer comes back
as one more decision. Requests that only read never wait: `_connectors` is replaced, not mutated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from headrace.worker.errors import AlreadyExists, Conflict, ConnectError, NotFound, TimedOut
from headrace.worker.herder.answers import StatusAnswers
from headrace.worker.herder.services import HerderServices
from headrace.worker.hosting.connector import STOP_SECONDS, WorkerConnector
from headrace.worker.hosting.connectors import LocalConnectors
from headrace.worker.hosting.definition import ConnectorDefinition, patched, validated
from headrace.worker.hosting.herder_loop import HerderLoop, done, note_errors
from headrace.worker.hosting.own_groups import check_own_group
from headrace.worker.hosting.restart_plan import restart_plan, shown
from headrace.worker.hosting.task_restarts import TaskRestarts
from headrace.worker.hosting.tasks import LocalTasks
from headrace.worker.logging import logs
from headrace.worker.model import (
    Config,
    ConnectorInfo,
    ConnectorState,
    Health,
    Offset,
    Signed,
    TargetState,
    TaskId,
    TaskInfo,
)
from headrace.worker.requester import as_asked
from headrace.worker.storage.history import MemoryHistory, Snapshot

if TYPE_CHECKING:  # it needs Kafka's client
    from headrace.worker.herder.dead_letters import ConnectorLetters

log = logging.getLogger(__name__)

T = TypeVar("T")


class StandaloneHerder(StatusAnswers):
    """Decides for one worker alone; healthy once the connectors named at its start exist."""

    not_yet = "create the connectors that its command names"

    def __init__(self, services: HerderServices) -> None:
        self._recorded = MemoryHistory()
        super().__init__(replace(services, history=self._recorded))
        worker_id, statuses = services.worker_id, services.statuses
        self._loop = HerderLoop("StandaloneHerder")
        self._tasks = LocalTasks(worker_id, services.tasks, statuses, TaskRestarts(services.settings, self._loop))
        self._connectors: Mapping[str, ConnectorDefinition] = {}
        self._instances = LocalConnectors(
            worker_id, statuses, self._reconfigure, services.connector_starts, services.offset_changes.stored
        )
        self._drained = False

    # Reading, from any thread.

    def health(self, timeout_seconds: float = 10) -> Health:
        found = self._loop.health(self._knowing, timeout_seconds)
        if self._drained and found.status == "healthy":
            return Health("healthy", "Worker is drained: its connectors and tasks have ended until it is restarted.")
        return found

    def connectors(self) -> list[str]:
        return list(self._connectors)

    def connector_info(self, name: str) -> ConnectorInfo:
        configured = self._configured(name)
        tasks = [TaskId(name, number) for number in range(len(configured.task_configs))]
        return ConnectorInfo(name, configured.config, tasks, configured.kind)

    def task_infos(self, name: str) -> list[TaskInfo]:
        configs = self._configured(name).task_configs
        return [TaskInfo(TaskId(name, number), config) for number, config in enumerate(configs)]

    def offsets(self, name: str) -> Sequence[Offset]:
        return self._offset_changes.shown(self._configured(name))

    def offsets_at(self, name: str, at_ms: int) -> Sequence[Offset]:
        return self._offset_changes.at(self._configured(name), at_ms)

    def definition(self, name: str) -> ConnectorDefinition:
        return self._configured(name)

    def kind_of(self, name: str) -> str:
        configured = self._connectors.get(name)
        return configured.kind if configured else "unknown"

    # Requests, from any thread.

    def create(self, name: str, config: Config, target: TargetState = TargetState.STARTED) -> ConnectorInfo:
        wanted = validated(self.plugins, config, target)
        return self._done(f"creating connector {name}", lambda: self._create(name, wanted))

    def configure(self, name: str, config: Config) -> tuple[bool, ConnectorInfo]:
        wanted = validated(self.plugins, config)
        created = name not in self._connectors
        return created, self._done(f"configuring connector {name}", lambda: self._configure(name, wanted))

    def patch(self, name: str, changes: Config) -> ConnectorInfo:
        return self.configure(name, patched(self._configured(name).config, changes))[1]

    def delete(self, name: str) -> None:
        self._decided(f"deleting connector {name}", lambda: self._delete(name))

    def pause(self, name: str) -> None:
        self._decided(f"pausing connector {name}", lambda: self._pause(name))

    def resume(self, name: str) -> None:
        self._decided(f"resuming connector {name}", lambda: self._resume(name))

    def stop_connector(self, name: str) -> None:
        self._done(f"stopping connector {name}", lambda: self._stop_connector(name))

    def restart(self, name: str) -> None:
        self._known(name)
        try:
            self._done(f"restarting connector {name}", lambda: self._restart(name))
        except (Conflict, NotFound, TimedOut):
            raise
        except ConnectError as error:
            raise ConnectError(f"Failed to start connector: {name}") from error

    def restart_with(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorState:
        return self._decided(
            f"restarting connector {name}", lambda: self._restart_with(name, include_tasks, only_failed)
        )

    def restart_task(self, task: TaskId) -> None:
        self._decided(f"restarting task {task}", lambda: self._restart_task(task))

    def dead_letters_to_change(self, name: str) -> ConnectorLetters:
        return self.dead_letters(name)

    def put_task_configs(self, name: str, configs: Sequence[Config], request: Signed) -> None:
        raise ConnectError("Kafka Connect in standalone mode does not support externally setting task configurations.")

    def fence_zombies(self, name: str, request: Signed) -> None:
        raise ConnectError("Kafka Connect in standalone mode does not support exactly-once source connectors.")

    def set_cluster_level(self, namespace: str, level: str) -> None:
        logs.set_level(namespace, level)

    def drain(self) -> None:
        self._loop.wait(self._loop.ask("draining the worker", self._drain))

    def stop(self) -> None:
        self._loop.wait(self._loop.ask("stopping all connectors and tasks", self._stop_all))
        self._loop.stop(STOP_SECONDS)

    def _decided(self, doing: str, decide: Callable[[], T]) -> T:
        return self._done(doing, lambda: done(decide()))

    def _done(self, doing: str, decide: Callable[[], Future[T]]) -> T:
        def begin() -> Future[T]:
            if self._drained:
                raise Conflict("The worker is drained and changes nothing any more; restart it")
            try:
                return decide()
            finally:
                self._recorded.look(
                    {one: Snapshot(known.config, known.target) for one, known in self._connectors.items()}
                )

        return self._loop.wait(self._loop.begin(doing, as_asked(begin)))

    def _configured(self, name: str) -> ConnectorDefinition:
        try:
            return self._connectors[name]
        except KeyError:
            raise NotFound(f"Connector {name} not found") from None

    def _known(self, name: str, text: str = "Unknown connector: ") -> ConnectorDefinition:
        if name not in self._connectors:
            raise NotFound(text + name)
        return self._connectors[name]

    def _changeable(self, name: str) -> ConnectorDefinition:
        """Return the connector, which must be STOPPED. Errors: NotFound; BadRequest."""

        def stopped() -> ConnectorDefinition:
            configured = self._configured(name)
            configured.check_stopped()
            return configured

        return self._decided(f"changing the offsets of connector {name}", stopped)

    # Decisions, on the deciding thread only.

    def _create(self, name: str, wanted: ConnectorDefinition) -> Future[ConnectorInfo]:
        if name in self._connectors:
            raise AlreadyExists(f"Connector {name} already exists")
        self._check_group(name, wanted)
        log.info("Connector %s is created", name)
        return self._answer_info(name, wanted, self._launch(name, wanted))

    def _configure(self, name: str, wanted: ConnectorDefinition) -> Future[ConnectorInfo]:
        self._check_group(name, wanted)
        old, configured = self._connectors.get(name), wanted
        if old is not None:
            self._instances.end([name])
            configured = replace(old, config=wanted.config, kind=wanted.kind, plugin=wanted.plugin)
        log.info("Connector %s is %s", name, "created" if old is None else "reconfigured")
        return self._answer_info(name, wanted, self._launch(name, configured))

    def _check_group(self, name: str, wanted: ConnectorDefinition) -> None:
        others = {other: configured.config for other, configured in self._connectors.items()}
        check_own_group(name, wanted.config, others, self.plugins)

    def _delete(self, name: str) -> None:
        self._configured(name)
        self._tasks.end(self._task_ids(name))
        self._instances.end([name])
        self._connectors = {one: configured for one, configured in self._connectors.items() if one != name}
        self.statuses.forget(name)
        self.statuses.forget_topics(name)
        log.info("Connector %s is deleted", name)

    def _pause(self, name: str) -> None:
        self._keep(name, replace(self._known(name, "Unknown connector "), target=TargetState.PAUSED))
        log.info("Connector %s is paused", name)
        note_errors(self._instance(name).transition(TargetState.PAUSED), f"pausing connector {name}")
        self._tasks.pause(self._task_ids(name))

    def _resume(self, name: str) -> None:
        configured = replace(self._known(name, "Unknown connector "), target=TargetState.STARTED)
        self._keep(name, configured)
        log.info("Connector %s is resumed", name)
        instance = self._instance(name)
        started = self._with_tasks(name, instance, instance.transition(TargetState.STARTED))
        note_errors(started, f"resuming connector {name}")
        if configured.applied == configured.config:  # else its tasks are about to be made again
            self._tasks.resume(self._task_ids(name))

    def _stop_connector(self, name: str) -> Future[TargetState]:
        configured = self._known(name, "Unknown connector ")
        self._tasks.end(self._task_ids(name))
        self._keep(name, replace(configured, target=TargetState.STOPPED, task_configs=(), applied=None))
        log.info("Connector %s is stopped: its tasks have ended", name)
        return self._instance(name).transition(TargetState.STOPPED)

    def _restart(self, name: str) -> Future[None]:
        configured = self._known(name)
        log.info("Connector %s is restarted", name)
        self._instances.end([name])
        return self._launch(name, configured)

    def _restart_with(self, name: str, include_tasks: bool, only_failed: bool) -> ConnectorState:
        configured = self._known(name)
        plan = restart_plan(self.statuses, name, self._task_ids(name), include_tasks, only_failed)
        state = shown(self.statuses, name, plan, configured.kind)
        log.info("Restarting %s", plan)
        if plan.connectors:
            self._instances.end([name])
            self._instances.show_restarting(name, configured)
            note_errors(self._launch(name, configured), f"restarting connector {name}")
        self._tasks.restart(sorted(plan.tasks), configured)
        return state

    def _restart_task(self, task: TaskId) -> None:
        configured = self._known(task.connector)
        if task not in self._task_ids(task.connector):
            raise NotFound(f"Unknown task: {task}")
        log.info("Task %s is restarted", task)
        if not self._tasks.restart([task], configured):
            raise ConnectError(f"Failed to start task: {task}")

    def _drain(self) -> None:
        self._drained = True
        self._stop_all()

    def _stop_all(self) -> None:
        self._tasks.halt([task for name in self._connectors for task in self._task_ids(name)])
        self._instances.end(self._instances.names)

    # The connector's instance.

    def _launch(self, name: str, configured: ConnectorDefinition) -> Future[None]:
        """Start a new instance with the target state; the future is done when its tasks have been started, too."""
        self._keep(name, configured)
        instance, there = self._instances.start(name, configured)
        return self._with_tasks(name, instance, there)

    def _with_tasks(self, name: str, instance: WorkerConnector, there: Future[TargetState]) -> Future[None]:
        doing = f"starting the tasks of {name}"
        return self._loop.begin_after(there, doing, lambda _: self._update_tasks(name, instance))

    def _reconfigure(self, name: str, instance: WorkerConnector) -> None:
        self._loop.tell(f"reconfiguring the tasks of {name}", lambda: self._update_tasks(name, instance))

    def _instance(self, name: str) -> WorkerConnector:
        instance = self._instances.get(name)
        if instance is None:
            raise Conflict(f"Connector {name} is not running here")
        return instance

    def _answer_info(self, name: str, wanted: ConnectorDefinition, launched: Future[None]) -> Future[ConnectorInfo]:
        def describe(_: None) -> ConnectorInfo:
            return replace(self.connector_info(name), unread=wanted.unread)

        return self._loop.after(launched, f"describing connector {name}", describe)

    def _keep(self, name: str, configured: ConnectorDefinition) -> None:
        self._connectors = {**self._connectors, name: configured}

    # Its tasks.

    def _update_tasks(self, name: str, instance: WorkerConnector) -> Future[None]:
        if not self._current(name, instance):
            return done(None)
        made = instance.task_configs(self._connectors[name].max_tasks)
        return self._loop.after(
            made, f"starting the tasks of {name}", lambda configs: self._put_tasks(name, instance, configs)
        )

    def _put_tasks(self, name: str, instance: WorkerConnector, made: list[dict[str, str]]) -> None:
        if not self._current(name, instance):
            return
        configured = self._connectors[name]
        configured.check_count(len(made))
        task_configs = configured.completed(made)
        if task_configs == configured.task_configs and configured.applied == configured.config:
            return
        self._tasks.end(self._task_ids(name))
        self._keep(name, replace(configured, task_configs=task_configs, applied=configured.config))
        for task in self._task_ids(name):
            self._tasks.start(task, self._connectors[name])

    def _current(self, name: str, instance: WorkerConnector) -> bool:
        return instance.running and self._connectors[name].target is not TargetState.STOPPED

    def _task_ids(self, name: str) -> list[TaskId]:
        return [TaskId(name, number) for number in range(len(self._connectors[name].task_configs))]
