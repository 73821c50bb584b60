"""What comes back from a job's Python workers of records that failed, whatever became of the job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from headrace.config.error_handling import ErrorHandling
from headrace.plugins.contracts import RetriableError, Stop, TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters import reporting as dead_letters
from headrace.worker.deadletters.failed_records import Reported
from headrace.worker.deadletters.reporting import DeadLetterError, NotSentYet, Reporting
from headrace.worker.engine.plan_cache import Whole
from headrace.worker.pipeline import job as there
from headrace.worker.pipeline.job import Job, ProduceTo, WriteTo
from tests.unit.worker.kafka.test_writer import BAD, Client, refusing, row, rows
from tests.unit.worker.pipeline.test_sink_bisect import BAD as NO_ROW
from tests.unit.worker.pipeline.test_sink_bisect import Sink, pieces

LETTERS = Reporting("c", 0, ErrorHandling(True, 0, 0, True, False, "d", 1, False, ""))


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Raised by turns where dead letters are to be sent."""
    errors: list[Exception] = []

    def send(*_: Any) -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(dead_letters, "send", send)
    monkeypatch.setattr(there, "_begin", lambda: None)
    return errors


def came_back(*batches: pa.RecordBatch) -> list[Any]:
    """Rows as Spark's driver has them."""
    return [SimpleNamespace(**one) for batch in batches for one in batch.to_pylist()]


def job(monkeypatch: pytest.MonkeyPatch, *batches: pa.RecordBatch) -> tuple[Job, list[Reported]]:
    told: list[Reported] = []
    spark: Any = None
    made = Job(spark, "c-0", StopToken(), told.append)
    monkeypatch.setattr(made, "_run", lambda *_: came_back(*batches))
    return made, told


@pytest.mark.parametrize("error", [NotSentYet("away"), DeadLetterError("refused")])
def test_what_a_sinks_failed_job_reported_is_told(
    monkeypatch: pytest.MonkeyPatch, away: list[Exception], error: Exception
) -> None:
    bad = pieces(4, bad={1})[0][0]
    assert bad["_stop"][1].as_py() == NO_ROW
    well = list(WriteTo(Sink().writer("1"), True, False, LETTERS)([bad]))
    away.append(error)
    failed = list(WriteTo(Sink().writer("1"), True, False, LETTERS)([bad]))
    made, told = job(monkeypatch, *well, *failed)
    with pytest.raises(DeadLetterError if isinstance(error, DeadLetterError) else RetriableError, match=str(error)):
        made.sink({TopicPartition("t", 0): (0, 4)}, {}, lambda frame: frame, None, 100)  # type: ignore[arg-type]
    assert [(one.sent, one.refused, one.logged) for one in told] == [(1, 0, 1), (1, 1, 0)]


@pytest.mark.parametrize("cause", ["dead letter", "record"])
def test_a_source_whose_dead_letter_goes_nowhere_stops_in_its_own_split(
    monkeypatch: pytest.MonkeyPatch, away: list[Exception], cause: str
) -> None:
    refuse = refusing(KafkaError.TOPIC_AUTHORIZATION_FAILED, b"3")
    monkeypatch.setattr(there, "kept_producer", lambda _: Client(refuse) if cause == "record" else Client())
    away += [DeadLetterError("refused")] if cause == "dead letter" else []
    to = ProduceTo({}, True, reporting=LETTERS, partitions=({"f": 0}, {"f": 1}, {"f": 2}))
    given = rows(row(1, error=BAD, split=2), row(3, split=2))
    failed = list(to([given]))
    made, told = job(monkeypatch, *failed)
    plan: Any = SimpleNamespace(splits=[1, 2, 3], bytes=1, rows=1)
    reached = made.source(plan, None, None, None, None)  # type: ignore[arg-type]
    assert {split: one.stop for split, one in reached.items()} == {2: Stop.FATAL}
    assert [(one.sent, one.refused) for one in told] == [(1, 1 if cause == "dead letter" else 0)]


def test_a_split_that_is_the_same_in_all_rows_need_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(there, "kept_producer", lambda _: Client())
    given = rows(row(1), row(2))
    to = ProduceTo({}, True, whole=Whole({"split": pa.scalar(3, pa.int32())}, tuple(given.schema.names)))
    (came,) = came_back(*to([given.drop_columns(["split"])]))
    assert (came.split, came.written, came.source_offset) == (3, 2, '{"position": 2}')
