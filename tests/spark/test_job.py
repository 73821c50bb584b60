"""A job of Spark's: cancelled at whatever moment, and whose lines its Python workers log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.worker import logs
from headrace.worker.engine.admission import Admission
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from headrace.worker.engine.programs import Engine
from headrace.worker.pipeline import executors
from headrace.worker.pipeline.job import Job, JobCancelled
from headrace.worker.pipeline.scope import TaskScope
from tests.task_scope import task_scope

pytestmark = pytest.mark.spark

LONG_S = 30.0


def long(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(LONG_S)
    yield from batches


class Sleeps(Job):
    """Is cancelled when Spark plans it and knows of no job yet."""

    def _frame(self, session: SparkSession) -> DataFrame:
        frame = session.range(1).mapInArrow(long, "id long")
        job = self

        class Planned:
            def collect(self) -> list[Any]:
                job.cancel()
                return frame.collect()

        return Planned()  # type: ignore[return-value]


@pytest.fixture
def scope(engine: Spark) -> Iterator[TaskScope]:
    pool = ProjectionPool(engine, threads=1)
    yield task_scope(Engine(pool, Admission(1), Admission(1 << 20)))
    pool.stop()


def test_a_job_that_is_cancelled_while_it_is_planned_never_runs(scope: TaskScope) -> None:
    began = time.monotonic()
    with pytest.raises(JobCancelled, match="c-0"):
        Sleeps(scope)._answers(1)
    assert time.monotonic() - began < LONG_S / 2


def whose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    executors._begin()
    yield from (pa.record_batch({"whose": [logs._of_child] * batch.num_rows}) for batch in batches)


class Asks(Job):
    """Tells whose lines its Python workers log."""

    def _frame(self, session: SparkSession) -> DataFrame:
        return session.range(1).mapInArrow(whose, "whose string")


def test_its_python_workers_log_as_its_task(scope: TaskScope) -> None:
    for task in ("task-0", "task-1"):  # one Python worker after the other's job, or the same
        with logs.connector_context("c", task):
            rows = Asks(scope)._collected(1)
        assert [row.whose for row in rows] == [f"[c|{task}] "]
