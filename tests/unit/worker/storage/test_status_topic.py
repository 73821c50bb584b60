"""The statuses of a cluster over a topic in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

from headrace.plugins.backoff import Backoff
from headrace.plugins.contracts import RetriableError
from headrace.worker.errors import ConnectError
from headrace.worker.model import State, Status, TaskId
from headrace.worker.storage import status_topic
from headrace.worker.storage.status_topic import KafkaStatusStore
from tests.unit.worker.storage.fake_topic import CONFIG, FakeLog

SECONDS = 60
TASK = TaskId("a-b", 3)


class Worker:
    """A worker's store, its id and the generation that its group is in."""

    def __init__(self, log: FakeLog, name: str) -> None:
        self.name = name
        self.generation = 5
        self.store = KafkaStatusStore(CONFIG, self, log.open)  # type: ignore[arg-type]
        self.store.start(SECONDS)

    def status(self, state: State, trace: str | None = None, version: str | None = None) -> Status:
        return Status(state, self.name, version, trace)

    def put(self, who: str | TaskId, state: State) -> None:
        self.store.put(who, self.status(state))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_topic, "_BACKOFF", Backoff(0.002, 0.2))
    monkeypatch.setattr(status_topic, "_MOST_S", 0.2)


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def join(log: FakeLog) -> Iterator[Callable[[str], Worker]]:
    made: list[Worker] = []

    def join(name: str) -> Worker:
        made.append(Worker(log, name))
        return made[-1]

    yield join
    for worker in made:
        worker.store.stop()


def state_of(worker: Worker, who: str | TaskId) -> State | None:
    status = worker.store.get(who)
    return None if status is None else status.state


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.002)


def test_the_records_are_those_of_apache(log: FakeLog, join: Callable[[str], Worker]) -> None:
    worker = join("w1:8083")
    worker.store.put("a-b", worker.status(State.RUNNING, version="1.2"))
    worker.store.put(TASK, worker.status(State.FAILED, 'x "y"\n\tat z'))
    worker.store.put_topic(TASK, "t-1")
    assert log.pairs()[:2] == [
        (
            "status-connector-a-b",
            '{"state":"RUNNING","trace":null,"worker_id":"w1:8083","generation":5,"version":"1.2"}',
        ),
        (
            "status-task-a-b-3",
            '{"state":"FAILED","trace":"x \\"y\\"\\n\\tat z","worker_id":"w1:8083","generation":5,"version":null}',
        ),
    ]
    key, value = log.pairs()[2]
    assert key == "status-topic-t-1:connector-a-b"
    assert value is not None
    assert value.startswith('{"topic":{"name":"t-1","connector":"a-b","task":3,"discoverTimestamp":1')


def test_each_worker_sees_what_all_say(join: Callable[[str], Worker]) -> None:
    first, second = join("w1"), join("w2")
    first.put("c", State.RUNNING)
    first.put(TaskId("c", 10), State.RUNNING)
    second.put(TaskId("c", 2), State.FAILED)
    second.store.put_topic(TaskId("c", 0), "t")
    late = join("w3")
    for worker in (first, second, late):
        assert (state_of(worker, "c"), list(worker.store.tasks("c"))) == (State.RUNNING, [2, 10])
        assert (worker.store.connectors(), worker.store.topics("c")) == (["c"], ["t"])
        assert worker.store.get(TaskId("c", 2)) == Status(State.FAILED, "w2", generation=5)


def test_a_safe_status_gives_way_to_a_later_generation_of_another_worker(join: Callable[[str], Worker]) -> None:
    first, second = join("w1"), join("w2")
    second.generation = 6
    second.put("c", State.RUNNING)
    assert not first.store.put_safe("c", first.status(State.FAILED))
    assert state_of(first, "c") is State.RUNNING
    first.generation = 6
    assert first.store.put_safe("c", first.status(State.FAILED))
    first.generation = 2
    assert first.store.put_safe("c", first.status(State.UNASSIGNED))
    assert state_of(second, "c") is State.UNASSIGNED


def test_a_task_given_up_by_one_worker_stays_running_on_the_next(join: Callable[[str], Worker]) -> None:
    first, second = join("w1"), join("w2")
    second.put(TASK, State.RUNNING)
    first.generation = 7  # it had lost its group, and has joined it again before it tells of what it gave up
    first.put(TASK, State.UNASSIGNED)
    assert state_of(first, TASK) is State.RUNNING
    second.put(TASK, State.UNASSIGNED)
    assert state_of(first, TASK) is State.UNASSIGNED


@pytest.mark.parametrize(
    ("generation", "said", "shown"),
    [
        (-1, State.FAILED, State.RUNNING),  # no member any more
        (3, State.RESTARTING, State.RUNNING),
        (3, State.FAILED, State.FAILED),
        (6, State.RESTARTING, State.RESTARTING),
    ],
)
def test_a_worker_that_lost_its_group_says_nothing_of_a_task_that_runs_elsewhere(
    join: Callable[[str], Worker], generation: int, said: State, shown: State
) -> None:
    first, second = join("w1"), join("w2")
    second.generation = 5
    second.put(TASK, State.RUNNING)
    first.generation = generation
    first.put(TASK, said)
    assert state_of(second, TASK) is shown


def test_forgetting_leaves_nothing_in_the_topic(log: FakeLog, join: Callable[[str], Worker]) -> None:
    worker = join("w1")
    for who in ("c", TaskId("c", 0), TaskId("c", 1), TaskId("d", 0)):
        worker.put(who, State.RUNNING)
    worker.store.put_topic(TaskId("c", 0), "t")
    worker.store.put_topic(TaskId("c", 0), "u")
    worker.store.forget("c")
    worker.store.forget_topics("c")
    last = dict(log.pairs())
    assert [key for key, value in last.items() if value is not None] == ["status-task-d-0"]
    assert (worker.store.connectors(), worker.store.tasks("c"), worker.store.topics("c")) == (["d"], {}, [])


def test_a_connector_deleted_by_apache_takes_its_tasks_with_it(log: FakeLog, join: Callable[[str], Worker]) -> None:
    worker = join("w1")
    worker.put("c", State.RUNNING)
    worker.put(TaskId("c", 0), State.RUNNING)
    log.put("status-connector-c", None)
    assert worker.store.connectors() == []


def test_a_tombstone_read_at_the_start_may_be_older_than_the_tasks(log: FakeLog, join: Callable[[str], Worker]) -> None:
    status = '{"state":"RUNNING","trace":null,"worker_id":"j:1","generation":1}'
    log.put("status-task-c-0", status)
    log.put("status-connector-c", None)
    log.put("status-connector-c", status)
    assert list(join("w1").store.tasks("c")) == [0]


def test_a_topic_is_said_once(log: FakeLog, join: Callable[[str], Worker]) -> None:
    worker = join("w1")
    for task in range(3):
        worker.store.put_topic(TaskId("c", task), "t")
    assert len(log.records) == 1
    worker.store.forget_topics("c")
    worker.store.put_topic(TaskId("c", 2), "t")
    assert len(log.records) == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("status-connector-c", '{"state":"DESTROYED","trace":null,"worker_id":"w","generation":1}'),
        ("status-connector-c", '{"state":"RUNNING"}'),
        ("status-connector-c", "no json"),
        ("status-task-c-x", '{"state":"RUNNING","trace":null,"worker_id":"w","generation":1}'),
        ("status-topic-t", "{}"),
        ("status-topic-t:connector-c", "{}"),
    ],
)
def test_what_cannot_be_read_changes_nothing(log: FakeLog, join: Callable[[str], Worker], key: str, value: str) -> None:
    worker = join("w1")
    worker.put("c", State.PAUSED)
    with pytest.raises((ValueError, KeyError)) if key != "status-topic-t" else nullcontext():
        log.put(key, value)
    assert (state_of(worker, "c"), worker.store.connectors()) == (State.PAUSED, ["c"])


def test_what_did_not_arrive_is_sent_again(log: FakeLog, join: Callable[[str], Worker]) -> None:
    worker = join("w1")
    log.errors = [RetriableError("away")] * 3
    worker.put("c", State.RUNNING)
    assert worker.store.flush(SECONDS)
    assert state_of(worker, "c") is State.RUNNING
    assert len(log.records) == 1


def test_what_is_out_of_date_is_not_sent_again(log: FakeLog, join: Callable[[str], Worker]) -> None:
    first, second = join("w1"), join("w2")
    log.errors = [RetriableError("away")] * 2
    first.put("c", State.RUNNING)
    first.put("c", State.PAUSED)
    assert first.store.flush(SECONDS)
    assert [value and '"PAUSED"' in value for _, value in log.pairs()] == [True]

    log.errors = [RetriableError("away")] * 10**6
    first.put(TASK, State.RUNNING)
    log.errors, second.generation = [], 6
    second.put(TASK, State.FAILED)
    assert first.store.flush(SECONDS)
    assert state_of(first, TASK) is State.FAILED


def test_what_cannot_be_written_at_all_is_logged_and_given_up(
    log: FakeLog, join: Callable[[str], Worker], caplog: pytest.LogCaptureFixture
) -> None:
    worker = join("w1")
    log.errors = [ConnectError("too large")]
    worker.put("c", State.RUNNING)
    assert worker.store.flush(SECONDS)
    assert log.records == []
    assert "status-connector-c could not be written to the status topic: too large" in caplog.text


def test_flush_says_whether_all_has_arrived(log: FakeLog, join: Callable[[str], Worker]) -> None:
    worker = join("w1")
    log.held = []
    worker.put("c", State.RUNNING)
    assert not worker.store.flush(0.01)
    log.arrive()
    assert worker.store.flush(SECONDS)


def test_a_thousand_connectors_are_listed_at_once(log: FakeLog, join: Callable[[str], Worker]) -> None:
    worker = join("w1")
    status = b'{"state":"RUNNING","trace":null,"worker_id":"w","generation":1}'
    for number in range(1000):
        log.put(f"status-connector-c{number}", status)
        for task in range(4):
            log.put(f"status-task-c{number}-{task}", status)
    began = time.process_time()
    found = [(worker.store.get(name), worker.store.tasks(name)) for name in worker.store.connectors()]
    assert time.process_time() - began < 0.5
    assert sum(len(tasks) for _, tasks in found) == 4000
