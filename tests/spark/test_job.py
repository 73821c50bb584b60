"""A job of Spark's: cancelled at whatever moment, and whose lines its Python workers log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import Plan, Split
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from headrace.worker.engine.plan_cache import CachedPlan
from headrace.worker.engine.programs import Engine
from headrace.worker.engine.quota import Quota
from headrace.worker.logging import logs
from headrace.worker.pipeline import executors
from headrace.worker.pipeline.job import Job, JobCancelled
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.source_job import SourceJob
from tests.task_scope import task_scope

pytestmark = [pytest.mark.spark, pytest.mark.long]

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
    pool = ProjectionPool(engine, lanes=1)
    yield task_scope(Engine(pool, Quota(1), Quota(1 << 20)))
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


class Numbers:
    """Yields the number of each split."""

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"v": pa.array([split])})


class Shapes:
    """Programs that note which shape encoded a row."""

    def declared(self, shape: str) -> Any:
        return SimpleNamespace(checked=lambda rows: rows)

    def row_type(self, shape: str) -> str:
        return "v long, split int"

    def cached_plan(self, shape: str) -> CachedPlan:
        return CachedPlan(lambda rows: rows.withColumn("shape", F.concat(F.lit(shape), F.col("v"))))


def test_splits_of_several_shapes_are_each_encoded_by_their_own(scope: TaskScope, spark: SparkSession) -> None:
    plan = Plan(tuple(Split({"n": n}, None, None, shape) for n, shape in enumerate("abab")), 4, 4)
    to: Any = None
    job = SourceJob(scope, plan, Numbers(), Shapes(), to)  # type: ignore[arg-type]
    rows = job._encoded(spark).frame.collect()
    assert sorted((row["split"], row["shape"]) for row in rows) == [(0, "a0"), (1, "b1"), (2, "a2"), (3, "b3")]
