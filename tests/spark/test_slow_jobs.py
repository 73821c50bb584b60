"""A job whose expressions do not end: its task fails in time, and leaves its place. One that waits goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.worker.engine import job_watch
from headrace.worker.engine.bounds import Bounds, TooSlow
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from headrace.worker.engine.job_group import JobGroup
from headrace.worker.engine.programs import Engine
from headrace.worker.engine.quota import Quota
from headrace.worker.pipeline.job import Job
from headrace.worker.pipeline.scope import TaskScope
from tests.task_scope import task_scope

pytestmark = [pytest.mark.spark, pytest.mark.long]

STEPS = "transforms.x (headrace.transforms.Sql)"
TEXT = "a" * 110
MANY = 200
# Half a second on a quiet core for each of many rows: a task ends between two of them, and later tests need its place.
NESTED = "aggregate(sequence(1, n), 0L, (a, x) -> a + aggregate(sequence(1, n + length(v)), 0L, (b, y) -> b + y))"
# It ends by itself after some 10 s on a quiet core.
CONSTANT = f"'{TEXT}' RLIKE '^a*a*a*a*a*a*c'"

Batches = Iterator[pa.RecordBatch]


def read(batches: Batches) -> Batches:
    for batch in batches:
        for _ in range(batch.num_rows):
            yield pa.record_batch({"v": [TEXT], "n": [6_000]})


def write(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.record_batch({"rows": [batch.num_rows]})


@dataclass
class WaitsFor:
    """Writes once this file is there, and shows by another one that it waits."""

    go: Path

    def __call__(self, batches: Batches) -> Batches:
        self.go.with_name("waits").touch()
        while not self.go.exists():
            time.sleep(0.05)
        yield from write(batches)


class Computes(Job):
    """Reads many records, computes this of each and writes that."""

    def __init__(self, scope: TaskScope, sql: str, writer: Callable[[Batches], Batches] = write) -> None:
        super().__init__(scope)
        self._sql, self._writer = sql, writer

    @property
    def group(self) -> JobGroup:
        assert self._group is not None
        return self._group

    def _frame(self, session: SparkSession) -> DataFrame:
        rows = session.range(0, MANY, 1, 1).mapInArrow(read, "v string, n long")
        return rows.select(F.expr(self._sql).alias("made")).mapInArrow(self._writer, "rows long")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def scope(engine: Spark, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskScope]:
    monkeypatch.setattr(engine, "replace", lambda _why: None)  # it stays for other tests
    monkeypatch.setattr(job_watch, "EVERY", 1)
    monkeypatch.setattr(job_watch, "LEAST_S", 1.0)
    pool = ProjectionPool(engine, lanes=1)
    yield task_scope(Engine(pool, Quota(1), Quota(1 << 20)), bounds=Bounds(limit_s=3, steps=STEPS))
    pool.stop()


def test_records_that_are_computed_without_end_end_their_job_and_leave_its_place(scope: TaskScope) -> None:
    job = Computes(scope, NESTED)
    with pytest.raises(TooSlow, match=r"A part of a large batch did not get through transforms\.x \(headrace"):
        job._collected(1)
    until(lambda: not job.group.runs())


def test_a_constant_that_is_computed_without_end_ends_its_job(scope: TaskScope) -> None:
    with pytest.raises(TooSlow, match=STEPS.split()[0]):
        Computes(scope, CONSTANT)._collected(1)


def test_a_job_whose_writer_waits_does_not_compute_and_its_rows_are_counted(scope: TaskScope, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = Computes(task_scope(scope.engine), "upper(v)", WaitsFor(go))  # a busy machine may plan it for long
    with ThreadPoolExecutor(1) as threads:
        rows = threads.submit(job._collected, 1)
        try:
            until((tmp_path / "waits").exists)
            until(lambda: job.group.rows() >= 2 * MANY)  # by Spark's range and by `read`: nothing is left to compute
            until(lambda: not job.group.computes())
            assert [job.group.computes() for _ in range(20)] == [False] * 20
            assert job.group.runs()
        finally:
            go.touch()
        assert sum(row.rows for row in rows.result(120)) == MANY
    until(lambda: not job.group.runs())
