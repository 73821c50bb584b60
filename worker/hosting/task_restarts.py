"""Tasks that failed on what may pass are started again by themselves, ever more rarely.

What may pass: a `RetriableError` that reached the task's end (a server away while the plugin started; Spark's engine
lost), Kafka's passing errors, a connection refused, lost or timed out, a machine out of disk, memory or file handles.
What does not: a config or a record that is wrong, a missing file, a denied permission; those wait for an operator.

    FAILED ── backoff ──▶ RESTARTING ──▶ RUNNING ── well for backoff.max ──▶ the count is 0 again
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from headrace.config.worker_settings import RESTART
from headrace.plugins.backoff import Backoff
from headrace.worker.model import TaskId

_SPREAD: Final = 0.2


@dataclass(frozen=True)
class RestartPolicy:
    """The settings `task.restart.*`."""

    enabled: bool
    max_attempts: int
    backoff_s: float
    backoff_max_s: float
    """The longest pause; and who runs for so long runs well again."""

    @classmethod
    def of(cls, worker: Mapping[str, Any], connector: Mapping[str, str]) -> RestartPolicy:
        """As the worker's parsed settings say, unless the connector's config says otherwise.

        Errors: ConfigError where that cannot be read.
        """
        own = {key: value for key, value in connector.items() if key in RESTART}
        values = {**worker, **{key: value for key, value in RESTART.parse(own).items() if key in own}}
        backoff_ms, most_ms = values["task.restart.backoff.ms"], values["task.restart.backoff.max.ms"]
        return cls(
            values["task.restart.enabled"], values["task.restart.max.attempts"], backoff_ms / 1000, most_ms / 1000
        )


@dataclass(frozen=True)
class Attempt:
    """The next start of a failed task."""

    number: int
    most: int
    at: float
    """Seconds of the epoch."""

    def __str__(self) -> str:
        return f"Attempt {self.number} of {self.most} at {datetime.fromtimestamp(self.at, UTC):%H:%M:%S}Z follows"


@dataclass
class RestartPlan:
    """How often one task was started again in a row, and when it is next; instants are seconds of the epoch."""

    policy: RestartPolicy
    chance: Callable[[], float] = random.random
    """Draws from 0 to 1, for the random part of a pause."""
    _made: int = 0
    _since: float | None = None

    def running(self, now: float) -> None:
        """The task runs."""
        self._since = now if self._since is None else self._since

    def failed(self, now: float) -> Attempt | None:
        """Its next start; None where there is none."""
        if self._since is not None and now - self._since >= self.policy.backoff_max_s:
            self._made = 0
        self._since = None
        if not self.policy.enabled or self._made >= self.policy.max_attempts:
            return None
        self._made += 1
        pause_s = Backoff(self.policy.backoff_s, self.policy.backoff_max_s, _SPREAD).pause(self._made, self.chance)
        return Attempt(self._made, self.policy.max_attempts, now + pause_s)


class Alarms(Protocol):
    """Calls at an instant, once; one alarm per task."""

    def set(self, task: TaskId, at: float, call: Callable[[], None]) -> None:
        """`call` will be called at that instant, from another thread."""

    def cancel(self, task: TaskId) -> None:
        """It will not."""


class Decisions(Protocol):
    """The deciding thread of a herder."""

    def do(self, doing: str, act: Callable[[], None]) -> None:
        """`act` will be called on it."""


class ScheduledAlarms:
    """Alarms of APScheduler, whose threads begin with the first of them."""

    def __init__(self) -> None:
        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._lock = threading.Lock()

    def set(self, task: TaskId, at: float, call: Callable[[], None]) -> None:
        """`call` will be called at that instant, or later where the machine was asleep."""
        with self._lock:
            if not self._scheduler.running:
                self._scheduler.start()
        when = datetime.fromtimestamp(at, UTC)
        self._scheduler.add_job(
            call, "date", run_date=when, id=str(task), replace_existing=True, misfire_grace_time=None
        )

    def cancel(self, task: TaskId) -> None:
        """It will not."""
        try:
            self._scheduler.remove_job(str(task))
        except JobLookupError:
            return


@dataclass
class TaskRestarts:
    """The plans of a worker's tasks, and the alarms of those that failed; any thread may call."""

    settings: Mapping[str, Any]
    """The worker's, parsed."""
    decisions: Decisions
    alarms: Alarms = field(default_factory=ScheduledAlarms)
    clock: Callable[[], float] = time.time
    _plans: dict[TaskId, RestartPlan] = field(default_factory=dict)

    def begin(self, task: TaskId, connector: Mapping[str, str]) -> None:
        """The task starts with a count of 0, under what its connector's config says of restarts.

        Errors: ConfigError.
        """
        self.forget(task)
        self._plans[task] = RestartPlan(RestartPolicy.of(self.settings, connector))

    def running(self, task: TaskId) -> None:
        """The task runs."""
        if (plan := self._plans.get(task)) is not None:
            plan.running(self.clock())

    def failed(self, task: TaskId, again: Callable[[], None]) -> str | None:
        """What to tell of the task's next start, at which `again` is called on the deciding thread."""
        plan = self._plans.get(task)
        if plan is None or not plan.policy.enabled:
            return None
        attempt = plan.failed(self.clock())
        if attempt is None:
            most = plan.policy.max_attempts
            return f"No attempt follows, as many as task.restart.max.attempts allows were made in a row: {most}"
        doing = f"restarting task {task}, attempt {attempt.number}"
        self.alarms.set(task, attempt.at, lambda: self.decisions.do(doing, again))
        return str(attempt)

    def forget(self, task: TaskId) -> None:
        """The task does not start by itself any more."""
        if self._plans.pop(task, None) is not None:
            self.alarms.cancel(task)
