"""Programs that cannot run inline run as a job over the same batch, with the same answer: a row for a row, in order."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructType

from headrace.plugins.errors import StoppedError
from headrace.plugins.stopping import StopToken
from headrace.worker.engine.bounds import Bounds
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import Program, ProjectionPool
from headrace.worker.engine.programs import Engine, JobProgram
from headrace.worker.engine.quota import Quota

pytestmark = pytest.mark.spark

INPUT = StructType().add("n", IntegerType()).add("v", StringType())


@pytest.fixture
def shared(engine: Spark) -> Iterator[Engine]:
    pool = ProjectionPool(engine, lanes=1)
    yield Engine(pool, Quota(1), Quota(1 << 20))
    pool.stop()


def numbers(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"n": n, "v": f"v{n}"} for n in range(count)], schema=pa.schema([("n", pa.int32()), ("v", pa.string())])
    )


def program(shared: Engine, build: Callable[[DataFrame], DataFrame]) -> Program | JobProgram:
    return shared.program(INPUT, build, "a-0", Bounds())


def test_projections_run_here(shared: Engine) -> None:
    made = program(shared, lambda rows: rows.select(F.upper("v").alias("u")))
    assert isinstance(made, Program)
    assert made.run(numbers(3))["u"].to_pylist() == ["V0", "V1", "V2"]
    assert (shared.projections.rows, shared.rows_by_jobs) == (3, 0)


def test_a_python_function_runs_in_a_job(shared: Engine) -> None:
    backwards = F.udf(lambda v: v[::-1], StringType())
    made = program(shared, lambda rows: rows.select("n", backwards("v").alias("b")))
    assert isinstance(made, JobProgram)
    count = 25_000  # more than one Arrow batch
    given = made.run(numbers(count))
    assert given["n"].to_pylist() == list(range(count))
    assert given["b"].to_pylist() == [f"v{n}"[::-1] for n in range(count)]
    assert made.run(numbers(0)).num_rows == 0
    assert (shared.projections.rows, shared.rows_by_jobs) == (0, count)


def test_the_clock_goes_on_between_batches(shared: Engine) -> None:
    made = program(shared, lambda rows: rows.select(F.current_timestamp().alias("now")))
    first, second = (made.run(numbers(1))["now"][0].as_py() for _ in range(2))
    assert second > first


def test_rows_that_come_or_go_are_refused(shared: Engine) -> None:
    for build in (lambda rows: rows.filter("n > 0"), lambda rows: rows.select(F.explode(F.array("n", "n")))):
        with pytest.raises(ValueError, match="2 records became"):
            program(shared, build).run(numbers(2))


def test_a_task_that_ends_does_not_wait_for_its_turn(shared: Engine) -> None:
    stop = StopToken()
    made = shared.program(INPUT, lambda rows: rows.filter("n > 0"), "a-0", Bounds(stop))
    stop.set()
    with shared.jobs.take(), pytest.raises(StoppedError):
        made.run(numbers(2), Bounds(stop))


def test_the_driver_answers_nobody_who_does_not_know_its_secret(engine: Spark) -> None:
    context: Any = cast(Any, engine.session()).sparkContext
    port = int(context._jsc.sc().conf().get("spark.driver.port"))
    request = b"who are you?"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as driver:
        head = struct.pack(">bqi", 3, 1, len(request))  # an RPC request with the id 1
        driver.sendall(struct.pack(">q", 8 + len(head) + len(request)) + head + request)
        answer = driver.recv(65536)
    assert b"Expected SaslMessage" in answer, answer
    assert not [entry for entry in context.getConf().getAll() if "secret" in entry[0]]  # Invariant 6
