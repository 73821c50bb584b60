"""A batch that does not end: its task fails or ends in time, and the batches of others go on meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructType

from headrace.plugins.errors import StoppedError
from headrace.plugins.interop.catalyst.arrow_functions import ArrowFunction
from headrace.plugins.stopping import StopToken
from headrace.worker.engine import inline
from headrace.worker.engine.bounds import Bounds, TooSlow
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from tests.spark.arrow_users import endless

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120), pytest.mark.long]

INPUT = StructType().add("v", StringType()).add("n", IntegerType())
NESTED = "aggregate(sequence(1, n), 0L, (a, x) -> a + aggregate(sequence(1, n + length(v)), 0L, (b, y) -> b + y))"
STEPS = "transforms.x (headrace.transforms.Sql)"


def batch(value: str, n: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"v": pa.array([value], pa.string()), "n": pa.array([n], pa.int32())})


SLOW = {
    # Each ends by itself after some 10 s on a quiet core, which later tests need.
    "nested": (NESTED, batch("a", n=30_000)),
    "backtracking": ("v RLIKE '^a*a*a*a*a*a*c'", batch("a" * 110)),
}


def computing(sql: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.select(F.expr(sql).alias("made"))


@pytest.fixture
def pool(engine: Spark) -> Iterator[ProjectionPool]:
    pool = ProjectionPool(engine)
    yield pool
    pool.stop()


@pytest.mark.parametrize("name", SLOW)
def test_others_go_on_while_batches_do_not_end(pool: ProjectionPool, name: str) -> None:
    sql, forever = SLOW[name]
    slow, quick = pool.compile(INPUT, computing(sql)), pool.compile(INPUT, computing("upper(v)"))
    bounds = Bounds(limit_s=2, steps=STEPS)
    with ThreadPoolExecutor(4) as threads:
        hung = [threads.submit(slow.run, forever, bounds) for _ in range(2)]  # of two lanes
        while not (slow.is_slow or any(one.done() for one in hung)):
            time.sleep(0.01)
        began = time.monotonic()
        assert quick.run(batch("a"))["made"].to_pylist() == ["A"]
        assert time.monotonic() - began < 30
        for one in hung:
            with pytest.raises(TooSlow, match=r"A batch of one record did not get through transforms\.x \(headrace"):
                one.result(60)
    assert slow.run(batch("a", n=3))["made"].to_pylist() in ([30], [False])


def test_what_is_constant_is_bounded_too(pool: ProjectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "COMPILED_WITHIN_S", 1.0)
    constant = f"'{'a' * 110}' RLIKE '^a*a*a*a*a*a*c'"
    with pytest.raises(TooSlow, match=STEPS.split()[0]):
        pool.compile(INPUT, computing(constant), bounds=Bounds(limit_s=1, steps=STEPS))
    assert pool.compile(INPUT, computing("upper(v)")).run(batch("a"))["made"].to_pylist() == ["A"]


def test_a_task_that_has_to_end_waits_for_no_batch(pool: ProjectionPool) -> None:
    sql, forever = SLOW["nested"]
    slow, stop = pool.compile(INPUT, computing(sql)), StopToken()
    with ThreadPoolExecutor(1) as threads:
        hung = threads.submit(slow.run, forever, Bounds(stop, steps=STEPS))
        while not slow.is_slow:
            time.sleep(0.01)
        stop.set()
        with pytest.raises(StoppedError):
            hung.result(60)


def test_a_python_function_is_bounded_too(pool: ProjectionPool) -> None:
    function = ArrowFunction(endless)
    program = pool.compile(
        INPUT, lambda frame: frame.mapInArrow(function, frame.schema).select(F.upper("v").alias("u"))
    )
    with pytest.raises(TooSlow, match=r"transforms\.x"):
        program.run(batch("a"), Bounds(limit_s=1, steps=STEPS))
    deadline = time.monotonic() + 60
    while any(endless.__code__ is frame.f_code for frame in sys._current_frames().values()):
        assert time.monotonic() < deadline, "what computes in Python is broken off"
        time.sleep(0.01)
