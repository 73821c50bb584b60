"""The classes inside Spark that `headrace.worker.engine.inline` stands on, for the Spark that is installed.

What a program gives inline is what an ordinary frame gives; what cannot be a program says so; one program serves many.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import gc
import itertools
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructType

from headrace.plugins.contracts import RetriableError
from headrace.plugins.interop.catalyst.spark_internals import each
from headrace.worker.engine import lane
from headrace.worker.engine.compiled import NotProjectable
from headrace.worker.engine.driver import EngineLost, Spark
from headrace.worker.engine.inline import TOGETHER_ROWS, Program, ProjectionPool
from headrace.worker.engine.lane import INTERPRETED_ROWS, Lane

pytestmark = [pytest.mark.spark, pytest.mark.long]

INPUT = StructType().add("n", IntegerType()).add("v", StringType()).add("a", ArrayType(IntegerType()))
D = decimal.Decimal
UTC = datetime.UTC


class Gate:
    """A worker's Spark whose session can be kept closed, and lost."""

    def __init__(self, session: SparkSession) -> None:
        self.generation = 1
        self.asked = False
        """True if somebody stands before the closed gate, or did."""
        self.open = threading.Event()
        self.open.set()
        self._session = session

    @contextlib.contextmanager
    def using(self) -> Iterator[SparkSession]:
        self.asked = not self.open.is_set()
        assert self.open.wait(60)
        yield self._session


@pytest.fixture(scope="module", params=[INTERPRETED_ROWS, 0], ids=["interpreted", "compiled"])
def pool(engine: Spark, request: pytest.FixtureRequest) -> Iterator[ProjectionPool]:
    pool = ProjectionPool(engine)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lane, "INTERPRETED_ROWS", request.param)
        yield pool
    pool.stop()


@pytest.fixture
def gate(spark: SparkSession) -> Gate:
    return Gate(spark)


@pytest.fixture
def one_lane(gate: Gate) -> Iterator[ProjectionPool]:
    pool = ProjectionPool(gate, lanes=1)  # type: ignore[arg-type]
    yield pool
    gate.open.set()
    pool.stop()


def batch(schema: StructType, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(named, schema=to_arrow_schema(schema, timezone="UTC"))


def numbers(begin: int, count: int) -> pa.RecordBatch:
    return batch(INPUT, *((n, f"v{n}", None) for n in range(begin, begin + count)))


def upper(frame: DataFrame) -> DataFrame:
    return frame.select("n", F.upper("v").alias("u"))


VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, 127],
    "smallint": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "float": [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan],
    "double": [0.1, -1e300, 5e-324, math.inf, math.nan],
    "decimal(5,2)": [D("-999.99"), D("0.01")],
    "decimal(38,10)": [D("1234567890123456789012345678.0123456789"), D("-0.0000000001")],
    "string": ["", "a", "ünï 漢字 🎉 \x00", "x" * 100_000],
    "binary": [b"", b"\x00\xff" * 50_000],
    "date": [datetime.date(1, 1, 1), datetime.date(1582, 10, 15), datetime.date(9999, 12, 31)],
    "timestamp": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime.datetime(2026, 7, 1, tzinfo=UTC)],
    "timestamp_ntz": [datetime.datetime(1900, 1, 1), datetime.datetime(2026, 3, 29, 2, 30)],
    "array<string>": [[], ["a", None, ""]],
    "array<array<int>>": [[], [[1, None], [], None]],
    "map<string,int>": [{}, {"a": 1, "b": None}],
    "struct<a:int,b:struct<c:string>>": [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}],
    "array<struct<key:string,value:binary>>": [[{"key": "h", "value": b"\x00"}, {"key": "h", "value": None}]],
}


def every_way(frame: DataFrame) -> DataFrame:
    """The value passed on, computed, within other values, and where it is not null only."""
    v = F.col("v")
    return frame.select(
        v.alias("passed"),
        "n",
        F.when(F.col("n") % 2 == 0, v).alias("some"),
        F.coalesce(v, v).alias("same"),
        F.array(v, v).alias("twice"),
        F.struct(v.alias("x"), F.lit(1).alias("one")).alias("within"),
        v.isNull().alias("nothing"),
        F.lit("c").alias("constant"),
    ).select("*", F.concat(F.col("constant"), F.col("n")).alias("second"))


@pytest.mark.parametrize("ddl", VALUES)
def test_a_program_gives_what_an_ordinary_frame_gives(ddl: str, pool: ProjectionPool, spark: SparkSession) -> None:
    schema = StructType.fromDDL(f"n int, v {ddl}")
    rows = batch(schema, *enumerate([None, *VALUES[ddl], None]))
    program = pool.compile(schema, every_way)
    expected = every_way(spark.createDataFrame(pa.Table.from_batches([rows]), schema).coalesce(1)).toArrow()
    given = program.run(rows)
    assert program.names == expected.schema.names
    assert [f.type for f in given.schema] == [f.type for f in expected.schema]
    assert repr(given.to_pylist()) == repr(expected.to_pylist())  # NaN is not equal to itself, its text is


def test_a_program_is_compiled_while_rows_go_through_it(
    engine: Spark, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "INTERPRETED_ROWS", 1_500)
    pool, schema = ProjectionPool(engine), StructType.fromDDL("n int, v string")

    def parsed(frame: DataFrame) -> DataFrame:  # a parser and a generator, which keep a state
        read = F.from_json("v", "a int, b array<string>")
        return frame.select((read["a"] + 1).alias("a"), F.to_json(read).alias("again")).select(
            "a", F.concat("again", F.col("a").cast("string")).alias("both")
        )

    try:
        program = pool.compile(schema, parsed)
        known, deadline = threads_named(spark, "headrace-compiler"), time.monotonic() + 60
        for begin in itertools.count(0, 1000):
            numbers = range(begin, begin + 1000)
            rows = batch(schema, *((n, f'{{"a": {n}, "b": ["x{n}"]}}') for n in numbers))
            wanted = [{"a": n + 1, "both": f'{{"a":{n},"b":["x{n}"]}}{n + 1}'} for n in numbers]
            assert program.run(rows).to_pylist() == wanted
            assert time.monotonic() < deadline
            if begin >= 2000 and threads_named(spark, "headrace-compiler") <= known:
                break
        assert program.run(rows).to_pylist() == wanted
    finally:
        pool.stop()


def threads_named(spark: SparkSession, name: str) -> int:
    """The number of threads of the driver's JVM that have this name now."""
    threads: Any = spark._jvm.java.lang.Thread.getAllStackTraces().keySet()
    return [thread.getName() for thread in threads].count(name)


def test_all_types_stand_in_one_row(pool: ProjectionPool, spark: SparkSession) -> None:
    schema = StructType.fromDDL(", ".join(f"c{i} {ddl}" for i, ddl in enumerate(VALUES)))
    rows = batch(schema, *(tuple(values[i % len(values)] for values in VALUES.values()) for i in range(7)))

    def build(frame: DataFrame) -> DataFrame:
        return frame.select(*(F.coalesce(c, c).alias(c) for c in frame.columns))

    assert repr(pool.compile(schema, build).run(rows).to_pylist()) == repr(rows.to_pylist())


def test_what_is_only_passed_on_never_reaches_the_jvm(pool: ProjectionPool) -> None:
    before = pool.batches
    given = pool.compile(INPUT, lambda frame: frame.select(F.col("v").alias("w"), "n")).run(numbers(0, 3))
    assert given.to_pylist() == [{"w": f"v{n}", "n": n} for n in range(3)]
    assert pool.batches == before


def test_what_only_passes_costs_no_projection_below_another(pool: ProjectionPool) -> None:
    """The optimizer keeps two projections where an expensive value is used twice; the lower one has all that passes."""

    def build(frame: DataFrame) -> DataFrame:
        cut = F.regexp_replace("v", "v", "w")
        lower = frame.withColumns({"cut": cut, "unused": F.regexp_replace("v", "x", "y")})
        return lower.select("n", F.concat("cut", "cut").alias("both"), F.col("a").alias("b"), F.upper("cut").alias("u"))

    program = pool.compile(INPUT, build)
    assert program.run(numbers(0, 2)).to_pylist() == [
        {"n": n, "both": f"w{n}w{n}", "b": None, "u": f"W{n}"} for n in range(2)
    ]
    assert [len(list(each(expressions))) for expressions, _ in program.compiled.projections] == [1, 2]
    assert program.compiled.reads.names == ["v"]


def test_a_batch_may_be_empty_and_may_be_large(pool: ProjectionPool) -> None:
    program = pool.compile(INPUT, upper)
    few = program.run(numbers(0, 1))
    assert program.run(numbers(0, 0)).schema == few.schema
    many = program.run(numbers(0, 3 * TOGETHER_ROWS))
    assert many["u"].to_pylist() == [f"V{n}" for n in range(3 * TOGETHER_ROWS)]


def test_requests_and_answers_of_all_sizes_come_through(pool: ProjectionPool) -> None:
    """Small ones through the pipe, others in the shared memory, and those through the pipe that have no room there."""
    program = pool.compile(INPUT, lambda frame: frame.select(F.repeat("v", F.col("n")).alias("r")))
    for size, times in itertools.product((10, 100_000, 4 << 20, 9 << 20), (0, 1, 3)):
        given = [(times, "x" * size, None), (1, "y", None)]
        assert program.run(batch(INPUT, *given))["r"].to_pylist() == ["x" * size * times, "y"], (size, times)


def test_without_shared_memory_all_goes_through_the_pipe(
    one_lane: ProjectionPool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: -1)  # as where this process' files are not its own
    made, program = Lane(spark, 1, tmp_path, "lane"), one_lane.compile(INPUT, upper).compiled
    try:
        answer = made.run(program, [pa.record_batch({"v": ["x" * 1_000_000]}).serialize()])
        assert answer.to_pylist() == [{"u": "X" * 1_000_000}]
    finally:
        made.close()


def test_an_answer_is_not_the_next_requests_memory(pool: ProjectionPool) -> None:
    program = pool.compile(INPUT, upper)
    answers = [program.run(numbers(begin, TOGETHER_ROWS)) for begin in (0, TOGETHER_ROWS)]
    assert [answer["u"][0].as_py() for answer in answers] == ["V0", f"V{TOGETHER_ROWS}"]


@pytest.mark.parametrize(
    "build",
    [
        lambda frame: frame.groupBy("v").count(),
        lambda frame: frame.select(F.explode("a")),
        lambda frame: frame.filter("n > 1"),
        lambda frame: frame.filter("false"),
        lambda frame: frame.select(F.udf(lambda n: n, IntegerType())("n")),
        lambda frame: frame.mapInArrow(lambda rows: rows, frame.schema),
        lambda frame: frame.orderBy("n"),
        lambda frame: frame.limit(1),
        lambda frame: frame.distinct(),
        lambda frame: frame.union(frame),
        lambda frame: frame.join(frame.select("n"), "n"),
        lambda frame: frame.select(F.row_number().over(Window.orderBy("n"))),
        lambda frame: frame.observe("seen", F.count("n").alias("c")),
        lambda frame: frame.select("n", F.rand()),
        lambda frame: frame.select("n", F.expr("uuid()")),
        lambda frame: frame.select("n", F.monotonically_increasing_id()),
        lambda frame: frame.select(F.rand().alias("r")).select(F.col("r") + 1),
        lambda frame: frame.select("n", F.expr("(select max(id) from range(3))")),
        lambda frame: frame.select("n", F.current_timestamp()),
        lambda frame: frame.select("n", F.expr("date_format(now(), 'yyyy')")),
        lambda frame: frame.select("n", F.unix_timestamp()),
        lambda frame: frame.select("n", F.current_date().alias("d")).select(F.struct("d")),
    ],
)
def test_what_is_more_than_projections_needs_a_job(
    build: Callable[[DataFrame], DataFrame], pool: ProjectionPool
) -> None:
    with pytest.raises(NotProjectable):
        pool.compile(INPUT, build)


def test_programs_of_equal_keys_are_one(pool: ProjectionPool) -> None:
    program = pool.compile(INPUT, upper, "upper")
    assert pool.compile(INPUT, upper, "upper") is program
    others = [
        pool.compile(INPUT, lambda frame: frame.select("n", F.lower("v").alias("u")), "lower"),
        pool.compile(StructType.fromDDL("n bigint, v string, a array<int>"), upper, "upper"),
        pool.compile(INPUT, upper),
    ]
    assert len({id(each) for each in [program, *others]}) == 1 + len(others)
    assert [each.run(numbers(1, 1)).column("u")[0].as_py() for each in others] == ["v1", "V1", "V1"]


def test_a_program_that_nobody_has_any_more_is_forgotten(pool: ProjectionPool) -> None:
    program = pool.compile(INPUT, lambda frame: frame.select(F.repeat("v", 2).alias("forgotten")))
    program.run(numbers(0, 1))
    left = weakref.ref(program)
    del program
    gc.collect()
    assert left() is None


def test_many_threads_get_their_own_answers(pool: ProjectionPool) -> None:
    programs = [
        (pool.compile(INPUT, lambda frame, k=k: frame.select((F.col("n") * k).alias("x"))), k) for k in (1, 10, 100)
    ]

    def work(number: int) -> None:
        program, factor = programs[number % len(programs)]
        for turn in range(15):
            begin, count = number * 1000 + turn, 1 + (number + turn) % 7
            given = program.run(numbers(begin, count))["x"].to_pylist()
            assert given == [n * factor for n in range(begin, begin + count)]

    with ThreadPoolExecutor(24) as threads:
        list(threads.map(work, range(24)))


@contextlib.contextmanager
def waiting(pool: ProjectionPool, gate: Gate, calls: list[tuple[Program, pa.RecordBatch]]) -> Iterator[list[Any]]:
    """Futures of these calls. The first has the lane; all others wait for it until the block ends."""
    with ThreadPoolExecutor(len(calls)) as threads:
        gate.open.clear()
        futures = []
        try:
            for number, (program, rows) in enumerate(calls):
                futures.append(threads.submit(pool.run, program, rows))
                until(lambda number=number: gate.asked and pool.waiting == number)
            yield futures
        finally:
            gate.open.set()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_batches_that_wait_for_one_program_go_through_it_together(one_lane: ProjectionPool, gate: Gate) -> None:
    both = [one_lane.compile(INPUT, build) for build in (upper, lambda f: f.select(F.lower("v").alias("l")))]
    with waiting(one_lane, gate, [(both[i % 2], narrow(i)) for i in range(20)]) as answers:
        pass
    for i, answer in enumerate(answers):
        assert answer.result(60).to_pylist() == [{"ul"[i % 2]: f"{'Vv'[i % 2]}{i}"}]
    assert one_lane.rows == 20
    assert one_lane.batches == 3  # the one that had the lane, and the rest of each program


def test_who_goes_along_with_a_batch_that_fails_is_answered(one_lane: ProjectionPool, gate: Gate) -> None:
    casting = one_lane.compile(INPUT, lambda frame: frame.select(F.col("v").cast("int").alias("i")))
    texts = ["0", "1", "none", "3"]
    with waiting(one_lane, gate, [(casting, text(value)) for value in texts]) as answers:
        pass
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        answers.pop(2).result(60)
    assert [answer.result(60)["i"].to_pylist() for answer in answers] == [[0], [1], [3]]


def narrow(number: int) -> pa.RecordBatch:
    """A row as `upper` and its like need it: the column `v` alone."""
    return text(f"v{number}")


def text(value: str) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value], pa.string())], names=["v"])


def test_what_goes_together_is_bounded(one_lane: ProjectionPool, gate: Gate) -> None:
    program = one_lane.compile(INPUT, lambda frame: frame.select(F.upper("v").alias("u")))
    half = pa.record_batch([pa.array(["a"] * (TOGETHER_ROWS // 2), pa.string())], names=["v"])
    with waiting(one_lane, gate, [(program, half)] * 8) as answers:
        pass
    assert [answer.result(60).num_rows for answer in answers] == [half.num_rows] * 8
    assert one_lane.batches >= 4


def test_large_batches_of_another_program_leave_room(one_lane: ProjectionPool, gate: Gate) -> None:
    ours, other = (one_lane.compile(INPUT, build) for build in (upper, lambda f: f.select(F.lower("v").alias("l"))))
    large = pa.record_batch([pa.array(["a"] * TOGETHER_ROWS, pa.string())], names=["v"])
    with waiting(one_lane, gate, [(ours, text("a")), (ours, text("b")), (other, large), (ours, text("c"))]) as answers:
        pass
    assert [answer.result(60).num_rows for answer in answers] == [1, 1, TOGETHER_ROWS, 1]
    assert one_lane.batches == 3


def test_a_batch_that_has_no_room_is_refused_and_the_lane_goes_on(
    one_lane: ProjectionPool, spark: SparkSession, tmp_path: Path
) -> None:
    made, program = Lane(spark, 1, tmp_path, "lane"), one_lane.compile(INPUT, upper).compiled
    piece = pa.py_buffer(bytes(1 << 24))
    try:
        with pytest.raises(Exception, match="OutOfMemoryError"):
            made.run(program, [*[piece] * 127, piece.slice(0, len(piece) - 1)])
        assert made.run(program, [text("a").serialize()]).to_pylist() == [{"u": "A"}]
        with pytest.raises(ValueError, match="too large"):
            made.run(program, [piece] * 128)
        assert made.is_usable
    finally:
        made.close()


def test_an_error_of_an_expression_is_its_own_and_the_lane_goes_on(pool: ProjectionPool) -> None:
    casting = pool.compile(INPUT, lambda frame: frame.select(F.col("v").cast("int").alias("i")))
    for _ in range(3):
        with pytest.raises(Exception, match="CAST_INVALID_INPUT") as raised:
            casting.run(numbers(0, 1))
        assert not isinstance(raised.value, RetriableError)
        assert casting.run(batch(INPUT, (1, "17", None)))["i"].to_pylist() == [17]


def test_a_lane_outlives_errors_and_ends_with_its_pool(spark: SparkSession, gate: Gate) -> None:
    pool = ProjectionPool(gate, lanes=1)  # type: ignore[arg-type]
    casting = pool.compile(INPUT, lambda frame: frame.select(F.col("v").cast("int").alias("i")))
    before = threads_named(spark, "headrace-lane")
    for number in range(3):
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            casting.run(numbers(0, 1))
        assert casting.run(batch(INPUT, (1, str(number), None)))["i"].to_pylist() == [number]
        assert threads_named(spark, "headrace-lane") == before + 1
    pool.stop()
    until(lambda: threads_named(spark, "headrace-lane") == before)


def test_a_large_batch_leaves_no_memory_behind(one_lane: ProjectionPool, spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    allocator = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    program = one_lane.compile(INPUT, upper)
    program.run(numbers(0, 1))
    before = allocator.getAllocatedMemory()
    large = pa.record_batch([[1], ["x" * (5 << 20)], pa.array([None], pa.list_(pa.int32()))], INPUT.names)
    assert program.run(large)["u"].to_pylist() == ["X" * (5 << 20)]
    assert allocator.getAllocatedMemory() <= before


def test_a_program_of_a_session_that_is_gone_is_lost_and_compiled_anew(one_lane: ProjectionPool, gate: Gate) -> None:
    old = one_lane.compile(INPUT, upper)
    assert old.run(numbers(1, 1))["u"].to_pylist() == ["V1"]
    gate.generation += 1
    with pytest.raises(EngineLost):
        old.run(numbers(1, 1))
    new = one_lane.compile(INPUT, upper)
    assert new is not old
    assert new.run(numbers(2, 1))["u"].to_pylist() == ["V2"]
