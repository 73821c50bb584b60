"""The state machine of a connector's instance."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.plugins.errors import LoginRefused
from headrace.worker.errors import ConnectError, Overtaken
from headrace.worker.hosting.connector import WorkerConnector
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.logging.redaction import Redaction
from headrace.worker.model import State, TargetState

SECONDS = 60


class Scripted:
    """A connector that raises what it is told to, and waits where it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.threads: set[str] = set()
        self.raises: dict[str, Exception] = {}
        self.holds: dict[str, threading.Event] = {}
        self.entered, self.stopping = threading.Event(), threading.Event()
        self.context: Any = None

    def _called(self, what: str) -> None:
        self.calls.append(what)
        self.threads.add(threading.current_thread().name)
        self.entered.set()
        if what in self.holds:
            self.holds[what].wait(SECONDS)
        if what in self.raises:
            raise self.raises[what]

    def start(self, config: Mapping[str, str], context: Any) -> None:
        self.context = context
        self._called("start")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        self._called("task_configs")
        return [{"task": str(number)} for number in range(max_tasks)]

    def stop(self) -> None:
        self.stopping.set()
        self._called("stop")


class Case:
    """A connector instance and what was heard of it."""

    def __init__(self) -> None:
        self.plugin = Scripted()
        self.heard: list[tuple[State, str | None]] = []
        self.news = threading.Condition()
        self.reconfigured = threading.Event()
        self.starts = StartupCounter()
        self.instance = WorkerConnector(
            "c",
            lambda: self.plugin,  # type: ignore[arg-type, return-value]
            lambda: {"password": "hunter2"},
            self.hear,
            self.reconfigured.set,
            self.starts,
            redaction=Redaction(["hunter2"]),
        )

    def hear(self, state: State, trace: str | None) -> None:
        with self.news:
            self.heard.append((state, trace))
            self.news.notify_all()

    def wait_for(self, state: State) -> str | None:
        with self.news:
            assert self.news.wait_for(lambda: self.heard and self.heard[-1][0] is state, SECONDS), self.heard
            return self.heard[-1][1]

    def go(self, target: TargetState) -> None:
        assert self.instance.transition(target).result(SECONDS) is target

    @property
    def states(self) -> list[State]:
        return [state for state, _ in self.heard]


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case()
    yield made
    for hold in made.plugin.holds.values():
        hold.set()
    made.instance.close()
    made.instance.join()


def test_goes_through_its_states_on_its_own_thread(case: Case) -> None:
    for target in (TargetState.STARTED, TargetState.PAUSED, TargetState.STARTED, TargetState.STOPPED):
        case.go(target)
    assert case.instance.transition(TargetState.STARTED).result(SECONDS)
    case.instance.close()
    assert case.instance.join()
    assert case.plugin.calls == ["start", "stop", "start", "stop", "start", "stop"]
    assert case.states == [
        State.RUNNING,
        State.PAUSED,
        State.RUNNING,
        State.STOPPED,
        State.RUNNING,
        State.UNASSIGNED,
    ]
    assert case.plugin.threads == {"connector-thread-c"}


def test_paused_from_the_beginning_is_never_started(case: Case) -> None:
    before = threading.active_count()
    case.go(TargetState.PAUSED)
    case.go(TargetState.STOPPED)
    assert (case.plugin.calls, case.states) == ([], [State.PAUSED, State.STOPPED])
    with pytest.raises(ConnectError, match="Connector c is not running"):
        case.instance.task_configs(1).result(SECONDS)
    assert threading.active_count() == before
    case.instance.close()
    case.instance.close()
    assert case.instance.join()
    assert case.states == [State.PAUSED, State.STOPPED, State.UNASSIGNED]


def test_paused_from_the_beginning_starts_when_it_is_to(case: Case) -> None:
    case.go(TargetState.PAUSED)
    case.go(TargetState.STARTED)
    assert case.states == [State.PAUSED, State.RUNNING]
    assert case.plugin.threads == {"connector-thread-c"}


def test_a_failed_start_shows_its_trace_without_secrets_and_leads_only_to_stopped(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    case.plugin.raises["start"] = ValueError("no login with hunter2")
    with pytest.raises(ConnectError, match=r"no login with \[hidden\]"):
        case.instance.transition(TargetState.STARTED).result(SECONDS)
    trace = case.wait_for(State.FAILED)
    assert trace is not None
    assert trace.startswith("ValueError: no login with [hidden]\n")
    assert "hunter2" not in trace
    with pytest.raises(ConnectError, match="Cannot transition connector c to PAUSED since it has failed"):
        case.instance.transition(TargetState.PAUSED).result(SECONDS)
    case.go(TargetState.STOPPED)
    del case.plugin.raises["start"]
    case.go(TargetState.STARTED)
    assert case.states == [State.FAILED, State.STOPPED, State.RUNNING]
    assert (case.starts.attempts, case.starts.failures) == (2, 1)
    assert caplog.records == []  # raised, so not logged here


def test_a_newer_wish_takes_the_place_of_one_that_waits(case: Case) -> None:
    hold = case.plugin.holds["start"] = threading.Event()
    started = case.instance.transition(TargetState.STARTED)
    assert case.plugin.entered.wait(SECONDS)
    paused = case.instance.transition(TargetState.PAUSED)
    stopped = case.instance.transition(TargetState.STOPPED)
    hold.set()
    with pytest.raises(ConnectError, match="Could not begin changing connector state to PAUSED before"):
        paused.result(SECONDS)
    assert (started.result(SECONDS), stopped.result(SECONDS)) == (TargetState.STARTED, TargetState.STOPPED)


def test_an_error_while_pausing_fails_and_while_stopping_does_not(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    case.plugin.raises["stop"] = OSError("stuck")
    case.go(TargetState.STARTED)
    case.go(TargetState.STOPPED)
    case.go(TargetState.STARTED)
    with pytest.raises(ConnectError, match="stuck"):
        case.instance.transition(TargetState.PAUSED).result(SECONDS)
    case.wait_for(State.FAILED)
    assert case.states == [State.RUNNING, State.STOPPED, State.RUNNING, State.FAILED]
    assert [line.message.splitlines()[0] for line in caplog.records] == [
        "Connector c failed to stop: OSError: stuck"
    ]  # the one that was not raised


def test_task_configs_come_from_a_started_connector_only(case: Case) -> None:
    with pytest.raises(ConnectError, match="not running"):
        case.instance.task_configs(2).result(SECONDS)
    case.go(TargetState.STARTED)
    assert case.instance.task_configs(2).result(SECONDS) == [{"task": "0"}, {"task": "1"}]


def test_the_context_reconfigures_and_fails(case: Case) -> None:
    case.go(TargetState.STARTED)
    case.plugin.context.reconfigure()
    assert case.reconfigured.wait(SECONDS)
    case.plugin.context.fail(RuntimeError("table gone"))
    trace = case.wait_for(State.FAILED)
    assert trace is not None
    assert trace.startswith("RuntimeError: table gone")
    assert not case.instance.running


def test_one_that_does_not_stop_is_abandoned_and_not_heard_any_more(case: Case) -> None:
    case.go(TargetState.STARTED)
    hold = case.plugin.holds["stop"] = threading.Event()
    case.plugin.raises["stop"] = OSError("late")
    case.instance.close()
    assert not case.instance.join(0.05)
    hold.set()
    assert case.instance.join()
    assert case.states == [State.RUNNING, State.UNASSIGNED]


def test_a_connector_that_was_asked_to_end_answers_all_that_waits_and_comes(case: Case) -> None:
    case.go(TargetState.STARTED)
    hold = case.plugin.holds["stop"] = threading.Event()
    halted = case.instance.transition(TargetState.PAUSED)
    assert case.plugin.stopping.wait(SECONDS)
    waiting, configs = case.instance.transition(TargetState.STARTED), case.instance.task_configs(1)
    case.instance.close()
    for answer in (waiting, case.instance.transition(TargetState.PAUSED)):
        with pytest.raises(Overtaken, match="shutting down"):
            answer.result(SECONDS)
    for asked in (configs, case.instance.task_configs(1)):
        with pytest.raises(Overtaken, match="not running"):
            asked.result(SECONDS)
    hold.set()
    assert halted.result(SECONDS) is TargetState.PAUSED
    assert case.instance.join()
    with pytest.raises(Overtaken, match="shutting down"):
        case.instance.transition(TargetState.STARTED).result(SECONDS)


@pytest.mark.parametrize("target", TargetState)
def test_a_connector_that_ended_before_it_began_begins_no_more(case: Case, target: TargetState) -> None:
    case.instance.close()
    with pytest.raises(Overtaken, match="shutting down"):
        case.instance.transition(target).result(SECONDS)
    assert case.states == [State.UNASSIGNED]
    assert case.plugin.calls == []


def test_after_a_refused_login_it_is_started_anew_once(case: Case) -> None:
    case.go(TargetState.STARTED)
    case.plugin.context.fail(LoginRefused("password authentication failed"))
    assert case.reconfigured.wait(SECONDS)
    assert case.plugin.calls == ["start", "stop", "start"]
    assert case.states == [State.RUNNING, State.FAILED, State.RUNNING]
    case.plugin.raises["start"] = LoginRefused("still refused")
    case.plugin.context.fail(LoginRefused("password authentication failed"))
    with case.news:
        assert case.news.wait_for(lambda: "still refused" in (case.heard[-1][1] or ""), SECONDS)
    assert case.plugin.calls[3:] == ["stop", "start"]
    assert case.states[-1] is State.FAILED
