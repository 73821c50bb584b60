"""A writer in a Spark job that is slow goes on; one that hangs is ended within 10 s."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from headrace.plugins.source_rows import DeclaredRows
from headrace.worker.pipeline.executors import ReadFrom, WriteTo
from headrace.worker.pipeline.job_answer import ANSWER
from headrace.worker.pipeline.partition_gate import CONTROL

pytestmark = [pytest.mark.spark, pytest.mark.long]

FORMER_LIMIT_S = 8.0
"""So long a writer could be silent before Spark ended it."""
HUNG_S = 60.0

Slow = tuple[Future[list[Row]], Future[list[Row]]]


class Writer:
    """Takes rows; each batch takes a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def write(self, rows: pa.RecordBatch) -> None:
        time.sleep(self.seconds)

    def finish(self) -> bytes:
        return b"written"

    def abort(self) -> None: ...


class Hung(Writer):
    """Does not let go of the interpreter: what a deadlock in native code looks like."""

    def write(self, rows: pa.RecordBatch) -> None:
        ctypes.PyDLL(None).sleep(int(self.seconds))


class Reader:
    """Gives a row after a while."""

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        time.sleep(FORMER_LIMIT_S + 4)
        yield pa.record_batch({"v": pa.array(["a"]), "source_offset": pa.array([{"n": 1}])})


class Task:
    """Declares what `Reader` yields."""

    row_type = pa.schema([("v", pa.string())])
    offset_type = pa.struct([("n", pa.int64())])


def rows(spark: SparkSession) -> DataFrame:
    values = ["'t'", "0", "id", "cast(null as string)", "false"]
    return spark.range(0, 3, 1, 1).selectExpr(
        *(f"{value} as {name}" for name, value in zip(CONTROL, values, strict=True)), "'a line' as line"
    )


@pytest.fixture(scope="module")
def slow(spark: SparkSession) -> Iterator[Slow]:
    """Yield the answers of a job with a slow writer, and of one with a slow reader; both are slow at the same time."""
    writing = rows(spark).mapInArrow(WriteTo(Writer(FORMER_LIMIT_S + 4), tolerate=False), ANSWER)
    reading = spark.range(1).mapInArrow(
        ReadFrom(Reader(), DeclaredRows(Task(), "")), "v string, source_offset struct<n: long>, split int"
    )
    with ThreadPoolExecutor(2) as jobs:
        yield jobs.submit(writing.collect), jobs.submit(reading.collect)


def test_a_slow_writer_goes_on(slow: Slow) -> None:
    (answer,) = slow[0].result(60)
    assert (answer.upto, answer.written, bytes(answer.part)) == (2, 3, b"written")


def test_a_slow_reader_goes_on(slow: Slow) -> None:
    assert [row.v for row in slow[1].result(60)] == ["a"]


def test_a_hung_writer_is_ended(spark: SparkSession) -> None:
    began = time.monotonic()
    with pytest.raises(Exception, match=r"Python worker|PYTHON_WORKER|Connection reset"):
        rows(spark).mapInArrow(WriteTo(Hung(HUNG_S), tolerate=False), ANSWER).collect()
    assert time.monotonic() - began < HUNG_S  # it did not end by itself
    assert rows(spark).mapInArrow(WriteTo(Writer(0), tolerate=False), ANSWER).count() == 1
