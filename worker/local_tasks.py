"""The tasks that a herder runs on its worker: their starts, their ends and what is heard of them in between."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from headrace.worker.configured import Configured
from headrace.worker.herder import State, Status, TargetState, TaskId, Tasks
from headrace.worker.logs import connector_context
from headrace.worker.status import StatusStore, masked, trace_of

log = logging.getLogger(__name__)


@dataclass
class _TaskReport:
    """Takes what one start of a task reports, until it is closed: an abandoned task is not heard any more."""

    put: Callable[[State, str | None], None]
    lock: threading.Lock = field(default_factory=threading.Lock)
    closed: bool = False

    def __call__(self, state: State, trace: str | None = None) -> None:
        with self.lock:
            if not self.closed:
                self.put(state, trace)

    def close(self) -> None:
        with self.lock:
            self.closed = True


class LocalTasks:
    """Starts and ends tasks and keeps their statuses; for the deciding thread only."""

    def __init__(self, worker_id: str, tasks: Tasks, statuses: StatusStore) -> None:
        self._worker_id = worker_id
        self._tasks = tasks
        self._statuses = statuses
        self._reports: dict[TaskId, _TaskReport] = {}

    def start(self, task: TaskId, configured: Configured) -> bool:
        """Whether the task could be started; one that could not is FAILED."""
        secrets = configured.secrets

        def put(state: State, trace: str | None) -> None:
            self._put(task, configured, state, None if trace is None else masked(trace, secrets))

        report = self._reports[task] = _TaskReport(put)
        paused = configured.target is not TargetState.STARTED
        config = configured.task_configs[task.task]
        with connector_context(task.connector, f"task-{task.task}"):
            try:
                configured.check_count(len(configured.task_configs))
                self._tasks.start(task, configured.plain, config, configured.kind, paused, report)
            except Exception as error:
                trace = trace_of(error, secrets)
                log.error("Failed to start task %s: %s", task, trace)
                report(State.FAILED, trace)
                return False
        return True

    def restart(self, tasks: Collection[TaskId], configured: Configured) -> bool:
        """Whether all could be started anew."""
        self.halt(tasks)
        for task in tasks:
            self._put(task, configured, State.RESTARTING)
        started = [self.start(task, configured) for task in tasks]
        return all(started)

    def pause(self, tasks: Collection[TaskId]) -> None:
        """They will report PAUSED."""
        for task in tasks:
            self._tasks.pause(task)

    def resume(self, tasks: Collection[TaskId]) -> None:
        """They will report RUNNING."""
        for task in tasks:
            self._tasks.resume(task)

    def halt(self, tasks: Collection[TaskId]) -> None:
        """They have ended or are not heard any more."""
        if tasks:
            self._tasks.stop(list(tasks))
        for task in tasks:
            if (report := self._reports.pop(task, None)) is not None:
                report.close()

    def end(self, tasks: Collection[TaskId]) -> None:
        """They have ended, and have no status any more."""
        self.halt(tasks)
        for task in tasks:
            self._statuses.forget(task)

    def _put(self, task: TaskId, configured: Configured, state: State, trace: str | None = None) -> None:
        self._statuses.put(task, Status(state, self._worker_id, configured.version, trace))
