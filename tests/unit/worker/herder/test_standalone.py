"""The standalone herder over a scripted connector and tasks that only say what they were told."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest

from headrace.config.settings import Setting, Settings, Type
from headrace.config.variables import NO_VARIABLES
from headrace.config.worker.settings import RESTART
from headrace.worker.errors import AlreadyExists, BadRequest, Conflict, ConnectError, Forbidden, NotFound, TimedOut
from headrace.worker.herder.services import HerderServices
from headrace.worker.herder.standalone import StandaloneHerder
from headrace.worker.herder.topic_tracking import TopicTracking
from headrace.worker.hosting import connectors as local_connectors
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.hosting.herder_loop import HerderLoop
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.hosting.ports import Report
from headrace.worker.logging import logs
from headrace.worker.model import Signed, State, TargetState, TaskId
from headrace.worker.storage.statuses import MemoryStatusStore

SECONDS = 60
CONFIG = {"name": "c", "connector.class": "Scripted", "tasks.max": "2"}


class Scripted:
    """A connector with as many tasks as `make` says, else `tasks.max`."""

    settings = Settings(Setting("pin", Type.PASSWORD, None))
    version = "7.1"
    task_class = "org.example.ScriptedTask"
    default_tasks_max = 1
    made: ClassVar[list[Scripted]] = []
    hold: ClassVar[threading.Event | None] = None
    begun: ClassVar[int] = 0
    slow_s: ClassVar[float] = 0.0

    @classmethod
    def forget(cls) -> None:
        cls.made, cls.hold, cls.begun, cls.slow_s = [], None, 0, 0.0

    def __init__(self) -> None:
        Scripted.made.append(self)
        self.stopped = False

    def start(self, config: Mapping[str, str], context: Any) -> None:
        self.config, self.context = dict(config), context
        Scripted.begun += 1
        time.sleep(Scripted.slow_s)
        if Scripted.hold is not None:
            Scripted.hold.wait(SECONDS)
        if "broken" in config:
            raise ValueError(f"cannot start with {config.get('pin')}")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = int(self.config.get("make", max_tasks))
        return [{"part": str(number), "of": self.config.get("of", "x")} for number in range(count)]

    def stop(self) -> None:
        time.sleep(Scripted.slow_s)
        self.stopped = True


class Judgement:
    """Finds fault with `bad`."""

    unread: Sequence[tuple[str, str]] = ()

    def __init__(self, config: Mapping[str, str | None]) -> None:
        self.config = config

    def refusal(self) -> str | None:
        return "bad is bad" if "bad" in self.config else None


class FakePlugins:
    """Knows Scripted only."""

    variables = NO_VARIABLES
    worker: Mapping[str, object] = {}

    def kind(self, connector_class: str) -> str | None:
        return "sink" if connector_class == "Scripted" else None

    def connector(self, connector_class: str, version: str | None) -> type[Scripted]:
        return Scripted

    def validate(self, config: Mapping[str, str | None]) -> Judgement:
        return Judgement(config)


class FakeTasks:
    """Tasks that report at once, and fail to start where `broken` says so."""

    def __init__(self) -> None:
        self.running: dict[TaskId, Report] = {}
        self.starts: list[tuple[TaskId, Mapping[str, str], Mapping[str, str], bool]] = []
        self.stops: list[set[TaskId]] = []
        self.broken: set[TaskId] = set()
        self.abandons = False

    def start(
        self,
        task: TaskId,
        connector_config: Mapping[str, str],
        task_config: Mapping[str, str],
        kind: str,
        paused: bool,
        report: Report,
        generation: int | None = None,
    ) -> None:
        self.starts.append((task, connector_config, task_config, paused))
        if task in self.broken:
            raise OSError(f"no room, {connector_config.get('pin')}")
        self.running[task] = report
        report(State.PAUSED if paused else State.RUNNING, None)

    def pause(self, task: TaskId) -> None:
        self.running[task](State.PAUSED, None)

    def resume(self, task: TaskId) -> None:
        self.running[task](State.RUNNING, None)

    def stop(self, tasks: Collection[TaskId]) -> None:
        self.stops.append(set(tasks))
        for task in tasks:
            if (report := self.running.pop(task, None)) is not None and not self.abandons:
                report(State.UNASSIGNED, None)

    @property
    def started(self) -> list[int]:
        return [task.task for task, *_ in self.starts]


class FakeLetters:
    """Tells whose dead letters it was asked for, and whose configs it is given beside."""

    def of(self, connector: ConnectorDefinition, others: Callable[[], Mapping[str, Any]]) -> Any:
        return connector.raw["name"], sorted(others())


class FakeOffsets:
    """Remembers what it was to change."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def shown(self, connector: ConnectorDefinition) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [({"p": connector.raw["name"]}, {"o": 1})]

    def alter(self, connector: ConnectorDefinition, offsets: Any, history: Any = None) -> str:
        self.asked.append((connector.raw["name"], offsets))
        return "altered"

    def stored(self, connector: str, partition: Any) -> None: ...

    def reset(self, connector: ConnectorDefinition, history: Any = None) -> str:
        self.asked.append((connector.raw["name"], None))
        return "reset"


class FakeKafka:
    """A cluster that has answered."""

    id = "cluster-1"


SETTINGS = {
    **RESTART.parse({"task.restart.enabled": "false"}),
    "topic.tracking.enable": True,
    "topic.tracking.allow.reset": True,
}


def standalone_services(tasks: FakeTasks, **settings: bool) -> HerderServices:
    statuses = MemoryStatusStore()
    parsed = {**SETTINGS, **{key.replace("_", "."): value for key, value in settings.items()}}
    return HerderServices(
        "host:8083",
        parsed,
        FakeKafka(),
        FakePlugins(),  # type: ignore[arg-type]
        tasks,
        statuses,
        TopicTracking(statuses, parsed),
        FakeOffsets(),  # type: ignore[arg-type]
        StartupCounter(),
        FakeLetters(),  # type: ignore[arg-type]
        Mock(),
    )


@pytest.fixture
def tasks() -> FakeTasks:
    return FakeTasks()


@pytest.fixture
def services(tasks: FakeTasks) -> HerderServices:
    return standalone_services(tasks)


@pytest.fixture
def herder(services: HerderServices) -> Iterator[StandaloneHerder]:
    Scripted.forget()
    made = StandaloneHerder(services)
    made.know()
    yield made
    if Scripted.hold is not None:
        Scripted.hold.set()
    made.stop()


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)


def connector_at(herder: StandaloneHerder, state: State) -> Callable[[], bool]:
    return lambda: herder.connector_state("c").connector.state is state


def task_states(herder: StandaloneHerder) -> list[State]:
    return [status.state for status in herder.connector_state("c").tasks.values()]


def test_a_connector_is_created_with_its_tasks(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    info = herder.create("c", {**CONFIG, "topics": "t", "empty": None})
    assert (info.name, info.type, info.tasks) == ("c", "sink", [TaskId("c", 0), TaskId("c", 1)])
    assert info.config == {**CONFIG, "topics": "t", "empty": None}
    state = herder.connector_state("c")
    assert (state.connector.state, state.connector.worker_id, state.connector.version) == (
        State.RUNNING,
        "host:8083",
        "7.1",
    )
    assert task_states(herder) == [State.RUNNING, State.RUNNING]
    assert state.tasks[0].version == "7.1"
    assert herder.task_infos("c")[1].config == {
        "part": "1",
        "of": "x",
        "task.class": "org.example.ScriptedTask",
        "topics": "t",
    }
    assert tasks.starts[0][1] == {**CONFIG, "topics": "t"}
    assert herder.connectors() == ["c"]
    with pytest.raises(AlreadyExists, match="Connector c already exists"):
        herder.create("c", CONFIG)


def test_what_is_wrong_with_a_config_changes_nothing(herder: StandaloneHerder) -> None:
    herder.create("c", CONFIG)
    for change in (lambda: herder.configure("c", {**CONFIG, "bad": "1"}), lambda: herder.patch("c", {"bad": "1"})):
        with pytest.raises(BadRequest, match="bad is bad"):
            change()
    assert herder.connector_info("c").config == CONFIG
    assert len(Scripted.made) == 1


@pytest.mark.parametrize(
    ("target", "state"), [(TargetState.PAUSED, State.PAUSED), (TargetState.STOPPED, State.STOPPED)]
)
def test_born_at_rest(herder: StandaloneHerder, tasks: FakeTasks, target: TargetState, state: State) -> None:
    assert herder.create("c", CONFIG, target).tasks == []
    assert connector_at(herder, state)()
    assert tasks.starts == []
    herder.resume("c")
    until(lambda: task_states(herder) == [State.RUNNING] * 2)


def test_pause_and_resume_keep_the_tasks(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    herder.pause("c")
    until(connector_at(herder, State.PAUSED))
    assert task_states(herder) == [State.PAUSED] * 2
    herder.resume("c")
    until(connector_at(herder, State.RUNNING))
    until(lambda: task_states(herder) == [State.RUNNING] * 2)
    assert tasks.started == [0, 1]


def test_stop_takes_the_tasks_away_and_resume_makes_them_anew(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    herder.stop_connector("c")
    assert connector_at(herder, State.STOPPED)()
    assert (herder.task_infos("c"), task_states(herder)) == ([], [])
    assert tasks.running == {}
    herder.resume("c")
    until(lambda: task_states(herder) == [State.RUNNING] * 2)


def test_the_same_config_again_leaves_the_tasks_alone(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    assert herder.configure("c", CONFIG)[0] is True
    created, info = herder.configure("c", dict(CONFIG))
    assert (created, len(info.tasks)) == (False, 2)
    assert len(Scripted.made) == 2
    assert Scripted.made[0].stopped
    assert tasks.started == [0, 1]


@pytest.mark.parametrize(
    "change", [{"of": "y"}, {"value.converter": "String"}, {"transforms": "a"}, {"tasks.max": "3"}]
)
def test_a_change_that_tasks_see_starts_them_anew(
    herder: StandaloneHerder, tasks: FakeTasks, change: dict[str, str | None]
) -> None:
    herder.create("c", CONFIG)
    info = herder.patch("c", change)
    assert info.config == {**CONFIG, **change}
    assert tasks.stops[-1] == {TaskId("c", 0), TaskId("c", 1)}
    assert tasks.started == [0, 1, *range(len(info.tasks))]
    assert tasks.starts[-1][1] == info.config


def test_a_patch_removes_what_is_null(herder: StandaloneHerder) -> None:
    herder.create("c", {**CONFIG, "of": "y"})
    assert herder.patch("c", {"of": None}).config == CONFIG
    with pytest.raises(NotFound, match="Connector d not found"):
        herder.patch("d", {})


def test_the_last_of_states_that_are_asked_for_at_once_is_reached(
    herder: StandaloneHerder, caplog: pytest.LogCaptureFixture
) -> None:
    acts = {State.PAUSED: herder.pause, State.RUNNING: herder.resume, State.STOPPED: herder.stop_connector}

    def is_there(state: State, count: int) -> bool:
        return connector_at(herder, state)() and task_states(herder) == [state] * count

    herder.create("c", CONFIG)
    Scripted.slow_s = 0.02
    for asked in itertools.product(acts, repeat=2):
        for state in asked * 2:
            acts[state]("c")
        # A stop has taken the tasks away, and only the next resume brings them back.
        count = 0 if State.STOPPED in asked and asked[1] is not State.RUNNING else 2
        until(lambda: is_there(asked[1], count))  # noqa: B023
        herder.resume("c")
        until(lambda: is_there(State.RUNNING, 2))
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_change_while_paused_reaches_the_tasks_only_on_resume(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    herder.pause("c")
    herder.configure("c", {**CONFIG, "of": "y"})
    assert tasks.started == [0, 1]
    herder.resume("c")
    until(lambda: tasks.started == [0, 1, 0, 1])
    assert tasks.starts[-1][2]["of"] == "y"


def test_a_connector_may_ask_for_other_tasks(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    Scripted.made[0].config["make"] = "1"
    Scripted.made[0].context.reconfigure()
    until(lambda: tasks.started == [0, 1, 0])
    assert [info.id for info in herder.task_infos("c")] == [TaskId("c", 0)]
    assert list(herder.connector_state("c").tasks) == [0]


def test_delete_leaves_nothing(herder: StandaloneHerder, services: HerderServices, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    services.topics.used(TaskId("c", 0), "t")
    herder.delete("c")
    assert (herder.connectors(), tasks.running, Scripted.made[0].stopped) == ([], {}, True)
    assert herder.topics("c") == []
    with pytest.raises(NotFound, match="No status found for connector c"):
        herder.connector_state("c")
    with pytest.raises(NotFound, match="No status found for task c-0"):
        herder.task_state(TaskId("c", 0))
    with pytest.raises(NotFound, match="Connector c not found"):
        herder.delete("c")


def test_a_failed_start_is_told_without_its_secrets_and_can_be_mended(herder: StandaloneHerder) -> None:
    with pytest.raises(ConnectError, match=r"cannot start with \[hidden\]"):
        herder.create("c", {**CONFIG, "broken": "yes", "pin": "p1n-4711"})
    status = herder.connector_state("c").connector
    assert (status.state, "p1n-4711" in str(status.trace)) == (State.FAILED, False)
    with pytest.raises(ConnectError, match=r"^Failed to start connector: c$"):
        herder.restart("c")
    assert len(herder.configure("c", CONFIG)[1].tasks) == 2
    assert connector_at(herder, State.RUNNING)()


def test_a_task_that_cannot_start_is_failed_and_the_others_go_on(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    tasks.broken = {TaskId("c", 0)}
    herder.create("c", {**CONFIG, "pin": "p1n-4711"})
    assert task_states(herder) == [State.FAILED, State.RUNNING]
    trace = herder.task_state(TaskId("c", 0)).trace
    assert trace is not None
    assert trace.startswith("OSError: no room, [hidden]\n")
    with pytest.raises(ConnectError, match=r"^Failed to start task: c-0$"):
        herder.restart_task(TaskId("c", 0))
    tasks.broken = set()
    herder.restart_task(TaskId("c", 0))
    assert task_states(herder) == [State.RUNNING, State.RUNNING]


def test_secrets_are_hidden_in_what_tasks_report(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", {**CONFIG, "pin": "p1n-4711"})
    tasks.running[TaskId("c", 1)](State.FAILED, "login p1n-4711 refused")
    assert herder.task_state(TaskId("c", 1)).trace == "login [hidden] refused"


def test_more_tasks_than_allowed_are_refused_unless_that_is_not_enforced(
    herder: StandaloneHerder, tasks: FakeTasks
) -> None:
    text = "The connector c has generated 3 tasks, which is greater than 2, the maximum number of tasks"
    with pytest.raises(ConnectError, match=text):
        herder.create("c", {**CONFIG, "make": "3"})
    assert connector_at(herder, State.RUNNING)()
    assert tasks.starts == []
    info = herder.configure("c", {**CONFIG, "make": "3", "tasks.max.enforce": "false"})[1]
    assert len(info.tasks) == 3


def test_restart_of_what_failed_only(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    tasks.running[TaskId("c", 1)](State.FAILED, "boom")
    state = herder.restart_with("c", include_tasks=True, only_failed=True)
    assert state.connector.state is State.RUNNING
    assert [status.state for status in state.tasks.values()] == [State.RUNNING, State.RESTARTING]
    assert state.tasks[1].trace == "boom"
    assert tasks.stops[-1] == {TaskId("c", 1)}
    assert tasks.started == [0, 1, 1]
    assert len(Scripted.made) == 1
    assert task_states(herder) == [State.RUNNING, State.RUNNING]


def test_restart_of_everything(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    state = herder.restart_with("c", include_tasks=True, only_failed=False)
    assert {state.connector.state, *(status.state for status in state.tasks.values())} == {State.RESTARTING}
    until(connector_at(herder, State.RUNNING))
    assert (len(Scripted.made), tasks.started) == (2, [0, 1, 0, 1])


def test_restart_of_the_connector_leaves_the_tasks_alone(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    herder.restart("c")
    assert connector_at(herder, State.RUNNING)()
    assert (len(Scripted.made), tasks.started) == (2, [0, 1])


def test_what_an_abandoned_task_says_does_not_count(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    orphan = tasks.running[TaskId("c", 0)]
    tasks.abandons = True
    herder.restart_task(TaskId("c", 0))
    orphan(State.FAILED, "from the grave")
    assert herder.task_state(TaskId("c", 0)).state is State.RUNNING


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda herder: herder.connector_info("d"), "Connector d not found"),
        (lambda herder: herder.task_infos("d"), "Connector d not found"),
        (lambda herder: herder.offsets("d"), "Connector d not found"),
        (lambda herder: herder.pause("d"), "Unknown connector d"),
        (lambda herder: herder.resume("d"), "Unknown connector d"),
        (lambda herder: herder.stop_connector("d"), "Unknown connector d"),
        (lambda herder: herder.restart("d"), "Unknown connector: d"),
        (lambda herder: herder.restart_with("d", include_tasks=True, only_failed=False), "Unknown connector: d"),
        (lambda herder: herder.restart_task(TaskId("d", 0)), "Unknown connector: d"),
        (lambda herder: herder.restart_task(TaskId("c", 5)), "Unknown task: c-5"),
    ],
)
def test_the_unknown_is_named_as_connect_does(
    herder: StandaloneHerder, ask: Callable[[StandaloneHerder], Any], text: str
) -> None:
    herder.create("c", CONFIG)
    with pytest.raises(NotFound) as raised:
        ask(herder)
    assert raised.value.message == text


def test_those_that_read_do_not_wait_for_a_connector_that_hangs(
    herder: StandaloneHerder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scripted.hold = threading.Event()
    creation = threading.Thread(target=lambda: herder.create("c", CONFIG))
    creation.start()
    until(lambda: Scripted.made and "c" in herder.connectors())
    assert herder.connector_info("c").tasks == []
    assert herder.health(1).status == "healthy"
    Scripted.hold.set()
    creation.join(SECONDS)
    assert len(herder.connector_info("c").tasks) == 2


def test_deleted_while_it_starts(herder: StandaloneHerder, tasks: FakeTasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_connectors, "STOP_SECONDS", 0.05)
    Scripted.hold = threading.Event()
    refused: list[Exception] = []

    def create() -> None:
        try:
            herder.create("c", CONFIG)
        except ConnectError as error:
            refused.append(error)

    creation = threading.Thread(target=create)
    creation.start()
    until(lambda: Scripted.made)
    herder.delete("c")
    Scripted.hold.set()
    creation.join(SECONDS)
    assert (herder.connectors(), tasks.starts, len(refused)) == ([], [], 1)
    with pytest.raises(NotFound):
        herder.connector_state("c")


def test_a_request_that_is_not_decided_in_time_says_what_the_worker_does() -> None:
    decider, hold = HerderLoop("test"), threading.Event()
    decider.ask("stopping connector c", lambda: hold.wait(SECONDS))
    with pytest.raises(
        TimedOut, match=r"^Request timed out. The worker is currently stopping connector c, which began at \S+Z$"
    ):
        decider.wait(decider.ask("waiting", lambda: None), 0.1)
    hold.set()
    decider.stop(SECONDS)
    with pytest.raises(ConnectError, match="Worker is shutting down"):
        decider.wait(decider.ask("too late", lambda: None))


def test_health_starts_with_ready(tasks: FakeTasks) -> None:
    herder = StandaloneHerder(standalone_services(tasks))
    assert herder.health(0.01).status == "starting"
    herder.know()
    assert herder.health(SECONDS).status == "healthy"
    herder.stop()


def test_topics_as_far_as_they_are_tracked(
    herder: StandaloneHerder, services: HerderServices, tasks: FakeTasks
) -> None:
    services.topics.used(TaskId("c", 0), "t")
    assert herder.topics("c") == ["t"]
    herder.reset_topics("c")
    assert herder.topics("c") == []
    for settings, text in (
        ({"topic_tracking_enable": False}, "Topic tracking is disabled."),
        ({"topic_tracking_allow_reset": False}, "Topic tracking reset is disabled."),
    ):
        other = StandaloneHerder(standalone_services(tasks, **settings))
        with pytest.raises(Forbidden, match=text):
            other.reset_topics("c")
        other.stop()


def test_stop_ends_all_tasks_and_connectors(tasks: FakeTasks) -> None:
    Scripted.forget()
    herder = StandaloneHerder(standalone_services(tasks))
    for name in ("c", "d"):
        herder.create(name, {**CONFIG, "name": name})
    herder.stop()
    assert tasks.stops[-1] == {TaskId(name, number) for name in ("c", "d") for number in range(2)}
    assert all(plugin.stopped for plugin in Scripted.made)
    assert connector_at(herder, State.UNASSIGNED)()
    with pytest.raises(ConnectError, match="Worker is shutting down"):
        herder.create("e", {**CONFIG, "name": "e"})


def test_only_offsets_of_a_stopped_connector_can_be_changed(herder: StandaloneHerder, services: HerderServices) -> None:
    herder.create("c", CONFIG)
    wanted = [({"p": 1}, {"o": 2})]
    changes: list[Callable[[str], str]] = [lambda name: herder.alter_offsets(name, wanted), herder.reset_offsets]
    text = (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        "specified connector by issuing a 'PUT' request to the '/connectors/c/stop' endpoint"
    )
    for paused in (False, True):
        if paused:
            herder.pause("c")
        for change in changes:
            with pytest.raises(BadRequest) as refused:
                change("c")
            assert refused.value.message == text
            with pytest.raises(NotFound, match=r"^Connector d not found$"):
                change("d")
    herder.stop_connector("c")
    assert [change("c") for change in changes] == ["altered", "reset"]
    assert services.offset_changes.asked == [("c", wanted), ("c", None)]  # type: ignore[attr-defined]
    assert list(herder.offsets("c")) == [({"p": "c"}, {"o": 1})]


def test_what_only_a_cluster_does_is_refused_in_apaches_words(herder: StandaloneHerder) -> None:
    request = Signed(b"[]", None, None)
    with pytest.raises(ConnectError) as refused:
        herder.put_task_configs("c", [], request)
    assert (refused.value.status, refused.value.message) == (
        500,
        "Kafka Connect in standalone mode does not support externally setting task configurations.",
    )
    with pytest.raises(ConnectError) as refused:
        herder.fence_zombies("c", request)
    assert (refused.value.status, refused.value.message) == (
        500,
        "Kafka Connect in standalone mode does not support exactly-once source connectors.",
    )


def test_a_level_for_the_cluster_is_one_for_this_worker(herder: StandaloneHerder) -> None:
    herder.set_cluster_level("test.standalone.level", "TRACE")
    assert logs.level("test.standalone.level") == ("TRACE", logs.levels()["test.standalone.level"][1])


def test_a_drained_worker_has_ended_its_work_and_begins_none(herder: StandaloneHerder, tasks: FakeTasks) -> None:
    herder.create("c", CONFIG)
    herder.drain()
    assert (tasks.running, [plugin.stopped for plugin in Scripted.made]) == ({}, [True])
    health = herder.health(SECONDS)
    assert health.status == "healthy"
    assert "drained" in health.message
    assert (herder.connectors(), herder.connector_info("c").config) == (["c"], CONFIG)
    for change in (
        lambda: herder.create("d", {**CONFIG, "name": "d"}),
        lambda: herder.resume("c"),
        lambda: herder.restart_task(TaskId("c", 0)),
        lambda: herder.restart_with("c", include_tasks=True, only_failed=False),
    ):
        with pytest.raises(Conflict, match="drained"):
            change()
    assert tasks.running == {}
    herder.drain()
