"""A sink task with a batch that lost partitions meanwhile, or with a part of one."""

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
from headrace.plugins.contracts import Limit, PartitionResult, RetriableError, TopicPartition
from headrace.plugins.extensions import BufferingSink, PartitionedSink, StagingSink
from headrace.plugins.sink_requests import RequestingSink, SinkRequests
from headrace.worker.deadletters.failed_records import FAILED, RETRY_PREFIX
from headrace.worker.deadletters.retry_topic import RetryTopic
from headrace.worker.engine.driver import EngineLost
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline import job_size, placement
from headrace.worker.pipeline.executor import PolledRows, Ranges
from headrace.worker.pipeline.job import OutOfMemory
from headrace.worker.pipeline.kafka_frames import KafkaReaders
from headrace.worker.pipeline.placement import SinkPlacement
from headrace.worker.pipeline.sink_job import SinkJob, SinkJobParts, Written
from headrace.worker.pipeline.sink_jobs import AHEAD, SinkJobs
from headrace.worker.pipeline.stages import Stages
from headrace.worker.tasks import load, static_member
from headrace.worker.tasks import sink as sink_task
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.rebalances import Rebalances
from headrace.worker.tasks.shared_thread import SharedThread
from headrace.worker.tasks.sink import SinkTaskRunner
from headrace.worker.tasks.static_member import Fenced
from tests.task_scope import handling, task_scope
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
        self.partitions = self.offsets = self.membership = self

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

    are_held = False

    def waiting(self) -> dict[TopicPartition, int]:
        return {}

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


class Job(SinkJob):
    """Ends when it is told to, or cancelled, and the one ahead of it has."""

    def __init__(self, ranges: Ranges, ahead: SinkJob | None) -> None:
        task: Any = SimpleNamespace(staging_writer=lambda _: object(), writer=None, commit=lambda _: None)
        decoding: Any = SimpleNamespace(learn=lambda _: None)
        scope = task_scope()
        parts = SinkJobParts(scope, task, decoding, SinkPlacement(scope.engine, task), iter("1"), KafkaReaders({}))
        super().__init__(parts, ranges, 1, ahead)
        self.ended = threading.Event()

    def _read_and_write(self) -> Written:
        while not (self.ended.wait(0.001) or self.cancelled):
            pass
        reached = {p: PartitionResult(p, end - 1, written=end - begin) for p, (begin, end) in self.ranges.items()}
        return Written(Outcome(reached, by_job=True), [])


class Pipeline:
    """Answers its batches one by one: an error, or how many rows of each partition are reached."""

    may_be_job = True
    java_stage = None

    def __init__(self, retry: RetryTopic, *answers: Exception | int, holds: bool = False) -> None:
        self.retry = retry
        self.answers = list(answers)
        self.jobs = SinkJobs(self._job, Stages(), most=1 if holds else AHEAD)
        self.given: list[tuple[list[tuple[Any, ...]], bool]] = []
        self.begun: list[Job] = []
        self.held: dict[TopicPartition, int] = {}
        self.becomes_durable = False
        """True if a batch without rows makes durable what is held."""
        self.closed = self.read_anew_times = 0

    def run(self, work: PolledRows) -> Outcome[TopicPartition]:
        outcome = Outcome[TopicPartition]()
        if work.rows is None:
            if self.becomes_durable:
                self.held = {}
            return outcome
        places = [(row["topic"], row["partition"], row["offset"]) for row in work.rows.to_pylist()]
        self.given.append((places, work.failed_before))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for topic, number, offset in places[:answer]:
            partition = TopicPartition(topic, number)
            outcome.add(partition, PartitionResult(partition, offset, written=1))
        return outcome

    @property
    def ranges(self) -> list[Ranges]:
        return [job.ranges for job in self.begun]

    def warm_up(self) -> None: ...

    def read_anew(self) -> None:
        self.read_anew_times += 1

    def end_first(self) -> None:
        """The first job that runs ends."""
        for job in self.begun:
            if not job.ended.is_set():
                job.ended.set()
                break

    def _job(self, ranges: Ranges, _row_bytes: int, ahead: SinkJob | None) -> Job:
        self.begun.append(Job(ranges, ahead))
        return self.begun[-1]

    def close(self) -> None:
        self.closed += 1


class Rig:
    """A task that has begun, over the fakes above."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Exception | int, holds: bool = False) -> None:
        monkeypatch.setattr(sink_task, "BACKOFF", Backoff(0.0001, 0.0001))
        monkeypatch.setattr(sink_task, "SinkConsumer", self._consumer)
        metrics: Any = SimpleNamespace(
            attempt=lambda: memory,
            moved=self.moved,
            stands=lambda *_: None,
            is_in=lambda _: None,
            fetched=lambda _: None,
            stages=Stages(),
        )
        self.membership_ok = True
        self.host = host(metrics=metrics, membership_ok=lambda: self.moves())
        self.plugin: Any = (HoldingPlugin if holds else Plugin)()
        self.looks = 0
        builder: Any = SimpleNamespace(
            check_reach=lambda: None,
            create_topics=lambda: None,
            create_missing_topics=self.look,
            sink=lambda _: self.pipeline,
        )
        self.expelled = SimpleQueue[Any]()
        self.positions = Positions("earliest")
        self.records: Any = SimpleNamespace(
            consumer=dict,
            subscription=None,
            topic_ids=SimpleNamespace(ids=None),
            largest_record=1,
            positions=self.positions,
            commit_interval_s=60,
            expel_soon=lambda member, _: self.expelled.put(member),
        )
        errors = replace(handling(True, retry_topic="r"), retry_timeout_ms=-1, retry_delay_max_ms=1000)
        retry = RetryTopic("c", errors, {}, self.host.stop, lambda: 1_000_000)
        self.consumer, self.pipeline, self.dropped = Consumer(self.positions), Pipeline(retry, *answers, holds=holds), 0
        self.task = SinkTaskRunner(self.host, self.plugin, builder, self.records, SharedThread())
        self.task.begin()
        self._patch = monkeypatch

    def _consumer(self, *parts: Any) -> Consumer:
        """The consumer that the task opens; its parts are for a listener of rebalances, too."""
        (self.rebalances,) = (part for part in parts if isinstance(part, Rebalances))
        return self.consumer

    def comes(self, *batches: tuple[pa.RecordBatch | None, bool]) -> list[str]:
        """Have these rows polled next, each with a word on whether more are likely; returns the threads that poll."""
        left, threads = list(batches), list[str]()

        def poll(_wait_s: float) -> tuple[pa.RecordBatch | None, bool]:
            threads.append(threading.current_thread().name)
            return left.pop(0)

        self._patch.setattr(self.task, "poll", poll)
        return threads

    def writes(self, rows: pa.RecordBatch | None) -> None:
        """Process these rows inline."""
        self.comes((rows, False))
        self.task.process()

    def work(self) -> None:
        """Process nothing inline, and the backlog by jobs."""
        self.comes((None, True))
        self.task.process()

    def moves(self) -> bool:
        """True if the task may move."""
        return self.membership_ok

    def look(self) -> None:
        """Count a look for the topics of failed records."""
        self.looks += 1

    def moved(self, reached: list[PartitionResult]) -> None:
        self.dropped += sum(one.dropped for one in reached)

    def next(self, *partitions: TopicPartition) -> list[int | None]:
        return [self.positions.next(partition) for partition in partitions]


class KeepingPlugin(PartitionedSink, RequestingSink):
    """Holds nothing, and wants nothing; has to keep its thread."""

    def start(self, _config: object, _context: object) -> None: ...

    def stop(self) -> None: ...


class Plugin(KeepingPlugin, StagingSink):
    """Binds nothing to a thread."""

    def staging_writer(self, _attempt: str) -> Any: ...


class HoldingPlugin(Plugin, BufferingSink):
    """Holds what the pipeline says that it does."""

    due: float | None = None

    def due_s(self) -> float | None:
        return self.due

    def drop(self) -> None: ...

    def job_step(self) -> None: ...

    def job_ranges(self, ranges: Ranges, _highs: object) -> Ranges:
        return ranges


class _Memory:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


memory = _Memory()


def messages(*places: TopicPartition) -> list[Message]:
    """The first message of each of these partitions."""
    return [Message(topic=p.topic, partition=p.partition, offset=0, value=b"1", timestamp=(1, 1)) for p in places]


def rows(*places: TopicPartition, **headers: int | str) -> pa.RecordBatch:
    """Rows with the offsets 0, 1, …; of the retry topic with `headers`."""
    told = {"topic": "t", "partition": 0, "offset": 5, "attempt": 1, "first_failure": 1, "not_before": 1, **headers}
    shown = [{"key": RETRY_PREFIX + k.replace("_", "."), "value": str(v).encode()} for k, v in told.items()]
    made = [{**p._asdict(), "offset": n, "headers": shown if p.topic == "r" else None} for n, p in enumerate(places)]
    return pa.RecordBatch.from_pylist(made, schema=KAFKA_ROW)


def test_what_a_search_left_is_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, RetriableError("no"), 2, RetriableError("no"), 9)
    rig.writes(rows(P0, P0, P0, P1))
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
    rig.writes(rows(P0, P1))
    assert rig.pipeline.given[-1][0] == [("t", 1, 1)]
    assert rig.next(P0, P1) == [None, 2]


def test_a_retry_partition_that_went_and_came_back_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, RetriableError("no"), 9)
    rig.consumer.steps = [lambda: rig.consumer.goes(R0)]
    rig.writes(rows(R0, R1))
    assert (rig.next(R0, R1), len(rig.pipeline.given[-1][0])) == ([None, 2], 1)


def test_what_is_not_due_rests_and_what_is_anothers_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.writes(rows(R0, R0, not_before=1_000_500))
    assert (rig.next(R0), rig.consumer.rests) == ([0], [R0])
    rig.writes(rows(R1, R1, connector="other", not_before=1_000_500))
    assert (rig.next(R1), rig.consumer.rests, rig.dropped, rig.pipeline.given) == ([2], [R0], 2, [])


def test_the_walk_is_closed_although_the_consumer_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    with pytest.raises(RuntimeError):
        rig.task.end(failed=True)
    assert rig.pipeline.closed == 1


def test_a_batch_that_is_given_up_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, RetriableError("no"))

    def close_in_vain() -> None:
        raise RetriableError("partitions went, and the sink's server is away")

    rig.consumer.steps = [close_in_vain]
    with pytest.raises(RetriableError, match="partitions went"):
        rig.writes(rows(P0, P1))
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
    """A task with 25 records of P0 that wait; a job takes 10."""
    monkeypatch.setattr(placement, "JOB_ROWS", 1)
    rig = Rig(monkeypatch)
    monkeypatch.setattr(job_size, "FIRST_JOB", Limit(10, 1 << 20))
    rig.consumer.highs = {P0: 25}
    rig.positions.go_on({P0: 0})
    return rig


def test_a_job_begins_before_the_one_in_front_has_ended(behind: Rig) -> None:
    seen: list[tuple[int, int | None]] = []

    def look() -> None:
        seen.append((len(behind.pipeline.begun), *behind.next(P0)))
        behind.pipeline.end_first()

    behind.consumer.steps = [look]
    behind.work()
    assert behind.pipeline.ranges == [{P0: (0, 10)}, {P0: (10, 20)}, {P0: (20, 25)}]
    assert seen[0] == (2, 0)
    assert behind.next(P0) == [25]
    assert behind.consumer.sought == 1


def test_a_revoked_partitions_first_job_counts_and_its_next_is_void(behind: Rig) -> None:
    def revoked() -> None:
        behind.pipeline.begun[0].ended.set()
        behind.rebalances.end_batch(lost=False)
        behind.consumer.assigned, behind.consumer.steps = [], []

    behind.consumer.steps = [revoked]
    behind.work()
    assert len(behind.pipeline.begun) == 2
    assert behind.next(P0) == [10]


def test_nothing_counts_of_partitions_that_were_lost(behind: Rig) -> None:
    def lost() -> None:
        behind.rebalances.end_batch(lost=True)
        behind.consumer.assigned, behind.consumer.steps = [], []

    behind.consumer.steps = [lost]
    behind.work()
    assert behind.next(P0) == [0]
    assert all(job.cancelled for job in behind.pipeline.begun)


def test_a_paused_task_ends_the_job_in_front_and_no_other(behind: Rig) -> None:
    def pause() -> None:
        behind.task.pause()
        if behind.pipeline.begun[1].cancelled:
            behind.pipeline.begun[0].ended.set()

    behind.consumer.steps = [pause]
    behind.work()
    assert (len(behind.pipeline.begun), behind.next(P0)) == (2, [10])


def test_a_job_runs_on_though_the_next_one_cannot_be_planned(behind: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def watermarks(_partition: TopicPartition) -> tuple[int, int]:
        if len(behind.pipeline.begun) == 1 and not behind.pipeline.begun[0].ended.is_set():
            raise RetriableError("the broker is slow")
        return 0, 25

    monkeypatch.setattr(behind.consumer, "watermarks", watermarks)
    behind.consumer.steps = [behind.pipeline.end_first]
    behind.work()
    assert behind.pipeline.ranges[0] == {P0: (0, 10)}
    assert behind.next(P0) == [25]


def test_a_worker_that_may_not_move_begins_no_job(behind: Rig) -> None:
    behind.membership_ok = False
    behind.work()
    assert behind.pipeline.begun == []


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
    behind.writes(None)
    behind.writes(None)
    assert asked == [0, 0], "once in vain, then before the next batch, then no more"
    assert behind.next(P0) == [4]


def test_a_backlog_is_worth_a_job_although_little_comes_at_once(behind: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(load, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(behind.consumer, "fetch", lambda *_: messages(P0), raising=False)
    monkeypatch.setattr(placement, "JOB_ROWS", 50_000)
    for lag, are_more in ((1_000, False), (50_000, True)):
        now += 60
        behind.consumer.waiting = lambda lag=lag: {P0: lag}  # type: ignore[method-assign, misc]
        behind.task.measure()
        assert behind.task.poll(0)[1] is are_more


def test_what_was_handled_is_not_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.positions.go_on({P0: 1})
    for many in (False, True):
        monkeypatch.setattr(load, "is_few", lambda *_, many=many: not many)
        monkeypatch.setattr(rig.consumer, "fetch", lambda *_: messages(P0, P1, P0), raising=False)
        taken, _ = rig.task.poll(0)
        assert taken is not None
        assert (taken["topic"].to_pylist(), taken["partition"].to_pylist()) == (["t"], [1])
        monkeypatch.setattr(rig.consumer, "fetch", lambda *_: messages(P0), raising=False)
        assert rig.task.poll(0)[0] is None


@pytest.mark.parametrize("error", [EngineLost("Spark is away"), OutOfMemory("too much")])
def test_what_ended_the_engine_is_read_here(behind: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(job: Job) -> list[PartitionResult]:
        raise error

    with monkeypatch.context() as failing:
        failing.setattr(Job, "run", fail)
        with pytest.raises(type(error)):
            behind.work()
    begun, read_to = len(behind.pipeline.begun), behind.pipeline.ranges[-1][P0][1]
    for position in (0, read_to - 1):
        behind.positions.go_on({P0: position})
        behind.work()
        assert len(behind.pipeline.begun) == begun
    behind.positions.go_on({P0: read_to})
    behind.consumer.steps = [behind.pipeline.end_first]
    behind.work()
    assert behind.pipeline.ranges[begun:] == [{P0: (read_to, 25)}]


@pytest.mark.parametrize("step", ["begin", "drop"])
def test_rows_that_were_held_come_again_though_no_job_could_begin(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(placement, "JOB_ROWS", 1)
    rig = _holding(monkeypatch, {P0: 0})
    rig.consumer.highs = {P0: 25}
    rig.positions.go_on({P0: 0})
    rig.writes(rows(*[P0] * 5))
    _fails_once(monkeypatch, rig.pipeline.jobs if step == "begin" else rig.plugin, step)
    with pytest.raises(RetriableError, match="not now"):
        rig.work()
    assert (rig.consumer.sought > 0, rig.next(P0)) == (True, [0]), "the consumer has gone past the held rows"
    rig.consumer.steps = [rig.pipeline.end_first]
    rig.work()
    assert (rig.pipeline.ranges, rig.next(P0)) == ([{P0: (0, 25)}], [25])


def test_what_a_job_has_done_is_asked_for_though_the_next_one_could_not_begin(
    behind: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def recover() -> dict[TopicPartition, int]:
        asked.append(len(behind.pipeline.begun))
        return {P0: 12}

    behind.plugin.recover = recover
    _fails_once(monkeypatch, behind.pipeline.jobs, "begin", after=1)
    with pytest.raises(RetriableError, match="not now"):
        behind.work()
    assert (asked, behind.next(P0), behind.pipeline.begun[0].cancelled) == ([1], [12], True)


def _fails_once(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, after: int = 0) -> None:
    """Have this method raise RetriableError once, after so many calls that do not."""
    method, answers = getattr(owner, name), [False] * after + [True]

    def call(*given: Any) -> Any:
        if answers and answers.pop(0):
            raise RetriableError("not now")
        return method(*given)

    monkeypatch.setattr(owner, name, call)


def test_what_is_held_of_a_former_topic_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = _holding(monkeypatch, {P0: 0})
    rig.writes(rows(*[P0] * 200))
    rig.rebalances.open([P0])  # the topic was made again
    rig.pipeline.held = {}
    rig.writes(rows(*[P1] * 7))
    assert rig.next(P0, P1) == [None, 7], "records 0 to 199 of the new topic are not passed over"
    assert rig.pipeline.read_anew_times == 1, "nor may a job take what was fetched of the former one"


def test_rows_that_come_again_take_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = _holding(monkeypatch, {P0: 100})
    rig.writes(rows(*[P0] * 200))
    rig.writes(rows(*[P0] * 150))  # from the first held one on, as after a rebalance
    rig.pipeline.held, rig.plugin.due = {}, 0.0
    rig.writes(None)
    assert rig.next(P0) == [200], "in S3 a file that begins at 150 would repeat records"


def _holding(monkeypatch: pytest.MonkeyPatch, held: dict[TopicPartition, int]) -> Rig:
    """A task whose sink holds rows from these offsets on, and has made nothing else durable."""
    rig = Rig(monkeypatch, 0, 0, holds=True)
    rig.pipeline.retry, rig.pipeline.held = None, held
    return rig


def test_the_clock_ends_what_a_paused_task_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = _holding(monkeypatch, {P0: 0})
    rig.writes(rows(*[P0] * 20))
    rig.plugin.due, rig.pipeline.becomes_durable = 0.0, True
    rig.task.pause()
    rig.consumer.steps = [rig.host.stop.set]
    rig.task.loop()
    assert rig.next(P0) == [20]


def test_a_sink_goes_where_it_wishes_in_the_partitions_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    commits: list[bool] = []
    rig.consumer.commit = lambda wait: commits.append(wait)  # type: ignore[method-assign]
    rig.positions.go_on({P0: 9, P1: 9})
    gone = TopicPartition("gone", 0)
    rig.plugin.requests = lambda: SinkRequests({P0: 4, gone: 1}, True, {P1: 5.0, gone: 5.0})
    rig.consumer.steps = [rig.host.stop.set]
    rig.membership_ok = False
    rig.task.loop()
    assert rig.next(P0, P1, gone) == [4, 9, None]
    assert (rig.consumer.sought, rig.consumer.rests, len(commits)) == (1, [P1], 1)


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
            rig.task.reached(Outcome({P0: step}))

    monkeypatch.setattr(rig.task, "process", move)
    monkeypatch.setattr(rig.task, "stay_after", lambda _error, failures, _what: pauses.append(failures))
    rig.task.loop()
    assert pauses == [1, 2, 3, 1]


def fenced_rig(monkeypatch: pytest.MonkeyPatch, wait_s: float) -> Rig:
    rig = Rig(monkeypatch)
    monkeypatch.setattr(static_member, "FENCED_WAIT_S", wait_s)

    def move() -> None:
        raise Fenced("connect-c", "g-c-0")

    monkeypatch.setattr(rig.task, "commit_when_due", move)
    return rig


def test_a_task_that_was_fenced_is_started_again_where_no_other_worker_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = fenced_rig(monkeypatch, 0.01)
    with pytest.raises(RetriableError, match=r"sink\.static\.membership=false"):
        rig.task.loop()


@pytest.mark.parametrize("wait_s", [0.01, 60], ids=["before it is ended", "while it is ended"])
def test_a_task_that_another_worker_runs_now_ends_without_an_error(
    monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    rig = fenced_rig(monkeypatch, wait_s)
    rig.membership_ok = False
    ending = threading.Thread(target=rig.task.loop)
    ending.start()
    assert ending.is_alive()
    rig.task.ask_to_stop()
    ending.join(60)
    assert not ending.is_alive()


def test_a_task_that_was_fenced_is_started_again_once_its_worker_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = fenced_rig(monkeypatch, 0.01)
    answers = [False, False, True]
    monkeypatch.setattr(rig, "moves", lambda: answers.pop(0))
    with pytest.raises(RetriableError, match=r"sink\.static\.membership=false"):
        rig.task.loop()
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
        rig.task.loop()


def test_a_task_that_sleeps_is_woken_by_whatever_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    for number, ask in enumerate([rig.task.pause, rig.task.engine_changed, rig.task.ask_to_stop], start=1):
        ask()
        assert rig.consumer.interrupted == number


def test_a_task_sleeps_long_only_where_its_figures_say_that_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    now = 100.0
    lags = iter([1, 0, 0])
    for module in (sink_task, load):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(sink_task, "random", SimpleNamespace(uniform=lambda *_: 0.0))
    rig = Rig(monkeypatch)
    rig.consumer.fetch = lambda wait_s, *_: waits.append(wait_s)  # type: ignore[attr-defined]
    rig.consumer.waiting = lambda: {P0: next(lags)}  # type: ignore[method-assign]
    for after_s in (0.0, 0.3, 0.2, 0.5, 0.6):
        now += after_s
        rig.task.measure()
        rig.task.process()
    assert waits == [1.0, 1.0, 5.0, 5.0, 5.0]
    assert next(lags, None) is None


def test_tasks_that_begin_together_do_not_all_commit_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(sink_task, "time", SimpleNamespace(monotonic=lambda: now))
    rigs, commits = [Rig(monkeypatch) for _ in range(40)], list[int]()
    for number, rig in enumerate(rigs):
        rig.consumer.commit = lambda wait, number=number: commits.append(number)  # type: ignore[method-assign, misc]
    for after_s, rest in ((30, True), (30, False)):
        now += after_s
        for number, rig in enumerate(rigs):
            if number not in commits:
                rig.task.commit_when_due()
        assert (0 < len(commits) < len(rigs)) is rest, "none waits for longer than the interval"


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A task with so many small batches that it lends them; its batches are of one row."""
    monkeypatch.setattr(load.Load, "measure", lambda *_: 10_000.0)
    rig = Rig(monkeypatch, *[1] * 3)
    rig.pipeline.retry = None
    rig.task.measure()
    return rig


def test_small_batches_are_taken_by_the_shared_thread(busy: Rig) -> None:
    threads = busy.comes((rows(P0), False), (None, False), (rows(P1), True), (None, False))
    busy.task.process()
    assert threads == ["sinks-shared"] * 3
    assert busy.next(P0, P1) == [1, 1]
    busy.task.process()
    assert threads[3:] == [threading.current_thread().name], "many more are likely: that is for its own thread"


def test_the_shared_thread_waits_for_no_sink(busy: Rig) -> None:
    for error in (RetriableError("the server is away"), EngineLost("the driver is gone")):
        busy.pipeline.answers[:] = [error]
        threads = busy.comes((rows(P0), False))
        busy.task.measure()
        with pytest.raises(type(error)):
            busy.task.process()
        assert threads == ["sinks-shared"]
    assert busy.consumer.sought == 2, "its rows come again"
    assert busy.next(P0) == [None]


def test_the_shared_thread_waits_for_no_commit(busy: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    have_ended, now = [False, True], time.monotonic() + 60
    monkeypatch.setattr(sink_task, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(busy.consumer, "commit_in_passing", lambda: have_ended.pop(0), raising=False)
    busy.comes((rows(P0), False), (None, False), (rows(P1), True))
    busy.task.process()  # a third commit would be asked for in vain: the next one is due after an interval
    assert not have_ended
    assert busy.next(P0, P1) == [1, 1]


@pytest.mark.parametrize("what", ["pause", "ask_to_stop", "cut_off"])
def test_the_shared_thread_lets_go_of_a_task_that_is_asked_to(
    busy: Rig, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    polled = list[str]()

    def poll(_wait_s: float) -> tuple[None, bool]:
        polled.append(threading.current_thread().name)
        getattr(busy.task, what, lambda: setattr(busy, "membership_ok", False))()
        return None, False

    monkeypatch.setattr(busy.task, "poll", poll)
    busy.task.process()
    assert polled == ["sinks-shared"]


def test_a_task_keeps_its_thread_where_its_plugin_or_a_retry_topic_wants_it(busy: Rig) -> None:
    for plugin, retry in ((KeepingPlugin(), None), (Plugin(), Any)):
        busy.task._plugin, busy.pipeline.retry = plugin, retry  # type: ignore[assignment]
        busy.task.measure()
        threads = busy.comes((None, False))
        busy.task.process()
        assert threads == [threading.current_thread().name]
