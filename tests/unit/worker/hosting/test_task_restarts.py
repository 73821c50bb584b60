"""Failed tasks that start again by themselves: which errors count, how long they wait, what their status says."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings
from headrace.config.variables import Variables
from headrace.config.worker.settings import RESTART
from headrace.plugins.contracts import DataError, LoginRefused, RetriableError
from headrace.worker.errors import RecordError
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.hosting.ports import TaskReport
from headrace.worker.hosting.task_restarts import RestartPlan, RestartPolicy, ScheduledAlarms, TaskRestarts
from headrace.worker.hosting.tasks import LocalTasks
from headrace.worker.kafka.errors import CertificateRefused, is_retriable, restart_after
from headrace.worker.logging.redaction import log_text
from headrace.worker.model import AutoRestart, State, TargetState, TaskId
from headrace.worker.storage.statuses import MemoryStatusStore

TASK = TaskId("c", 0)
SETTINGS = {**RESTART.parse({}), "task.restart.max.attempts": 3}


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        RetriableError("the database is away"),
        LoginRefused("password authentication failed"),
        ConnectionRefusedError(),
        TimeoutError(),
        OSError(errno.ENOSPC, "disk full"),
        KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)),
        KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)),
        caused(RuntimeError("cannot open the table"), ConnectionResetError()),
    ],
)
def test_what_is_retriable(error: Exception) -> None:
    assert is_retriable(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a bug"),
        FileNotFoundError(errno.ENOENT, "no such folder"),
        PermissionError(errno.EACCES, "denied"),
        DataError("no JSON"),
        RecordError("refused"),
        ConfigError(Problem("file", "x", "wrong", "mend it")),
        KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)),
        KafkaException(KafkaError(KafkaError._TRANSPORT, "fenced", fatal=True)),
        caused(DataError("no schema"), TimeoutError()),
    ],
)
def test_what_waits_for_an_operator(error: Exception) -> None:
    assert not is_retriable(error)


def plan(spread: float = 1.0, **policy: Any) -> RestartPlan:
    return RestartPlan(replace(RestartPolicy(True, 10, 1.0, 300.0), **policy), lambda: spread)


def test_pauses_double_up_to_the_longest() -> None:
    made = plan(backoff_max_s=5.0)
    attempts = [made.failed(100.0) for _ in range(10)]
    assert [attempt.at - 100 for attempt in attempts if attempt] == [1, 2, 4, 5, 5, 5, 5, 5, 5, 5]
    assert made.failed(100.0) is None


def test_tasks_that_failed_together_come_back_apart() -> None:
    soonest = plan(spread=0.0).failed(0.0)
    assert soonest is not None
    assert soonest.at == pytest.approx(0.8)


def test_who_ran_well_for_the_longest_pause_counts_anew() -> None:
    made = plan(backoff_max_s=60.0)
    assert [str(made.failed(0.0))[:9], str(made.failed(0.0))[:9]] == ["Attempt 1", "Attempt 2"]
    made.running(100.0)
    made.running(150.0)  # told twice: the first counts
    assert str(made.failed(159.9)).startswith("Attempt 3")
    made.running(200.0)
    assert str(made.failed(260.0)).startswith("Attempt 1")


def test_an_attempt_says_its_number_and_its_time() -> None:
    attempt = plan(backoff_s=3.0).failed(1_763_726_400.0)
    assert str(attempt) == "Attempt 1 of 10 at 12:00:03Z follows"


def test_a_connector_may_say_otherwise() -> None:
    policy = RestartPolicy.of(SETTINGS, {"task.restart.backoff.ms": "50", "task.restart.enabled": "false", "x": "y"})
    assert policy == RestartPolicy(False, 3, 0.05, 300.0)
    with pytest.raises(ConfigError, match=r"task\.restart\.backoff\.ms"):
        RestartPolicy.of(SETTINGS, {"task.restart.backoff.ms": "soon"})


class FakeAlarms:
    """Alarms that go off when a test says so."""

    def __init__(self) -> None:
        self.waiting: dict[TaskId, tuple[float, Callable[[], None]]] = {}

    def set(self, task: TaskId, at: float, call: Callable[[], None]) -> None:
        self.waiting[task] = at, call

    def cancel(self, task: TaskId) -> None:
        self.waiting.pop(task, None)

    def go_off(self) -> None:
        for task in list(self.waiting):
            self.waiting.pop(task)[1]()


class AtOnce:
    """Decides where it is asked."""

    def do(self, doing: str, act: Callable[[], None]) -> None:
        act()


class FakeTasks:
    """Tasks whose fate a test tells."""

    def __init__(self) -> None:
        self.reports: dict[TaskId, TaskReport] = {}
        self.starts: list[bool] = []
        self.broken: Exception | None = None

    def start(
        self,
        task: TaskId,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
        kind: str,
        paused: bool,
        report: TaskReport,
        generation: int | None = None,
    ) -> None:
        self.starts.append(paused)
        if self.broken is not None:
            raise self.broken
        self.reports[task] = report
        report(State.PAUSED if paused else State.RUNNING, None)

    def pause(self, task: TaskId) -> None: ...

    def resume(self, task: TaskId) -> None: ...

    def stop(self, tasks: Collection[TaskId]) -> None: ...


class Plugin:
    settings = Settings()
    version = "1"
    task_class = "T"
    default_tasks_max = 1


class Worker:
    """Local tasks with one task that was started."""

    def __init__(self, **config: str) -> None:
        self.alarms, self.tasks, self.statuses = FakeAlarms(), FakeTasks(), MemoryStatusStore()
        self.now = 1_763_726_400.0
        restarts = TaskRestarts(SETTINGS, AtOnce(), self.alarms, lambda: self.now)
        self.local = LocalTasks("host:8083", self.tasks, self.statuses, restarts)  # type: ignore[arg-type]
        own = {key.replace("_", "."): value for key, value in config.items()}
        raw = {"name": "c", "connector.class": "X", **own}
        self.configured = ConnectorDefinition(
            raw,
            "sink",
            Plugin,  # type: ignore[arg-type]
            TargetState.STARTED,
            ({"a": "b"},),
            variables=Variables({}),
        )
        self.local.start(TASK, self.configured)

    def fail(self, restart: AutoRestart = AutoRestart.YES) -> str:
        self.tasks.reports[TASK](State.FAILED, "builtins.TimeoutError: away\n...", restart)
        status = self.statuses.get(TASK)
        assert status is not None
        assert status.state is State.FAILED
        return status.trace or ""

    @property
    def state(self) -> State | None:
        status = self.statuses.get(TASK)
        return status.state if status else None


def test_a_task_that_failed_with_a_retriable_error_runs_again() -> None:
    worker = Worker()
    trace = worker.fail()
    assert trace.startswith("builtins.TimeoutError: away\n")
    assert trace.splitlines()[-1].startswith("Attempt 1 of 3 at 12:00:0")
    worker.alarms.go_off()
    assert (worker.state, worker.tasks.starts) == (State.RUNNING, [False, False])
    assert worker.fail().splitlines()[-1].startswith("Attempt 2 of 3")


def test_a_task_that_never_comes_back_stays_failed_and_says_why() -> None:
    worker = Worker()
    for _ in range(3):
        worker.fail()
        worker.alarms.go_off()
    assert "task.restart.max.attempts" in worker.fail().splitlines()[-1]
    assert worker.alarms.waiting == {}
    assert len(worker.tasks.starts) == 4


def test_a_task_that_failed_on_anything_else_waits() -> None:
    worker = Worker()
    assert worker.fail(AutoRestart.NO) == "builtins.TimeoutError: away\n..."
    assert worker.alarms.waiting == {}


def test_a_refused_login_is_repeated_only_where_it_may_be_another_and_not_soon() -> None:
    assert restart_after(caused(RuntimeError(), LoginRefused("no"))) is AutoRestart.BY_NEW_LOGIN
    assert restart_after(CertificateRefused("it has expired")) is AutoRestart.YES, "stores are read anew"
    worker = Worker(connection_password="always the same", table_name_format="${topic}")
    assert "Attempt" not in worker.fail(AutoRestart.BY_NEW_LOGIN)
    assert worker.alarms.waiting == {}
    worker = Worker(connection_password="${file:/login:password}")
    assert "Attempt 1 of 3" in worker.fail(AutoRestart.BY_NEW_LOGIN)
    assert worker.alarms.waiting[TASK][0] >= worker.now + 30


def test_a_connector_may_switch_it_off() -> None:
    worker = Worker(task_restart_enabled="false")
    assert "Attempt" not in worker.fail()
    assert worker.alarms.waiting == {}


def test_a_manual_restart_begins_the_count_anew_and_takes_the_attempt_s_place() -> None:
    worker = Worker()
    worker.fail()
    worker.alarms.go_off()
    worker.fail()
    worker.local.restart([TASK], worker.configured)
    assert worker.alarms.waiting == {}
    assert "Attempt 1 of 3" in worker.fail()


def test_a_task_that_was_ended_does_not_come_back() -> None:
    worker = Worker()
    worker.fail()
    (_, call) = worker.alarms.waiting[TASK]
    worker.local.end([TASK])
    assert worker.alarms.waiting == {}
    call()  # it had gone off already
    assert len(worker.tasks.starts) == 1
    assert worker.state is None


def test_a_task_whose_connector_was_paused_meanwhile_comes_back_paused() -> None:
    worker = Worker()
    worker.fail()
    worker.local.pause([TASK])
    worker.alarms.go_off()
    assert (worker.state, worker.tasks.starts[-1]) == (State.PAUSED, True)


def test_a_start_that_fails_with_a_retriable_error_is_tried_again() -> None:
    worker = Worker()
    worker.fail()
    worker.tasks.broken = ConnectionRefusedError()
    worker.alarms.go_off()
    status = worker.statuses.get(TASK)
    assert status is not None
    assert "Attempt 2 of 3" in (status.trace or "")
    worker.tasks.broken = None
    worker.alarms.go_off()
    assert worker.state is State.RUNNING


def test_a_wrong_setting_of_the_connector_fails_its_task() -> None:
    worker = Worker(task_restart_max_attempts="many")
    status = worker.statuses.get(TASK)
    assert status is not None
    assert status.state is State.FAILED
    assert "task.restart.max.attempts" in (status.trace or "")


def test_an_alarm_goes_off_once_unless_it_is_cancelled() -> None:
    alarms, heard = ScheduledAlarms(), []
    alarms.cancel(TASK)
    alarms.set(TASK, time.time() + 3600, lambda: heard.append("late"))
    alarms.set(TaskId("c", 1), time.time() - 5, lambda: heard.append("now"))
    deadline = time.monotonic() + 60
    while heard != ["now"]:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    alarms.cancel(TASK)
    alarms.cancel(TASK)


def test_an_error_raised_from_itself_is_judged_and_told() -> None:
    error, other = RuntimeError("the plugin's own"), RetriableError("later")
    error.__cause__ = error
    assert not is_retriable(error)
    other.__cause__, error.__cause__ = error, other
    assert is_retriable(error)
    assert "the plugin's own" in log_text(error)
