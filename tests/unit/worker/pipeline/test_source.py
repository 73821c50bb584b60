"""The rows that a source takes at once after Kafka refused some, and the rest of a batch that failed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Collection, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.problems import ConfigError, Problem
from headrace.plugins.contracts import (
    Deliveries,
    Limit,
    PartitionResult,
    Place,
    Plan,
    RetriableError,
    SourceOffset,
    Split,
    Stop,
    TransactionEnd,
)
from headrace.plugins.errors import StoppedError
from headrace.plugins.extensions import SourceProgress, TopicEncoding
from headrace.plugins.interop.conversion.decode import ConverterBinding
from headrace.plugins.interop.conversion.encode import UNKNOWN_TOPIC
from headrace.worker.kafka.writer import TopicMissing
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline import encoding, shape_programs, source_producer
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.executor import PlannedBatch
from headrace.worker.pipeline.job_size import FIRST_JOB
from headrace.worker.pipeline.placement import LARGEST_INLINE, SMALL, SourcePlacement
from headrace.worker.pipeline.source import SourcePipeline
from headrace.worker.pipeline.source_expressions import EncodedRows, SourceExpressions
from headrace.worker.pipeline.source_inline import CopiedSource
from headrace.worker.pipeline.source_job import SourceJobs
from headrace.worker.pipeline.source_producer import SourceProducer
from headrace.worker.pipeline.transforms import Transforms
from tests.task_scope import task_scope
from tests.unit.worker.kafka.test_writer import Client, row, rows

DONE = PartitionResult(written=1)


class Task(SourceProgress):
    """A source that always has more than is asked for."""

    place = Place.ANYWHERE
    row_type = pa.schema([("line", pa.string())])
    offset_type = pa.struct([("position", pa.string())])
    offset_if_empty: SourceOffset | None = None
    ends_transaction: TransactionEnd | None = None

    def __init__(self) -> None:
        self.limits: list[Limit] = []

    def reader(self, plan: Plan) -> Any:
        return None

    def plan(self, after: Any, limit: Limit) -> Plan:
        self.limits.append(limit)
        split = Split({}, None, None, offset_if_empty=self.offset_if_empty)
        return Plan((split,), limit.rows, limit.bytes, self.ends_transaction)

    def topics(self) -> list[str]:
        return []

    def delivered(self, reached: Any) -> None: ...

    def undelivered(self) -> None:
        self.limits.clear()


class Topics:
    """The topics that are there, as `SourceTopics` knows them."""

    def __init__(self, known: frozenset[str] | None) -> None:
        self.known = known
        self.ensured: set[str] = set()

    def ensure(self, topics: Collection[str]) -> bool:
        self.ensured |= set(topics)
        return True

    def most_bytes(self, topics: Collection[str]) -> int:
        return 1_000_000

    def written(self, topics: Collection[str]) -> None: ...

    def missed(self, error: TopicMissing) -> Exception:
        return error


class Told(SourceJobs):
    """An executor whose batches end as they are told to."""

    def __init__(self, producer: SourceProducer, ends: list[PartitionResult], by_job: bool) -> None:
        self.producer, self.ends, self.by_job = producer, ends, by_job

    def run(self, _work: PlannedBatch) -> Outcome[int]:
        self.producer.settings(())
        return Outcome({0: self.ends.pop(0) if self.ends else DONE}, self.by_job)


class PerTopic(TopicEncoding):
    """A converter that writes otherwise than before where `renewed` is set."""

    renewed = False

    def encode_for(self, topic: Any, value: Any, schema: Any) -> Any: ...

    def learn(self, topic: str, schema: Any) -> None: ...

    def refresh(self) -> bool:
        return self.renewed


def programs(task: Task, engine: Any = None) -> SourceEncoding:
    side, transforms = ConverterBinding(PerTopic(), ""), Transforms()  # type: ignore[arg-type]
    return SourceEncoding(task_scope(engine), SourceExpressions(task, side, side, transforms))  # type: ignore[arg-type]


def pipeline(known: frozenset[str] | None, *ends: PartitionResult) -> tuple[SourcePipeline, Task, Topics]:
    task, topics = Task(), Topics(known)
    scope = task_scope()
    producer = SourceProducer(ClientConfig("producer", {"bootstrap.servers": "localhost:1"}), topics)  # type: ignore[arg-type]
    parts = programs(task), producer, SourcePlacement(scope.engine, task)  # type: ignore[arg-type]
    made = SourcePipeline.of(scope, task, *parts)  # type: ignore[arg-type]
    left = list(ends)
    made.inline, made.jobs = (Told(producer, left, by_job) for by_job in (False, True))
    return made, task, topics


def batches(made: SourcePipeline, count: int) -> list[bool]:
    """True for each that was a job."""
    return [batch.outcome.by_job for _ in range(count) if (batch := made.batch([None])) is not None]


def test_a_transaction_ends_once_all_of_its_plan_is_sent() -> None:
    made, task, _ = pipeline(None, PartitionResult(written=1, stop=Stop.RETRY), DONE)
    task.ends_transaction = TransactionEnd.ABORT
    assert [one and one.ends_transaction for one in (made.batch([None]), made.batch([None]))] == [
        None,
        TransactionEnd.ABORT,
    ]


def test_a_transaction_does_not_end_where_the_stop_came_before_its_rows() -> None:
    made, task, _ = pipeline(None)
    task.ends_transaction = TransactionEnd.COMMIT
    task.reader = lambda _: made.scope.stop.set()  # type: ignore[method-assign]
    made.jobs.run = lambda _: Outcome()  # type: ignore[method-assign]
    batch = made.batch([None])
    assert batch is not None
    assert batch.ends_transaction is None


@pytest.mark.parametrize(("place", "limit"), [(Place.ANYWHERE, LARGEST_INLINE), (Place.WORKER_PROCESS, SMALL)])
def test_what_may_be_no_job_is_taken_in_batches_as_large_as_they_get_here(place: Place, limit: Limit) -> None:
    task, engine = Task(), task_scope().engine
    task.place = place
    placement = SourcePlacement(engine, task, stays_inline=True)  # type: ignore[arg-type]
    assert placement.limit == limit
    assert not placement.is_job(Plan((), 10 * limit.rows, 10 * limit.bytes))
    placement.batch_refused()
    assert placement.limit == SMALL


def test_a_refused_large_batch_is_looked_at_in_a_small_one_and_soon_large_again() -> None:
    made, task, _ = pipeline(None, PartitionResult(stop=Stop.RETRY, topics=("t",)))
    assert batches(made, 5) == [True, False, False, True, True]
    assert task.limits[:4] == [FIRST_JOB, SMALL, Limit(40_000, 4 << 20), Limit(80_000, 8 << 20)]
    batches(made, 10)
    assert task.limits[-1] == FIRST_JOB


class Compiling:
    """An engine whose programs ask for a topic until `told`, and that notes what it compiles."""

    def __init__(self) -> None:
        self.projections = SimpleNamespace(spark=SimpleNamespace(generation=1))
        self.compiled = 0
        self.told: list[set[str]] = []

    def program(self, _schema: object, encode: Callable[[Any], object], *_: object) -> Any:
        self.compiled += 1
        encode(None)
        unknown = pa.record_batch({UNKNOWN_TOPIC: pa.array([None if self.told else "new"], pa.string())})
        return SimpleNamespace(generation=1, run=lambda *_: unknown)


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> tuple[SourceEncoding, Compiling]:
    """Programs whose converter knows all topics."""
    engine, task = Compiling(), Task()
    engine.told.append({"old"})
    monkeypatch.setattr(SourceExpressions, "encoded", lambda *_: EncodedRows(None, None))  # type: ignore[arg-type]
    monkeypatch.setattr(encoding, "learn_topics", lambda topics, *_: engine.told.append(topics))
    return programs(task, engine), engine


Compiled = tuple[SourceEncoding, Compiling]
ROWS = rows(row(1))


def test_what_a_converter_learned_anew_is_compiled_anew(compiling: Compiled) -> None:
    made, engine = compiling
    made.encode(ROWS, "")
    plan = made.cached_plan("")
    made.refresh()
    made.encode(ROWS, "")
    assert (engine.compiled, made.cached_plan("")) == (1, plan)
    made._expressions.key.converter.renewed = True  # type: ignore[attr-defined]
    made.refresh()
    made.encode(ROWS, "")
    assert engine.compiled == 2
    assert made.cached_plan("") is not plan


def test_what_a_converter_was_told_of_a_topic_is_in_the_next_job_too(compiling: Compiled) -> None:
    made, engine = compiling
    engine.told.clear()
    before = {shape: made.cached_plan(shape) for shape in "ab"}
    made.encode(ROWS, "a")
    assert (engine.told, engine.compiled) == ([{"new"}], 2)
    assert made.cached_plan("a") is not before["a"]
    assert made.cached_plan("b") is before["b"]


def test_jobs_of_the_shapes_that_were_used_last_keep_their_plans(compiling: Compiled) -> None:
    made, _ = compiling
    plans = [made.cached_plan(str(number)) for number in range(16)]
    assert made.cached_plan("0") is plans[0]
    made.cached_plan("16")
    assert all(made.cached_plan(str(number)) is plans[number] for number in (0, *range(2, 16)))
    assert made.cached_plan("1") is not plans[1]


def test_each_topic_may_have_rows_of_its_own_shape(compiling: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_programs, "MOST_PROGRAMS", 1)
    made, engine = compiling
    monkeypatch.setattr(Task, "topics", lambda _: ["a", "b", "c"])
    for shape in "abcdabcd":
        made.encode(ROWS, shape)
    assert engine.compiled == 4
    made.encode(ROWS, "e")
    for shape in "bcde":
        made.encode(ROWS, shape)
    assert engine.compiled == 5
    made.encode(ROWS, "a")
    assert engine.compiled == 6


def test_declared_shapes_are_kept_by_the_readers_names(compiling: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_programs, "MOST_PROGRAMS", 2)
    made, _ = compiling
    first = {shape: made.declared(shape) for shape in "ab"}
    assert made.declared("a") is first["a"]
    made.declared("c")
    assert made.declared("a") is first["a"]
    assert made.declared("b") is not first["b"]


def test_refused_again_it_is_small_again() -> None:
    again = PartitionResult(stop=Stop.RETRY, topics=("t",))
    made, task, _ = pipeline(frozenset({"t"}), again, DONE, DONE, again)
    batches(made, 5)
    assert [limit == SMALL for limit in task.limits] == [False, True, False, False, True]


@pytest.mark.parametrize("known", [frozenset(), frozenset({"old"})])
def test_topics_that_are_missing_are_made_and_the_batch_stays_large(known: frozenset[str]) -> None:
    made, task, topics = pipeline(known, PartitionResult(stop=Stop.RETRY, topics=("new", "old")))
    assert batches(made, 2) == [True, True]
    assert task.limits == [FIRST_JOB, FIRST_JOB]
    assert topics.ensured == {"new", "old"} - known


class Reader:
    """Batches of a row each."""

    rows = 2

    def __init__(self) -> None:
        self.open = False
        self.before: Callable[[int], None] = lambda _: None

    def read(self, _split: int) -> Iterator[pa.RecordBatch]:
        self.open = True
        try:
            for position in range(1, self.rows + 1):
                self.before(position)
                yield rows(row(position)).drop_columns(["split"])
            self.before(self.rows + 1)
        finally:
            self.open = False


class Sender(Client):
    """A client of the broker, until it is thrown away."""

    fatal = purged = False

    def waiting(self) -> int:
        return len(self._queue)

    def purge(self) -> None:
        self.purged = True


class Encoded(SourceEncoding):
    """Programs for rows that are encoded already."""

    fails_at = 0

    def declared(self, shape: str) -> Any:
        return SimpleNamespace(checked=lambda rows: rows)

    def encode(self, rows: pa.RecordBatch, shape: str, partition: object = None) -> pa.RecordBatch:
        self.fails_at -= 1
        if self.fails_at == 0:
            raise RetriableError("the driver is lost")
        return rows


class Rig:
    """A pipeline that works inline, its reader, and the producers that it opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reader, self.opened = Reader(), list[Sender]()
        monkeypatch.setattr(source_producer, "open_producer", self._open)
        self.task, self.scope = Task(), task_scope()
        self.task.place = Place.WORKER_PROCESS
        self.task.reader = lambda _: self.reader  # type: ignore[method-assign]
        self.encoding = Encoded(self.scope, programs(self.task)._expressions)
        producer = SourceProducer(ClientConfig("producer", {"bootstrap.servers": "localhost:1"}), Topics(None))  # type: ignore[arg-type]
        parts = producer, SourcePlacement(self.scope.engine, self.task)  # type: ignore[arg-type]
        self.pipeline = SourcePipeline.of(self.scope, self.task, self.encoding, *parts)  # type: ignore[arg-type]

    def _open(self, _config: object, _deliveries: Deliveries, _statistics: object) -> Sender:
        self.opened.append(Sender())
        return self.opened[-1]

    def batch(self) -> list[PartitionResult]:
        batch = self.pipeline.batch([None])
        assert batch is not None
        assert not batch.outcome.by_job
        return list(batch.outcome)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_a_batch_left_half_way_leaves_nothing_open_and_nothing_queued(rig: Rig) -> None:
    rig.encoding.fails_at = 2
    with pytest.raises(RetriableError, match="the driver is lost") as _kept:  # and with it the frames of the reader
        rig.batch()
    assert not rig.reader.open
    assert rig.task.limits == [], "the task was told"
    assert [sender.purged for sender in rig.opened] == [True]
    rig.batch()
    assert [sender.values for sender in rig.opened] == [[], [b"1", b"2"]]
    assert not rig.opened[-1].purged


def test_a_batch_fails_of_what_happened_first(rig: Rig) -> None:
    rig.encoding.fails_at = 1
    rig.task.undelivered = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(RetriableError, match="the driver is lost"):
        rig.batch()


def test_a_plan_that_was_delivered_is_not_undelivered(rig: Rig) -> None:
    rig.task.delivered = lambda _: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(ZeroDivisionError):
        rig.batch()
    assert rig.task.limits != []


def test_a_producer_that_has_nothing_on_its_way_knows_what_it_was_refused(rig: Rig) -> None:
    """librdkafka waits half a minute for a topic that is missing, but once for each producer."""
    rig.batch()
    rig.opened[0]._refuse = lambda _: KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(RetriableError, match="could not be delivered"):
        rig.batch()
    rig.opened[0]._refuse = lambda _: None
    rig.batch()
    assert len(rig.opened) == 1


def test_a_pipeline_that_was_closed_keeps_no_client(rig: Rig) -> None:
    rig.batch()
    producer = weakref.ref(rig.opened.pop())
    rig.pipeline.close()
    gc.collect()
    assert producer() is None


@pytest.mark.parametrize("broken_off", [True, False])
def test_what_was_read_before_the_stop_counts(rig: Rig, broken_off: bool) -> None:
    def stop(position: int) -> None:
        if position == 2:
            rig.scope.stop.set()
            if broken_off:
                raise RetriableError("canceling statement due to user request")

    rig.reader.before = stop
    assert [(one.source_offset, one.stop) for one in rig.batch()] == [({"position": 1}, Stop.RETRY)]
    assert [sender.values for sender in rig.opened] == [[b"1"]]
    assert not rig.reader.open


def test_what_was_read_to_its_end_counts_as_a_whole_in_spite_of_the_stop(rig: Rig) -> None:
    def stop(position: int) -> None:
        if position == 3:
            rig.scope.stop.set()

    rig.reader.before = stop
    rig.task.rows_share_offsets = True
    assert [(one.source_offset, one.stop) for one in rig.batch()] == [({"position": 2}, None)]
    assert [sender.values for sender in rig.opened] == [[b"1", b"2"]]


def test_what_was_planned_when_the_task_was_stopped_is_not_read(rig: Rig) -> None:
    rig.scope.stop.set()
    with pytest.raises(StoppedError):
        rig.batch()
    assert rig.opened == []
    assert rig.task.limits == []


def test_a_plan_that_yields_no_row_moves_nothing(rig: Rig) -> None:
    rig.reader.rows = 0
    batch = rig.pipeline.batch([None])
    assert batch is not None
    assert batch.is_empty
    rig.reader.rows = 1
    batch = rig.pipeline.batch([None])
    assert batch is not None
    assert not batch.is_empty


def test_a_plan_that_yields_no_row_may_move_its_offset(rig: Rig) -> None:
    rig.reader.rows, rig.task.offset_if_empty = 0, {"position": 7}
    batch = rig.pipeline.batch([None])
    assert batch is not None
    assert [one.source_offset for one in batch.outcome] == [{"position": 7}]
    assert batch.is_empty, "the source is polled like an idle one"
    rig.reader.rows = 1
    assert [one.source_offset for one in rig.batch()] == [{"position": 1}], "rows know better"
    rig.reader.rows, rig.reader.before = 0, lambda _: rig.scope.stop.set()
    batch = rig.pipeline.batch([None])
    assert batch is not None
    assert not any(one.source_offset for one in batch.outcome), "the stop may have broken off its reading"


def test_rows_of_another_shape_than_declared_name_the_plugins_member(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Encoded, "declared", SourceEncoding.declared)
    with pytest.raises(TypeError, match=r"reader of Task yields the columns .*its row_type and offset_type declare"):
        rig.batch()


@pytest.mark.parametrize(("transactions", "keeps_bytes"), [(None, True), (None, False), (object(), True)])
def test_a_reader_that_could_copy_may_refuse_the_cluster_of_any_rows(transactions: Any, keeps_bytes: bool) -> None:
    class Reader:
        def read(self, split: int) -> Any: ...

        def can_copy(self, target: Any) -> bool:
            if target == "elsewhere":
                raise ConfigError(Problem("dest", None, "It is another cluster.", "Correct it."))
            return True

        def copy(self, splits: Any, target: Any, stop: Any) -> Any: ...

    def takes(client: str) -> bool:
        producer: Any = SimpleNamespace(transactions=transactions, client=client)
        encoding: Any = SimpleNamespace(keeps_bytes=keeps_bytes)
        return CopiedSource(task_scope(), cast(Any, None), encoding, producer).takes(Reader())

    assert takes("destination") == (transactions is None and keeps_bytes)
    with pytest.raises(ConfigError, match="another cluster"):
        takes("elsewhere")
