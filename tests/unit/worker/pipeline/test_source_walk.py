"""How much a source takes at once after Kafka refused something, and what is left of a batch that failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from pyspark.sql.types import StringType, StructType

from headrace.plugins.contracts import Limit, Place, Plan, Reached, RetriableError, Split, Stop, TopicEncoding
from headrace.plugins.conversion.encode import UNKNOWN_TOPIC
from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken
from headrace.worker.engine.admission import Admission
from headrace.worker.pipeline.job_size import FIRST_JOB
from headrace.worker.pipeline.transforms import Transforms
from headrace.worker.pipeline.walk import SMALL, SourceWalk
from tests.unit.worker.kafka.test_writer import Client, row, rows

DONE = Reached(written=1)


class Task:
    """A source that always has more than is asked for."""

    place = Place.ANYWHERE
    offsets_repeat = False
    row_type = StructType().add("line", StringType())
    offset_type = StructType().add("position", StringType())

    def __init__(self) -> None:
        self.limits: list[Limit] = []

    def plan(self, after: Any, limit: Limit) -> Plan:
        self.limits.append(limit)
        return Plan((Split({}, None, None),), limit.rows, limit.bytes)

    def topics(self) -> list[str]:
        return []

    def delivered(self, reached: Any) -> None: ...

    def undelivered(self) -> None:
        self.limits.clear()


class Topics:
    """Those that are there, as `SourceTopics` knows them."""

    def __init__(self, known: frozenset[str] | None) -> None:
        self.known = known
        self.ensured: set[str] = set()

    def ensure(self, topics: Collection[str]) -> bool:
        self.ensured |= set(topics)
        return True

    def most_bytes(self, topics: Collection[str]) -> int:
        return 1_000_000


class Walk(SourceWalk):
    """Whose batches end as they are told to."""

    ends: list[Reached]

    def _here(self, plan: Plan) -> dict[int, Reached]:
        return self._there(plan)

    def _there(self, plan: Plan) -> dict[int, Reached]:
        self._for_topics()
        return {0: self.ends.pop(0) if self.ends else DONE}


class PerTopic(TopicEncoding):
    """A converter that learned nothing new."""

    def encode_for(self, topic: Any, value: Any, schema: Any) -> Any: ...

    def learn(self, topic: str, schema: Any) -> None: ...


def walk(known: frozenset[str] | None, *ends: Reached) -> tuple[Walk, Task, Topics]:
    task, topics = Task(), Topics(known)
    engine: Any = SimpleNamespace(may_go_there=lambda place: True)
    conversion: Any = SimpleNamespace(converter=PerTopic())
    made = Walk(engine, task, conversion, conversion, Transforms(), {}, False, "a-0", StopToken(), topics)  # type: ignore[arg-type]
    made.ends = list(ends)
    return made, task, topics


def batches(made: Walk, count: int) -> list[bool]:
    """Whether each ran *there*."""
    return [answer[1] for _ in range(count) if (answer := made.batch([None])) is not None]


def test_a_refused_large_batch_is_looked_at_in_a_small_one_and_soon_large_again() -> None:
    made, task, _ = walk(None, Reached(stop=Stop.RETRY, topics=("t",)))
    assert batches(made, 5) == [True, False, False, True, True]
    assert task.limits[:4] == [FIRST_JOB, SMALL, Limit(40_000, 4 << 20), Limit(80_000, 8 << 20)]
    batches(made, 10)
    assert task.limits[-1] == FIRST_JOB


def test_what_a_converter_learned_anew_is_compiled_anew() -> None:
    made, *_ = walk(None)
    compiled: Any = object()
    made._programs[""] = made._prepared[""] = compiled
    batches(made, 1)
    assert made._programs[""] is made._prepared[""] is compiled
    converter: Any = made.value.converter
    converter.refresh = lambda: True
    batches(made, 1)
    assert not made._programs
    assert not made._prepared


def test_what_a_converter_was_told_of_a_topic_is_in_the_next_job_too(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[set[str]] = []
    monkeypatch.setattr("headrace.worker.pipeline.walk.learn_topics", lambda topics, *_: learned.append(topics))
    made, *_ = walk(None)

    def compiled(shape: str) -> Any:
        unknown = pa.record_batch({UNKNOWN_TOPIC: pa.array([None if learned else "new"], pa.string())})
        made._programs[shape] = SimpleNamespace(run=lambda _: unknown)  # type: ignore[assignment]
        return made._programs[shape]

    monkeypatch.setattr(made, "_compiled", compiled)
    kept: Any = object()
    made._prepared["a"] = made._prepared["b"] = made._records["a"] = kept
    made._encoded(rows(row(1)), "a")
    assert learned == [{"new"}]
    assert list(made._prepared) == ["b"]


def test_jobs_of_the_shapes_that_were_used_last_are_kept_prepared() -> None:
    made, *_ = walk(None)
    first = made._prepared_for("0")
    for number in range(1, 16):
        made._prepared_for(str(number))
    assert made._prepared_for("0") is first
    made._prepared_for("16")
    assert list(made._prepared) == [*map(str, range(2, 16)), "0", "16"]


def test_each_topic_may_have_rows_of_its_own_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.pipeline.walk.MOST_PROGRAMS", 1)
    made, task, _ = walk(None)
    compiled: list[None] = []
    task.topics = lambda: ["a", "b", "c"]  # type: ignore[method-assign]
    engine: Any = made.engine
    engine.lanes = SimpleNamespace(spark=SimpleNamespace(generation=1))
    engine.program = lambda *_: compiled.append(None) or SimpleNamespace(generation=1)
    for shape in "abcdabcd":
        made._compiled(shape)
    assert len(compiled) == 4
    made._compiled("e")
    assert list(made._programs) == ["b", "c", "d", "e"]


def test_refused_again_it_is_small_again() -> None:
    again = Reached(stop=Stop.RETRY, topics=("t",))
    made, task, _ = walk(frozenset({"t"}), again, DONE, DONE, again)
    batches(made, 5)
    assert [limit == SMALL for limit in task.limits] == [False, True, False, False, True]


@pytest.mark.parametrize("known", [frozenset(), frozenset({"old"})])
def test_topics_that_are_missing_are_made_and_the_batch_stays_large(known: frozenset[str]) -> None:
    made, task, topics = walk(known, Reached(stop=Stop.RETRY, topics=("new", "old")))
    assert batches(made, 2) == [True, True]
    assert task.limits == [FIRST_JOB, FIRST_JOB]
    assert topics.ensured == {"new", "old"} - known


class Reader:
    """Two batches of a row each."""

    def __init__(self) -> None:
        self.open = False
        self.before: Callable[[int], None] = lambda _: None

    def read(self, _split: int) -> Iterator[pa.RecordBatch]:
        self.open = True
        try:
            for position in (1, 2):
                self.before(position)
                yield rows(row(position)).drop_columns(["split"])
            self.before(3)
        finally:
            self.open = False


class Sender(Client):
    """A client of the broker, until it is thrown away."""

    fatal = purged = False

    def waiting(self) -> int:
        return len(self._queue)

    def purge(self) -> None:
        self.purged = True


class Here(SourceWalk):
    """Whose rows are encoded already."""

    fails_at = 0

    def _encoded(self, rows: pa.RecordBatch, shape: str) -> pa.RecordBatch:
        self.fails_at -= 1
        if self.fails_at == 0:
            raise RetriableError("the driver is lost")
        return rows


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> tuple[Here, Reader, list[Sender]]:
    """A walk, its reader, and the producers that it opened."""
    made, task, _ = walk(None)
    engine: Any = SimpleNamespace(memory=Admission(1 << 20), may_go_there=lambda place: False)
    given = made.key, made.value, made.transforms, {}, False, "a-0", made.stop, made.topics
    reader, opened = Reader(), list[Sender]()
    task.reader = lambda plan: reader  # type: ignore[attr-defined]
    monkeypatch.setattr("headrace.worker.pipeline.walk.open_producer", lambda _: opened.append(Sender()) or opened[-1])
    return Here(engine, task, *given), reader, opened  # type: ignore[arg-type]


def test_a_batch_left_half_way_leaves_nothing_open_and_nothing_queued(
    here: tuple[Here, Reader, list[Sender]],
) -> None:
    made, reader, opened = here
    made.fails_at = 2
    with pytest.raises(RetriableError, match="the driver is lost") as _kept:  # and with it the frames of the reader
        made.batch([None])
    assert not reader.open
    assert made.task.limits == [], "the task was told"  # type: ignore[attr-defined]
    assert [sender.purged for sender in opened] == [True]
    assert made.batch([None]) is not None
    assert [sender.values for sender in opened] == [[], [b"1", b"2"]]
    assert not opened[-1].purged


def test_a_batch_fails_of_what_happened_first(here: tuple[Here, Reader, list[Sender]]) -> None:
    made, _, _ = here
    made.fails_at = 1
    made.task.undelivered = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(RetriableError, match="the driver is lost"):
        made.batch([None])


def test_a_plan_that_was_delivered_is_not_undelivered(here: tuple[Here, Reader, list[Sender]]) -> None:
    made, _, _ = here
    made.task.delivered = lambda _: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(ZeroDivisionError):
        made.batch([None])
    assert made.task.limits != []  # type: ignore[attr-defined]


def test_a_producer_that_has_nothing_on_its_way_knows_what_it_was_refused(
    here: tuple[Here, Reader, list[Sender]],
) -> None:
    """librdkafka waits half a minute for a topic that is missing, but once for each producer."""
    made, _, opened = here
    assert made.batch([None]) is not None
    opened[0]._refuse = lambda _: KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(RetriableError, match="could not be delivered"):
        made.batch([None])
    opened[0]._refuse = lambda _: None
    assert made.batch([None]) is not None
    assert len(opened) == 1


@pytest.mark.parametrize("broken_off", [True, False])
def test_what_was_read_before_the_stop_counts(here: tuple[Here, Reader, list[Sender]], broken_off: bool) -> None:
    made, reader, opened = here

    def stop(position: int) -> None:
        if position == 2:
            made.stop.set()
            if broken_off:
                raise RetriableError("canceling statement due to user request")

    reader.before = stop
    answer = made.batch([None])
    assert answer is not None
    assert [(one.source_offset, one.stop) for one in answer[0]] == [({"position": 1}, Stop.RETRY)]
    assert [sender.values for sender in opened] == [[b"1"]]
    assert not reader.open


def test_what_was_read_to_its_end_counts_as_a_whole_in_spite_of_the_stop(
    here: tuple[Here, Reader, list[Sender]],
) -> None:
    made, reader, opened = here

    def stop(position: int) -> None:
        if position == 3:
            made.stop.set()

    reader.before = stop
    made.task.offsets_repeat = True
    answer = made.batch([None])
    assert answer is not None
    assert [(one.source_offset, one.stop) for one in answer[0]] == [({"position": 2}, None)]
    assert [sender.values for sender in opened] == [[b"1", b"2"]]


def test_what_was_planned_when_the_task_was_stopped_is_not_read(here: tuple[Here, Reader, list[Sender]]) -> None:
    made, _, opened = here
    made.stop.set()
    with pytest.raises(StoppedError):
        made.batch([None])
    assert opened == []
    assert made.task.limits == []  # type: ignore[attr-defined]
