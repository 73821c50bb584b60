"""Automatic restarts of tasks that failed with a retriable error, with a growing pause.

Retriable: a `RetriableError` that ended the task (a server was away while the plugin started; Spark's engine was lost),
a `LoginRefused` if the config has variables (the start reads a changed password), Kafka's retriable errors, a
connection refused, lost or timed out, a machine out of disk, memory or file handles. Not retriable: a wrong config or
record, a missing file, a denied permission; those wait for an operator.

    FAILED ── backoff ──▶ RESTARTING ──▶ RUNNING ── for backoff.max ──▶ the count is 0 again
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from headrace.config.worker.settings import RESTART
from headrace.plugins.backoff import Backoff
from headrace.worker.model import TaskId

log = logging.getLogger(__name__)

_SPREAD: Final = 0.2


@dataclass(frozen=True)
class RestartPolicy:
    """The settings `task.restart.*`."""

    enabled: bool
    max_attempts: int
    backoff_s: float
    backoff_max_s: float
    """The longest pause; a task that ran for this long counts from 0 again."""

    @classmethod
    def of(cls, worker: Mapping[str, Any], connector: Mapping[str, str]) -> RestartPolicy:
        """Read the worker's parsed settings, and a connector's overrides.

        Errors: ConfigError if these cannot be read.
        """
        own = {key: value for key, value in connector.items() if key in RESTART}
        values = {**worker, **{key: value for key, value in RESTART.parse(own).items() if key in own}}
        backoff_ms, most_ms = values["task.restart.backoff.ms"], values["task.restart.backoff.max.ms"]
        return cls(
            values["task.restart.enabled"], values["task.restart.max.attempts"], backoff_ms / 1000, most_ms / 1000
        )


@dataclass(frozen=True)
class NextStart:
    """The next start of a failed task."""

    number: int
    most: int
    at: float
    """Seconds of the epoch."""

    def __str__(self) -> str:
        return f"Attempt {self.number} of {self.most} at {datetime.fromtimestamp(self.at, UTC):%H:%M:%S}Z follows"


@dataclass
class RestartPlan:
    """The consecutive restarts of one task, and the time of the next; instants are seconds of the epoch."""

    policy: RestartPolicy
    chance: Callable[[], float] = random.random
    """Draws from 0 to 1, for the random part of a pause."""
    _made: int = 0
    _since: float | None = None

    def running(self, now: float) -> int:
        """Note that the task runs; returns the restarts in a row that took, 0 if it was known to run."""
        if self._since is not None:
            return 0
        self._since = now
        return self._made

    def failed(self, now: float, least_s: float = 0.0) -> NextStart | None:
        """The task's next start, None for none; after `least_s` or the longest pause at the earliest."""
        if self._since is not None and now - self._since >= self.policy.backoff_max_s:
            self._made = 0
        self._since = None
        if not self.policy.enabled or self._made >= self.policy.max_attempts:
            return None
        self._made += 1
        pause_s = Backoff(self.policy.backoff_s, self.policy.backoff_max_s, _SPREAD).pause(self._made, self.chance)
        pause_s = max(pause_s, min(least_s, self.policy.backoff_max_s))
        return NextStart(self._made, self.policy.max_attempts, now + pause_s)


class Alarms(Protocol):
    """Calls back once at an instant; one alarm per task."""

    def set(self, task: TaskId, at: float, call: Callable[[], None]) -> None:
        """Call `call` at that instant, from another thread."""

    def cancel(self, task: TaskId) -> None:
        """Cancel the task's alarm, if it has one."""


class Decisions(Protocol):
    """The deciding thread of a herder."""

    def do(self, doing: str, act: Callable[[], None]) -> None:
        """Call `act` on that thread."""


class ScheduledAlarms:
    """Alarms of APScheduler, whose threads start with the first alarm."""

    def __init__(self) -> None:
        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._lock = threading.Lock()

    def set(self, task: TaskId, at: float, call: Callable[[], None]) -> None:
        """Call `call` at that instant, or later if the machine was asleep."""
        with self._lock:
            if not self._scheduler.running:
                self._scheduler.start()
        when = datetime.fromtimestamp(at, UTC)
        self._scheduler.add_job(
            call, "date", run_date=when, id=str(task), replace_existing=True, misfire_grace_time=None
        )

    def cancel(self, task: TaskId) -> None:
        """Cancel the task's alarm, if it has one."""
        try:
            self._scheduler.remove_job(str(task))
        except JobLookupError:
            return


@dataclass
class TaskRestarts:
    """The restart plans of a worker's tasks, and the alarms of those that failed; any thread may call."""

    settings: Mapping[str, Any]
    """The worker's, parsed."""
    decisions: Decisions
    alarms: Alarms = field(default_factory=ScheduledAlarms)
    clock: Callable[[], float] = time.time
    _plans: dict[TaskId, RestartPlan] = field(default_factory=dict)

    def begin(self, task: TaskId, connector: Mapping[str, str]) -> None:
        """Begin with a count of 0, under the policy of the task's connector. Errors: ConfigError."""
        self.forget(task)
        self._plans[task] = RestartPlan(RestartPolicy.of(self.settings, connector))

    def running(self, task: TaskId) -> None:
        """Note that the task runs."""
        if (plan := self._plans.get(task)) is not None:
            attempts = plan.running(self.clock())
            if attempts:
                log.info("Task %s recovered after %d attempts of restarting it", task, attempts)

    def failed(self, task: TaskId, again: Callable[[], None], least_s: float = 0.0) -> str | None:
        """Schedule `again`, on the deciding thread, as the task's next start; return a sentence for the status.

        `least_s`: as `RestartPlan.failed`.
        """
        plan = self._plans.get(task)
        if plan is None or not plan.policy.enabled:
            return None
        attempt = plan.failed(self.clock(), least_s)
        if attempt is None:
            most = plan.policy.max_attempts
            return f"No attempt follows: task.restart.max.attempts allows {most} in a row, and all of them were made"
        doing = f"restarting task {task}, attempt {attempt.number}"
        self.alarms.set(task, attempt.at, lambda: self.decisions.do(doing, again))
        return str(attempt)

    def forget(self, task: TaskId) -> None:
        """Cancel the automatic restart of the task."""
        if self._plans.pop(task, None) is not None:
            self.alarms.cancel(task)
