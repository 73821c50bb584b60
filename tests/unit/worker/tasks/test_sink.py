"""What a sink task does with a batch whose partitions go meanwhile, or of which a part is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from headrace.plugins.backoff import Backoff
from headrace.plugins.contracts import Limit, PartitionResult, RetriableError, SinkTask, SinkWishes, TopicPartition
from headrace.worker.deadletters.failed_records import FAILED
from headrace.worker.deadletters.retry_topic import PREFIX, RetryTopic
from headrace.worker.engine.driver import EngineLost
from headrace.worker.pipeline import job_size, placement
from headrace.worker.pipeline.background_job import BackgroundJob, Ranges
from headrace.worker.pipeline.job import JobCancelled, OutOfMemory
from headrace.worker.tasks import load
from headrace.worker.tasks import sink as sink_task
from headrace.worker.tasks.backlog import Backlog
from headrace.worker.tasks.fetched import Fetched
from headrace.worker.tasks.inline import InlineBatches
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.rebalances import Rebalances
from headrace.worker.tasks.shared_thread import SharedThread
from headrace.worker.tasks.sink import SinkTaskRunner
from headrace.worker.tasks.static_member import Fenced
from tests.task_scope import handling
from tests.unit.worker.tasks.hosting import host

KAFKA_ROW = pa.schema([FAILED.field(name) for name in FAILED.names[:7]])
P0, P1, R0, R1 = (TopicPartition(topic, number) for topic in "tr" for number in (0, 1))


class Consumer:
    """Has all partitions; `goes` takes some away and brings them back at once."""

    def __init__(self, positions: Positions) -> None:
        self.begin = positions.read_from
        self.assigned = [P0, P1, R0, R1]
        self.kept = set(self.assigned)
        self.joined_as: Any = None
        self.rests: list[TopicPartition] = []
        self.steps: list[Callable[[], None]] = []
        self.highs: dict[TopicPartition, int] = {}
        self.sought = self.interrupted = 0

    def goes(self, *partitions: TopicPartition) -> None:
        self.kept -= set(partitions)

    news = None

    def stay(self, _seconds: float) -> None:
        for step in self.steps:
            step()

    def rest(self, partition: TopicPartition, _until: float) -> None:
        self.rests.append(partition)

    def high(self, partition: TopicPartition) -> int:
        return self.highs.get(partition, 0)

    def watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        return 0, self.high(partition)

    def restart_remade(self, _topics: object) -> bool:
        return False

    def lag(self) -> int:
        return 0

    def seek(self) -> None:
        self.sought += 1

    def wake(self) -> float | None:
        return None

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def interrupt(self) -> None:
        self.interrupted += 1

    def pass_ends(self, _but: object) -> None: ...

    def commit(self, wait: bool) -> None: ...

    def close(self) -> None:
        raise RuntimeError("the broker is away")


class Job:
    """Ends when it is told to, or cancelled, and the one ahead of it has."""

    def __init__(self, ranges: Ranges, ahead: BackgroundJob | None) -> None:
        self.ranges = ranges
        self.cancelled = False
        self.ended = threading.Event()
        self._ahead = ahead

    def cancel(self) -> None:
        self.cancelled = True

    def run(self) -> list[PartitionResult]:
        while not (self.ended.wait(0.001) or self.cancelled):
            pass
        if (self._ahead is not None and not self._ahead.did_all()) or self.cancelled:
            raise JobCancelled("c-0")
        return [
            PartitionResult(partition, end - 1, written=end - begin) for partition, (begin, end) in self.ranges.items()
        ]


class Pipeline:
    """Answers its batches one by one: an error, or how many rows of each partition are reached."""

    may_go_there = True
    java_stage = None

    def __init__(self, retry: RetryTopic, *answers: Exception | int) -> None:
        self.retry = retry
        self.answers = list(answers)
        self.given: list[tuple[list[tuple[Any, ...]], bool]] = []
        self.jobs: list[Job] = []
        self.closed = self.read_anew_times = 0

    def here(self, rows: pa.RecordBatch, failed_before: bool) -> list[PartitionResult]:
        places = [(row["topic"], row["partition"], row["offset"]) for row in rows.to_pylist()]
        self.given.append((places, failed_before))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [PartitionResult(TopicPartition(*place[:2]), place[2], written=1) for place in places[:answer]]

    again = here

    @property
    def ranges(self) -> list[Ranges]:
        return [job.ranges for job in self.jobs]

    def warm_up(self) -> None: ...

    def read_anew(self) -> None:
        self.read_anew_times += 1

    def end_first(self) -> None:
        """The first job that runs ends."""
        for job in self.jobs:
            if not job.ended.is_set():
                job.ended.set()
                break

    def job(self, ranges: Ranges, _row_bytes: int, ahead: BackgroundJob | None) -> Job:
        self.jobs.append(Job(ranges, ahead))
        return self.jobs[-1]

    def close(self) -> None:
        self.closed += 1


class Keeping:
    """A sink's plugin, as far as it is asked here."""

    wishes = SinkWishes
    staging_writer = SinkTask.staging_writer

    def stop(self) -> None: ...


class Staging(Keeping):
    def staging_writer(self, attempt: str) -> Any: ...


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Exception | int) -> None:
        monkeypatch.setattr(sink_task, "BACKOFF", Backoff(0.0001, 0.0001))
        metrics: Any = SimpleNamespace(attempt=lambda: memory, moved=self.moved, stands=lambda *_: None)
        self.may_move = True
        self.host = host(metrics=metrics, may_move=lambda: self.may_move)
        self.plugin: Any = Staging()
        self.looks = 0
        builder: Any = SimpleNamespace(create_missing_topics=self.look)
        self.expelled = SimpleQueue[Any]()
        records: Any = SimpleNamespace(
            positions=Positions("earliest"),
            commit_interval_s=60,
            expel_soon=lambda member, _: self.expelled.put(member),
        )
        self.task = SinkTaskRunner(self.host, self.plugin, builder, records, SharedThread())
        errors = replace(handling(True, retry_topic="r"), retry_timeout_ms=-1, retry_delay_max_ms=1000)
        retry = RetryTopic("c", errors, {}, self.host.stop, lambda: 1_000_000)
        self.consumer, self.pipeline, self.dropped = Consumer(records.positions), Pipeline(retry, *answers), 0
        given: Any = self.pipeline
        self.backlog = Backlog(self.task, self.host, self.plugin, given, self.task._held, self.task._load)
        self.rebalances = Rebalances(self.plugin, given, self.task._held, self.backlog)
        consumer: Any = self.consumer
        self.retry = retry
        self.inline = InlineBatches(self.task, self.host, given, consumer, self.task._positions, self.task._held)
        self.task._opened = sink_task._Opened(given, consumer, self.inline, self.backlog)

    def work(self) -> None:
        """Work through the backlog by jobs."""
        consumer: Any = self.consumer
        self.backlog.work(consumer, self.task._positions)

    def next_ranges(self) -> Ranges | None:
        """The next job's."""
        consumer: Any = self.consumer
        return self.backlog.next_ranges(consumer, self.task._positions)

    def look(self) -> None:
        """Count a look for the topics of failed records."""
        self.looks += 1

    def moved(self, reached: list[PartitionResult]) -> None:
        self.dropped += sum(one.dropped for one in reached)

    def next(self, *partitions: TopicPartition) -> list[int | None]:
        return [self.task._positions.next(partition) for partition in partitions]


class _Memory:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


memory = _Memory()


def fetched(*places: TopicPartition, full: bool = False) -> Fetched:
    """The first message of each of these partitions."""
    made = [Message(topic=p.topic, partition=p.partition, offset=0, value=b"1", timestamp=(1, 1)) for p in places]
    return Fetched(made, True, full)


def rows(*places: TopicPartition, **headers: int | str) -> pa.RecordBatch:
    """Rows with the offsets 0, 1, …; of the retry topic with `headers`."""
    told = {"topic": "t", "partition": 0, "offset": 5, "attempt": 1, "first_failure": 1, "not_before": 1, **headers}
    shown = [{"key": PREFIX + k.replace("_", "."), "value": str(v).encode()} for k, v in told.items()]
    made = [{**p._asdict(), "offset": n, "headers": shown if p.topic == "r" else None} for n, p in enumerate(places)]
    return pa.RecordBatch.from_pylist(made, schema=KAFKA_ROW)


def test_what_a_search_left_is_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, RetriableError("no"), 2, RetriableError("no"), 9)
    assert rig.inline._write(rows(P0, P0, P0, P1), rig.pipeline.here)
    given = [(len(places), again) for places, again in rig.pipeline.given]
    assert given == [
        (4, False),
        (4, True),
        (2, False),
        (2, True),
    ]
    assert rig.next(P0, P1) == [3, 4]


def test_a_partition_that_went_and_came_back_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, RetriableError("no"), 9)
    rig.consumer.steps = [lambda: rig.consumer.goes(P0)]
    assert rig.inline._write(rows(P0, P1), rig.pipeline.here)
    assert rig.pipeline.given[-1][0] == [("t", 1, 1)]
    assert rig.next(P0, P1) == [None, 2]


def test_a_retry_partition_that_went_and_came_back_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, RetriableError("no"), 9)
    rig.consumer.steps = [lambda: rig.consumer.goes(R0)]
    assert rig.inline._write_again(rig.retry, rows(R0, R1))
    assert (rig.next(R0, R1), len(rig.pipeline.given[-1][0])) == ([None, 2], 1)


def test_what_is_not_due_rests_and_what_is_anothers_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    assert rig.inline._write_again(rig.retry, rows(R0, R0, not_before=1_000_500))
    assert (rig.next(R0), rig.consumer.rests) == ([0], [R0])
    assert rig.inline._write_again(rig.retry, rows(R1, R1, connector="other", not_before=1_000_500))
    assert (rig.next(R1), rig.consumer.rests, rig.dropped, rig.pipeline.given) == ([2], [R0], 2, [])


def test_the_walk_is_closed_although_the_consumer_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    with pytest.raises(RuntimeError):
        rig.task._end(failed=True)
    assert rig.pipeline.closed == 1


def test_a_batch_that_is_given_up_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, RetriableError("no"))

    def close_in_vain() -> None:
        raise RetriableError("partitions went, and the sink's server is away")

    rig.consumer.steps = [close_in_vain]
    monkeypatch.setattr(rig.task, "_poll", lambda _: fetched(P0, P1, full=True))
    with pytest.raises(RetriableError, match="partitions went"):
        rig.task._move()
    assert rig.consumer.sought == 1
    assert rig.next(P0, P1) == [None, None]


def test_what_a_sink_writes_is_broken_off_once_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, ended = Rig(monkeypatch), threading.Event()
    with rig.host.interrupts.by(ended.set):
        rig.task.ask_to_stop()
        assert rig.host.interrupts._thread is None, "a stop lets it end its batch"
        rig.consumer.joined_as = "its place"
        rig.task.abandon()
        assert ended.wait(60)
        assert rig.expelled.get(timeout=60) == "its place"


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A task of which 25 records of P0 wait, where a job takes 10."""
    monkeypatch.setattr(placement, "THERE_ROWS", 1)
    rig = Rig(monkeypatch)
    monkeypatch.setattr(job_size, "FIRST_JOB", Limit(10, 1 << 20))
    rig.consumer.highs = {P0: 25}
    rig.task._positions.go_on({P0: 0})
    return rig


def test_a_job_begins_before_the_one_in_front_has_ended(behind: Rig) -> None:
    seen: list[tuple[int, int | None]] = []

    def look() -> None:
        seen.append((len(behind.pipeline.jobs), *behind.next(P0)))
        behind.pipeline.end_first()

    behind.consumer.steps = [look]
    behind.work()
    assert behind.pipeline.ranges == [{P0: (0, 10)}, {P0: (10, 20)}, {P0: (20, 25)}]
    assert seen[0] == (2, 0)
    assert behind.next(P0) == [25]
    assert behind.consumer.sought == 1


def test_a_revoked_partitions_first_job_counts_and_its_next_is_void(behind: Rig) -> None:
    def revoked() -> None:
        behind.pipeline.jobs[0].ended.set()
        behind.rebalances.end_batch(lost=False)
        behind.consumer.assigned, behind.consumer.steps = [], []

    behind.consumer.steps = [revoked]
    behind.work()
    assert len(behind.pipeline.jobs) == 2
    assert behind.next(P0) == [10]


def test_nothing_counts_of_partitions_that_were_lost(behind: Rig) -> None:
    def lost() -> None:
        behind.rebalances.end_batch(lost=True)
        behind.consumer.assigned, behind.consumer.steps = [], []

    behind.consumer.steps = [lost]
    behind.work()
    assert behind.next(P0) == [0]
    assert all(job.cancelled for job in behind.pipeline.jobs)


def test_a_paused_task_ends_the_job_in_front_and_no_other(behind: Rig) -> None:
    def pause() -> None:
        behind.task._paused = True
        if behind.pipeline.jobs[1].cancelled:
            behind.pipeline.jobs[0].ended.set()

    behind.consumer.steps = [pause]
    behind.work()
    assert (len(behind.pipeline.jobs), behind.next(P0)) == (2, [10])


def test_a_job_runs_on_though_the_next_one_cannot_be_planned(behind: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def watermarks(_partition: TopicPartition) -> tuple[int, int]:
        if len(behind.pipeline.jobs) == 1 and not behind.pipeline.jobs[0].ended.is_set():
            raise RetriableError("the broker is slow")
        return 0, 25

    monkeypatch.setattr(behind.consumer, "watermarks", watermarks)
    behind.consumer.steps = [behind.pipeline.end_first]
    behind.work()
    assert behind.pipeline.ranges[0] == {P0: (0, 10)}
    assert behind.next(P0) == [25]


def test_a_worker_that_may_not_move_begins_no_job(behind: Rig) -> None:
    behind.may_move = False
    behind.work()
    assert behind.pipeline.jobs == []


def test_a_sink_that_could_not_recover_does_so_before_its_next_batch(
    behind: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def recover() -> dict[TopicPartition, int]:
        asked.append(len(behind.pipeline.given))
        if len(asked) == 1:
            raise RetriableError("still away")
        return {P0: 4}

    behind.plugin.recover = recover

    def fail(job: Job) -> list[PartitionResult]:
        raise RetriableError("the job failed")

    monkeypatch.setattr(Job, "run", fail)
    with pytest.raises(RetriableError, match="still away"):
        behind.work()
    monkeypatch.setattr(behind.task, "_poll", lambda _: fetched())
    monkeypatch.setattr(behind.consumer, "pass_ends", lambda _: None, raising=False)
    behind.task._move()
    behind.task._move()
    assert asked == [0, 0], "once in vain, then before the next batch, then no more"
    assert behind.next(P0) == [4]


def test_a_backlog_is_worth_a_job_although_little_comes_at_once(behind: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind.consumer, "fetch", lambda *_: fetched(P0).messages, raising=False)
    monkeypatch.setattr(behind.consumer, "lag", lambda: 1_000)
    monkeypatch.setattr(placement, "THERE_ROWS", 50_000)
    behind.task.measure()
    assert not behind.task._poll(0).is_full
    behind.task._load.lag = 50_000
    assert behind.task._poll(0).is_full


def test_what_was_handled_is_not_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.task._positions.go_on({P0: 1})
    for many in (False, True):
        monkeypatch.setattr(load, "is_few", lambda *_, many=many: not many)
        monkeypatch.setattr(rig.consumer, "fetch", lambda *_: fetched(P0, P1, P0).messages, raising=False)
        taken = rig.task._rows(rig.task._poll(0))
        assert taken is not None
        assert (taken["topic"].to_pylist(), taken["partition"].to_pylist()) == (["t"], [1])
        monkeypatch.setattr(rig.consumer, "fetch", lambda *_: fetched(P0).messages, raising=False)
        assert rig.task._rows(rig.task._poll(0)) is None


@pytest.mark.parametrize("error", [EngineLost("Spark is away"), OutOfMemory("too much")])
def test_what_ended_the_engine_is_read_here(behind: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(job: Job) -> list[PartitionResult]:
        raise error

    with monkeypatch.context() as failing:
        failing.setattr(Job, "run", fail)
        behind.plugin.recover = dict
        with pytest.raises(type(error)):
            behind.work()
    read_to = behind.pipeline.ranges[-1][P0][1]
    for position in (0, read_to - 1):
        behind.task._positions.go_on({P0: position})
        assert behind.next_ranges() is None
    behind.task._positions.go_on({P0: read_to})
    assert behind.next_ranges() == {P0: (read_to, 25)}


def test_what_is_held_of_a_former_topic_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = _holding(monkeypatch, {P0: 0})
    rig.inline._go_on_held({P0: 200})
    rig.rebalances.open([P0])  # the topic was made again
    rig.pipeline.held = {}  # type: ignore[attr-defined]
    rig.inline._go_on_held({P1: 7})
    assert rig.next(P0, P1) == [None, 7], "records 0 to 199 of the new topic are not passed over"
    assert rig.pipeline.read_anew_times == 1, "nor may a job take what was fetched of the former one"


def test_rows_that_come_again_take_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = _holding(monkeypatch, {P0: 100})
    rig.inline._go_on_held({P0: 200})
    rig.inline._go_on_held({P0: 150})  # from the first held one on, as after a rebalance
    rig.pipeline.held = {}  # type: ignore[attr-defined]
    rig.inline._go_on_held({})
    assert rig.next(P0) == [200], "in S3 a file that begins at 150 would repeat records"


def _holding(monkeypatch: pytest.MonkeyPatch, held: dict[TopicPartition, int]) -> Rig:
    """A task whose sink holds rows from these offsets on."""
    rig = Rig(monkeypatch)
    rig.plugin.open = lambda _partitions: {}
    rig.pipeline.held = held  # type: ignore[attr-defined]
    return rig


def test_the_clock_ends_what_a_paused_task_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = _holding(monkeypatch, {P0: 0})
    rig.inline._go_on_held({P0: 20})

    def without_rows() -> list[PartitionResult]:
        rig.pipeline.held = {}  # type: ignore[attr-defined]
        return []

    due: list[float | None] = [0]
    rig.pipeline.without_rows = without_rows  # type: ignore[attr-defined]
    rig.task._held._sink = SimpleNamespace(due_s=lambda: due.pop() if due else None)  # type: ignore[assignment]
    rig.task._paused = True
    rig.consumer.steps = [rig.host.stop.set]
    monkeypatch.setattr(rig.task, "measure", lambda: None)
    monkeypatch.setattr(rig.task, "_set", lambda _state: None)
    rig.task._loop()
    assert rig.next(P0) == [20]


def test_a_sink_goes_where_it_wishes_in_the_partitions_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    commits: list[bool] = []
    rig.consumer.commit = lambda wait: commits.append(wait)  # type: ignore[method-assign]
    rig.task._positions.go_on({P0: 9, P1: 9})
    gone = TopicPartition("gone", 0)
    rig.plugin.wishes = lambda: SinkWishes({P0: 4, gone: 1}, True, {P1: 5.0, gone: 5.0})
    rig.task._grant_wishes()
    assert rig.next(P0, P1, gone) == [4, 9, None]
    assert (rig.consumer.sought, rig.consumer.rests, len(commits)) == (1, [P1], 1)
    rig.plugin.wishes = SinkWishes
    rig.task._grant_wishes()
    assert rig.consumer.sought == 1


def test_pauses_grow_until_rows_are_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, pauses = _holding(monkeypatch, {}), list[int]()
    done = PartitionResult(P0, 4, written=5)
    fails = RetriableError("the store is full")
    steps: list[RetriableError | PartitionResult | None] = [fails, None, fails, None, fails, done, fails]

    def move() -> None:
        step = steps.pop(0)
        if not steps:
            rig.host.stop.set()
        if isinstance(step, Exception):
            raise step
        if isinstance(step, PartitionResult):
            rig.task.reached([step])

    monkeypatch.setattr(rig.task, "_move", move)
    monkeypatch.setattr(rig.task, "measure", lambda: None)
    monkeypatch.setattr(rig.task, "_set", lambda _state: None)
    monkeypatch.setattr(rig.task, "stay_after", lambda _error, failures, _what: pauses.append(failures))
    rig.task._loop()
    assert pauses == [1, 2, 3, 1]


def fenced_rig(monkeypatch: pytest.MonkeyPatch, wait_s: float) -> Rig:
    rig = Rig(monkeypatch)
    monkeypatch.setattr(sink_task, "FENCED_WAIT_S", wait_s)

    def move() -> None:
        raise Fenced("connect-c", "g-c-0")

    monkeypatch.setattr(rig.task, "commit_when_due", move)
    return rig


def test_a_task_that_was_fenced_is_started_again_where_no_other_worker_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = fenced_rig(monkeypatch, 0.01)
    with pytest.raises(RetriableError, match=r"sink\.static\.membership=false"):
        rig.task._loop()


@pytest.mark.parametrize("wait_s", [0.01, 60], ids=["before it is ended", "while it is ended"])
def test_a_task_that_another_worker_runs_now_ends_without_an_error(
    monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    rig = fenced_rig(monkeypatch, wait_s)
    rig.may_move = False
    ending = threading.Thread(target=rig.task._loop)
    ending.start()
    assert ending.is_alive()
    rig.task.ask_to_stop()
    ending.join(60)
    assert not ending.is_alive()


def test_a_task_that_was_fenced_is_started_again_once_its_worker_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = fenced_rig(monkeypatch, 0.01)
    answers = [False, False, True]
    rig.host = replace(rig.host, may_move=lambda: answers.pop(0))
    rig.task._host = rig.host
    with pytest.raises(RetriableError, match=r"sink\.static\.membership=false"):
        rig.task._loop()
    assert answers == []


@pytest.mark.parametrize("error", [RetriableError("the sink is away"), EngineLost("Spark is away")])
def test_a_task_that_is_fenced_while_it_waits_is_started_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = fenced_rig(monkeypatch, 0.01)

    def fail() -> None:
        raise error

    def fenced() -> None:
        raise Fenced("connect-c", "g-c-0")

    monkeypatch.setattr(rig.task, "commit_when_due", fail)
    rig.consumer.steps = [fenced]
    with pytest.raises(RetriableError, match=r"sink\.static\.membership=false"):
        rig.task._loop()


def test_a_task_that_sleeps_is_woken_by_whatever_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    monkeypatch.setattr(rig.task, "_show", lambda: None)
    for number, ask in enumerate([rig.task.pause, rig.task.engine_changed, rig.task.ask_to_stop], start=1):
        ask()
        assert rig.consumer.interrupted == number


def test_a_task_sleeps_long_only_where_its_figures_say_that_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    waits: list[float] = []
    now = 100.0
    lags = iter([1, 0, 0])
    for module in (sink_task, load):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    rig.task._last_commit = now
    rig.consumer.fetch = lambda wait_s, *_: waits.append(wait_s)  # type: ignore[attr-defined]
    rig.consumer.lag = lambda: next(lags)  # type: ignore[method-assign]
    for after_s in (0.0, 0.3, 0.2, 0.5, 0.6):
        now += after_s
        rig.task.measure()
        rig.task._take_batch(rig.task._waits_s())
    assert waits == [1.0, 1.0, 5.0, 5.0, 5.0]
    assert next(lags, None) is None


def test_tasks_that_begin_together_do_not_all_commit_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ago = [time.monotonic() - Rig(monkeypatch).task._last_commit for _ in range(20)]
    assert max(ago) - min(ago) > 10
    assert 0 <= min(ago) <= max(ago) < 61, "none waits for longer than the interval"


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A task with so many small batches that it lends them; its batches are of one row."""
    rig = Rig(monkeypatch, *[1] * 3)
    rig.pipeline.retry = None
    rig.task._load._measured, rig.task._load._small_batches = time.monotonic() - 1, 10_000
    rig.task.measure()
    assert rig.task._lends
    return rig


def fetches(rig: Rig, monkeypatch: pytest.MonkeyPatch, *next_ones: Fetched) -> list[str]:
    """What the task fetches next; returns the names of the threads that it does so on."""
    left, threads = list(next_ones), list[str]()

    def fetch(wait_s: float) -> Fetched:
        threads.append(threading.current_thread().name)
        assert wait_s == 0
        return left.pop(0)

    monkeypatch.setattr(rig.task, "_poll", fetch)
    return threads


def test_small_batches_are_taken_by_the_shared_thread(busy: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = fetches(busy, monkeypatch, fetched(P0), fetched(), fetched(P1, full=True))
    busy.task._move()
    assert threads == ["sinks-shared"] * 3
    assert busy.next(P0, P1) == [1, 1]
    assert not busy.task._lends, "many more are likely: that is for its own thread"


def test_the_shared_thread_waits_for_no_sink(busy: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (RetriableError("the server is away"), EngineLost("the driver is gone")):
        busy.pipeline.answers[:] = [error]
        fetches(busy, monkeypatch, fetched(P0))
        busy.task._lends = True
        with pytest.raises(type(error)):
            busy.task._move()
    assert busy.consumer.sought == 2, "its rows come again"
    assert busy.next(P0) == [None]


def test_the_shared_thread_waits_for_no_commit(busy: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    have_ended = [False, True]
    monkeypatch.setattr(busy.consumer, "commit_in_passing", lambda: have_ended.pop(0), raising=False)
    busy.task._last_commit = time.monotonic() - 60
    fetches(busy, monkeypatch, fetched(P0), fetched(), fetched(P1, full=True))
    busy.task._move()
    assert not have_ended
    assert busy.next(P0, P1) == [1, 1]
    assert busy.task._last_commit > time.monotonic() - 60, "the next one is due after an interval"


@pytest.mark.parametrize("what", ["pause", "ask_to_stop", "cut_off"])
def test_the_shared_thread_lets_go_of_a_task_that_is_asked_to(
    busy: Rig, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fetch(_wait_s: float) -> Fetched:
        getattr(busy.task, what, lambda: setattr(busy, "may_move", False))()
        return fetched()

    monkeypatch.setattr(busy.task, "_poll", fetch)
    busy.task._move()
    assert not busy.task._lends


def test_a_task_keeps_its_thread_where_its_plugin_or_a_retry_topic_wants_it(busy: Rig) -> None:
    for plugin, retry, lends in ((Staging(), None, True), (Keeping(), None, False), (Staging(), Any, False)):
        busy.task._plugin, busy.pipeline.retry = plugin, retry  # type: ignore[assignment]
        busy.task._load._measured, busy.task._load._small_batches = time.monotonic() - 1, 10_000
        busy.task.measure()
        assert busy.task._lends == lends
