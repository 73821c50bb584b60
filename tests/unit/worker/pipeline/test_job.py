"""Reports of failed records from a job's Python workers, whatever became of the job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from headrace.config.worker.internal_topics import InternalTopics
from headrace.plugins.contracts import Plan, RetriableError, Stop, TopicPartition
from headrace.worker.deadletters import reporting as dead_letters
from headrace.worker.deadletters.failed_records import FailureReport
from headrace.worker.deadletters.reporting import DeadLetterError, NotSentYet, Reporting
from headrace.worker.engine.plan_cache import Whole
from headrace.worker.pipeline import executors
from headrace.worker.pipeline.executors import ProduceTo, WriteTo
from headrace.worker.pipeline.kafka_frames import KafkaReaders
from headrace.worker.pipeline.sink_job import SinkJob, SinkJobParts
from headrace.worker.pipeline.source_job import SourceJob
from tests.task_scope import handling, task_scope
from tests.unit.worker.kafka.test_writer import BAD, Client, refusing, row, rows
from tests.unit.worker.pipeline.test_sink_writing import BAD as NO_ROW
from tests.unit.worker.pipeline.test_sink_writing import Sink, pieces

T0 = TopicPartition("t", 0)
LETTERS = Reporting("c", 0, handling(True, log=True, dead_letters="d"))


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Raised by turns where dead letters are to be sent."""
    errors: list[Exception] = []

    def send(*_: Any) -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(dead_letters, "send", send)
    monkeypatch.setattr(executors, "_begin", lambda: None)
    return errors


def came_back(*batches: pa.RecordBatch) -> list[Any]:
    """Rows as Spark's driver has them."""
    return [SimpleNamespace(**one) for batch in batches for one in batch.to_pylist()]


class SinkCollected(SinkJob):
    """A sink's job whose answers are these batches."""

    def __init__(self, *batches: pa.RecordBatch) -> None:
        none: Any = None
        self.told: list[FailureReport] = []
        scope = task_scope(tell=self.told.append)
        super().__init__(SinkJobParts(scope, none, none, none, iter("1"), KafkaReaders({})), {T0: (0, 4)}, 100, None)
        self._batches = batches

    def _collected(self, row_bytes: int) -> list[Any]:
        return came_back(*self._batches)


class SourceCollected(SourceJob):
    """A source's job whose answers are these batches."""

    def __init__(self, *batches: pa.RecordBatch) -> None:
        none: Any = None
        self.told: list[FailureReport] = []
        super().__init__(task_scope(tell=self.told.append), Plan((), 1, 1), none, none, none)
        self._batches = batches

    def _collected(self, row_bytes: int) -> list[Any]:
        return came_back(*self._batches)


@pytest.mark.parametrize("error", [NotSentYet("away"), DeadLetterError("refused")])
def test_what_a_sinks_failed_job_reported_is_told(away: list[Exception], error: Exception) -> None:
    bad = pieces(4, bad={1})[0][0]
    assert bad["_stop"][1].as_py() == NO_ROW
    well = list(WriteTo(Sink().writer("1"), True, False, LETTERS)([bad]))
    away.append(error)
    failed = list(WriteTo(Sink().writer("1"), True, False, LETTERS)([bad]))
    made = SinkCollected(*well, *failed)
    with pytest.raises(DeadLetterError if isinstance(error, DeadLetterError) else RetriableError, match=str(error)):
        made._read_and_write()
    assert [(one.sent, one.refused, one.logged) for one in made.told] == [(1, 0, 1), (1, 1, 0)]


@pytest.mark.parametrize("cause", ["dead letter", "record"])
def test_a_source_whose_dead_letter_goes_nowhere_stops_in_its_own_split(
    monkeypatch: pytest.MonkeyPatch, away: list[Exception], cause: str
) -> None:
    refuse = refusing(KafkaError.TOPIC_AUTHORIZATION_FAILED, b"3")
    monkeypatch.setattr(executors, "kept_producer", lambda *_: Client(refuse) if cause == "record" else Client())
    away += [DeadLetterError("refused")] if cause == "dead letter" else []
    to = ProduceTo({}, True, reporting=LETTERS, partitions=({"f": 0}, {"f": 1}, {"f": 2}))
    given = rows(row(1, error=BAD, split=2), row(3, split=2))
    failed = list(to([given]))
    made = SourceCollected(*failed)
    outcome = made.run()
    assert {split: one.stop for split, one in outcome.of.items()} == {2: Stop.FATAL}
    assert [(one.sent, one.refused) for one in made.told] == [(1, 1 if cause == "dead letter" else 0)]


def test_a_split_that_is_the_same_in_all_rows_need_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "kept_producer", lambda *_: Client())
    given = rows(row(1), row(2))
    to = ProduceTo({}, True, whole=Whole({"split": pa.scalar(3, pa.int32())}, tuple(given.schema.names)))
    (came,) = came_back(*to([given.drop_columns(["split"])]))
    assert (came.split, came.written, came.source_offset) == (3, 2, '{"position": 2}')


def test_no_row_leaves_a_python_worker_for_a_closed_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    monkeypatch.setattr(executors, "kept_producer", lambda *_: client)
    given = rows(row(1), row(2))
    to = ProduceTo({}, True, closed=InternalTopics(frozenset(given["topic"].to_pylist())))
    (came,) = came_back(*to([given]))
    assert came.stop == Stop.FATAL.value
    assert "is an internal topic" in came.reason
