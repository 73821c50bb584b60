"""The tasks that a herder runs on its worker: their starts, their ends and their statuses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.config.variables import variables_in
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.hosting.ports import Tasks
from headrace.worker.hosting.task_restarts import TaskRestarts
from headrace.worker.kafka.errors import restart_after
from headrace.worker.logging.logs import connector_context
from headrace.worker.logging.redaction import trace_of
from headrace.worker.model import AutoRestart, State, Status, TargetState, TaskId
from headrace.worker.storage.statuses import StatusStore

log = logging.getLogger(__name__)

_LOGIN_PAUSE_S: Final = 30.0
"""The shortest pause after a refused login: a few refusals in a row lock an account."""


@dataclass(eq=False)
class _OpenReport:
    """Takes the reports of one start of a task, until it is closed: those of an abandoned task are ignored."""

    put: Callable[[State, str | None, AutoRestart], None]
    configured: ConnectorDefinition
    lock: threading.Lock = field(default_factory=threading.Lock)
    closed: bool = False

    def __call__(self, state: State, trace: str | None = None, restart: AutoRestart = AutoRestart.NO, /) -> None:
        with self.lock:
            if not self.closed:
                self.put(state, trace, restart)

    def close(self) -> None:
        with self.lock:
            self.closed = True


class LocalTasks:
    """Starts and ends tasks and keeps their statuses; for the deciding thread only."""

    def __init__(self, worker_id: str, tasks: Tasks, statuses: StatusStore, restarts: TaskRestarts) -> None:
        """`restarts` starts a task again that failed with a retriable error."""
        self._worker_id = worker_id
        self._tasks = tasks
        self._statuses = statuses
        self._restarts = restarts
        self._reports: dict[TaskId, _OpenReport] = {}

    def start(self, task: TaskId, configured: ConnectorDefinition) -> bool:
        """Start the task; False, and FAILED, if it could not be started."""
        return self._start(task, configured, by_itself=False)

    def restart(self, tasks: Collection[TaskId], configured: ConnectorDefinition) -> bool:
        """Restart these tasks; True if all could be started."""
        self.halt(tasks)
        for task in tasks:
            self._put(task, configured, State.RESTARTING)
        started = [self.start(task, configured) for task in tasks]
        return all(started)

    def pause(self, tasks: Collection[TaskId]) -> None:
        """Pause these tasks; they report PAUSED."""
        self._aim(tasks, TargetState.PAUSED)
        for task in tasks:
            self._tasks.pause(task)

    def resume(self, tasks: Collection[TaskId]) -> None:
        """Resume these tasks; they report RUNNING."""
        self._aim(tasks, TargetState.STARTED)
        for task in tasks:
            self._tasks.resume(task)

    def halt(self, tasks: Collection[TaskId]) -> None:
        """End these tasks; the reports of those that do not end in time are ignored."""
        for task in tasks:
            self._restarts.forget(task)
        self._halt(tasks)

    def end(self, tasks: Collection[TaskId]) -> None:
        """End these tasks and remove their statuses."""
        self.halt(tasks)
        for task in tasks:
            self._statuses.forget(task)

    def _start(self, task: TaskId, configured: ConnectorDefinition, by_itself: bool) -> bool:
        redaction = configured.redaction()

        def put(state: State, trace: str | None, restart: AutoRestart) -> None:
            next_start = self._next_start(task, report, state, restart)
            text = None if trace is None else redaction.hide(trace)
            self._put(task, configured, state, text if next_start is None else f"{text or ''}\n{next_start}".lstrip())

        report = self._reports[task] = _OpenReport(put, configured)
        paused = configured.target is not TargetState.STARTED
        with connector_context(task.connector, f"task-{task.task}", redaction=redaction):
            try:
                if not by_itself:
                    self._restarts.begin(task, configured.raw)
                connector, config = configured.plain, configured.task_config(task.task)
                configured.check_count(len(configured.task_configs))
                self._tasks.start(task, connector, config, configured.kind, paused, report, configured.generation)
            except Exception as error:
                # Invariant 8: the task is FAILED and its status says why; the worker and its other tasks go on.
                trace = trace_of(error, redaction)
                log.error("Failed to start task %s: %s", task, trace)
                report(State.FAILED, trace, restart_after(error))
                return False
        return True

    def _next_start(self, task: TaskId, report: _OpenReport, state: State, restart: AutoRestart) -> str | None:
        """A sentence about the automatic start that follows; None if none does."""
        if state is State.RUNNING:
            self._restarts.running(task)
        if state is not State.FAILED or restart is AutoRestart.NO:
            return None
        least_s = 0.0
        if restart is AutoRestart.BY_NEW_LOGIN:
            if not any(any(variables_in(value)) for value in report.configured.raw.values()):
                return None
            least_s = _LOGIN_PAUSE_S
        sentence = self._restarts.failed(task, lambda: self._start_again(task, report), least_s)
        if sentence is not None:
            log.warning("Task %s failed with a retriable error. %s", task, sentence)
        return sentence

    def _start_again(self, task: TaskId, failed: _OpenReport) -> None:
        if self._reports.get(task) is not failed:
            return  # it was ended, or started by an operator, since
        self._halt([task])
        self._put(task, failed.configured, State.RESTARTING)
        self._start(task, failed.configured, by_itself=True)

    def _aim(self, tasks: Collection[TaskId], target: TargetState) -> None:
        """Set the target of an automatic start that may follow."""
        for task in tasks:
            if (report := self._reports.get(task)) is not None:
                report.configured = replace(report.configured, target=target)

    def _halt(self, tasks: Collection[TaskId]) -> None:
        if tasks:
            self._tasks.stop(list(tasks))
        for task in tasks:
            if (report := self._reports.pop(task, None)) is not None:
                report.close()

    def _put(self, task: TaskId, configured: ConnectorDefinition, state: State, trace: str | None = None) -> None:
        self._statuses.tell(task, Status(state, self._worker_id, configured.version, trace))
