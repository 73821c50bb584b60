"""A job of Spark's: cancelled at whatever moment, and whose lines its Python workers log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from headrace.plugins.stopping import StopToken
from headrace.worker import logs
from headrace.worker.engine.driver import Spark
from headrace.worker.pipeline import job as there
from headrace.worker.pipeline.job import Job, JobCancelled

pytestmark = pytest.mark.spark

LONG_S = 30.0


def long(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(LONG_S)
    yield from batches


class Planned:
    """A frame whose job is cancelled when Spark plans it and knows of no job yet."""

    def __init__(self, job: Job, frame: DataFrame) -> None:
        self.job, self.frame = job, frame

    def collect(self) -> list[Any]:
        self.job.cancel()
        return self.frame.collect()


def test_a_job_that_is_cancelled_while_it_is_planned_never_runs(engine: Spark) -> None:
    job = Job(engine, "c-0", StopToken(), print)
    began = time.monotonic()
    with pytest.raises(JobCancelled, match="c-0"):
        job._run(lambda session: Planned(job, session.range(1).mapInArrow(long, "id long")), 1, None)  # type: ignore[arg-type, return-value]
    assert time.monotonic() - began < LONG_S / 2


def whose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    there._begin()
    yield from (pa.record_batch({"whose": [logs._of_child] * batch.num_rows}) for batch in batches)


def test_its_python_workers_log_as_its_task(engine: Spark) -> None:
    for task in ("task-0", "task-1"):  # one Python worker after the other's job, or the same
        with logs.connector_context("c", task):
            job = Job(engine, "c-0", StopToken(), print)
            rows = job._run(lambda session: session.range(1).mapInArrow(whose, "whose string"), 1, None)
        assert [row.whose for row in rows] == [f"[c|{task}] "]
