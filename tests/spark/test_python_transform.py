"""`headrace.transforms.Python`: a user's function in the middle of the expressions, inline and in a job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructType

from headrace.config.problems import ConfigError
from headrace.plugins.interop.catalyst.arrow_functions import ArrowFunction
from headrace.plugins.records import Records
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType
from headrace.plugins.transforms.python import Python
from headrace.plugins.transforms.sql import Sql
from headrace.worker.engine.compiled import NotProjectable
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from tests.spark import arrow_users
from tests.spark.applying import Became, Given, applied

pytestmark = pytest.mark.spark

INT = Schema(SchemaType.INT32)
ROW = Schema(
    SchemaType.STRUCT,
    name="org.Row",
    version=2,
    optional=True,
    fields=(Field("id", INT), Field("name", replace(OPTIONAL_STRING, doc="of a person"))),
)
OTHER = Schema(SchemaType.STRUCT, fields=(Field("id", Schema(SchemaType.INT64)), Field("more", STRING)))


@pytest.fixture(scope="module")
def pool(engine: Spark) -> Iterator[ProjectionPool]:
    pool = ProjectionPool(engine, lanes=1)
    yield pool
    pool.stop()


class Run:
    """Applies functions of `arrow_users`."""

    def __init__(self, session: SparkSession, pool: ProjectionPool) -> None:
        self._session, self._pool = session, pool

    def __call__(
        self,
        function: str,
        given: Sequence[Given],
        values: Sequence[Schema | None] = (ROW,),
        keys: Sequence[Schema | None] = (),
        only: Column | None = None,
        config: Mapping[str, str] | None = None,
    ) -> list[Became]:
        made = python(function, **(config or {}))

        def apply(records: Records) -> Records:
            return made.apply(replace(records, applies=only, header_bytes=_positive))

        return applied(self._session, self._pool, apply, given, values, keys)


def _positive(column: Column, schema: Schema | None) -> tuple[Column, Column]:
    refused = F.when(column.startswith("-"), F.lit("no header can be that"))
    return F.when(refused.isNull(), column.cast("binary")), refused


def python(function: str, **config: str) -> Python:
    made = Python()
    made.worker = {"python.transforms.allowed": ["tests.spark.arrow_users"]}
    made.configure({"function": f"tests.spark.arrow_users:{function}", **config})
    return made


@pytest.fixture(scope="module")
def run(spark: SparkSession, pool: ProjectionPool) -> Run:
    return Run(spark, pool)


def row(id: int, name: str = "a", **rest: Any) -> Given:
    return Given({"id": id, "name": name}, **rest)


def test_without_schema_the_value_keeps_its_own(run: Run) -> None:
    arrow_users.CALLS.clear()
    failed = {"stage": "VALUE_CONVERTER", "class": "C", "message": "before"}
    given = [row(1), Given(None), row(3), Given(None, None), row(4, error=failed), row(5, drop=True), row(6)]
    given.append(Given({"id": 7, "more": "m"}, 1))
    done = run("doubled", given, (ROW, OTHER))
    assert [one.value and one.value["id"] for one in done] == [2, None, 6, None, None, None, 12, 14]
    assert [one.schema for one in done] == [ROW, ROW, ROW, None, ROW, ROW, ROW, OTHER]
    assert [one.error for one in done] == [None] * 4 + ["before"] + [None] * 3
    assert [(batch.schema.names, batch["id"].to_pylist()) for process, batch in arrow_users.CALLS] == [
        (["id", "name"], [1, 3, 6]),
        (["id", "more"], [7]),
    ]
    assert {process for process, _ in arrow_users.CALLS} == {os.getpid()}  # inline; a job's calls are elsewhere


def test_a_declared_schema_a_mask_settings_and_the_records_own(run: Run) -> None:
    config = {
        "schema": "id INT NOT NULL, score DOUBLE COMMENT 'x', _topic STRING",
        "metadata": "topic",
        "factor": "0.6",
    }
    done = run("scored", [row(1), row(2), Given(None), row(5)], config=config)
    assert [(one.drop, one.topic) for one in done] == [
        (True, "t"),
        (False, "t-scored"),
        (False, "t"),
        (False, "t-scored"),
    ]
    assert done[3].value == {"id": 5, "score": 3.0}
    assert done[1].schema == done[3].schema
    score = Schema(SchemaType.FLOAT64, optional=True, doc="x")
    assert done[3].schema == replace(ROW, fields=(Field("id", INT), Field("score", score)))
    assert (done[2].value, done[2].schema) == (None, done[3].schema)


def test_whole_values_keys_of_several_schemas_and_a_predicate(run: Run) -> None:
    given = [Given("a", key=1, key_of=0), Given("b", key="x", key_of=1), Given("c"), Given("d", key=2, key_of=0)]
    done = run("keyed", given, (STRING,), (INT, STRING), F.col("offset") < 3, {"metadata": "key"})
    assert [one.value for one in done] == ["A", "B", "C", "d"]
    assert [one.key for one in done] == ["1", "x", None, 2]
    assert [one.key_schema and one.key_schema.type for one in done] == [SchemaType.STRING] * 3 + [SchemaType.INT32]


def test_a_key_that_is_not_there_stays_so(run: Run) -> None:
    given = [Given("a", key=1, key_of=0), Given("b"), Given("c", key=None, key_of=0)]
    done = run("same", given, (STRING,), (INT,), config={"metadata": "key"})
    assert [(one.key, one.key_schema, one.value, one.schema) for one in done] == [
        (1, INT, "a", STRING),
        (None, None, "b", STRING),
        (None, INT, "c", STRING),
    ]


def test_fields_hide_the_records_own_columns(run: Run) -> None:
    """A field `_keep`, or `_topic` beside the topic itself, and a struct without fields."""
    odd = Schema(SchemaType.STRUCT, fields=(Field("_keep", INT), Field("_topic", STRING)))
    empty = Schema(SchemaType.STRUCT)
    given = [Given({"_keep": 7, "_topic": "mine"}), Given({}, 1)]
    for metadata in ("topic,headers", ""):
        done = run("same", given, (odd, empty), config={"metadata": metadata})
        assert [(one.value, one.schema, one.topic, one.drop) for one in done] == [
            ({"_keep": 7, "_topic": "mine"}, odd, "t", False),
            ({}, empty, "t", False),
        ]


def test_what_no_record_can_have_fails_its_record_alone(run: Run) -> None:
    config = {"schema": "_value INT, _partition BIGINT, _headers MAP<STRING, STRING>"}
    done = run("placed", [Given(1), Given(2**31 - 1), Given(-1)], (INT,), config=config)
    assert [one.error for one in done] == [
        None,
        "tests.spark.arrow_users:placed gave a partition that no record can have",
        "tests.spark.arrow_users:placed gave headers that no record can have",
    ]
    assert (done[0].value, done[0].partition, done[0].headers) == (1, 2, [{"key": "h", "value": b"1"}])


@pytest.mark.long
def test_transforms_before_and_after_a_function_run_here(pool: ProjectionPool, spark: SparkSession) -> None:
    before, after = Sql(), Sql()
    before.configure({"sql": "SELECT id + 1 AS id, upper(name) AS name FROM records"})
    after.configure({"sql": "SELECT id + 1 AS id, name || '!' AS name FROM records WHERE id > 4"})
    chain = [before, python("doubled"), python("doubled"), after]

    def apply(records: Records) -> Records:
        return reduce(lambda done, transform: transform.apply(done), chain, records)

    done = applied(spark, pool, apply, [row(0), row(1), Given(None, None)], (ROW,))
    assert [one.drop for one in done] == [True, False, False]
    assert done[1].value == {"id": 9, "name": "A!"}


@pytest.mark.parametrize(
    ("function", "error", "why"),
    [
        ("failing", ZeroDivisionError, "of the user's own"),
        ("too_few", ValueError, "as many as it gets"),
        ("forgetful", ValueError, "gave no column id"),
        ("no_batch", TypeError, "a pyarrow.RecordBatch"),
    ],
)
def test_what_a_function_does_wrong_fails_the_batch(function: str, error: type[Exception], why: str, run: Run) -> None:
    with pytest.raises(error, match=why):
        run(function, [row(1), row(2)])


@pytest.mark.parametrize(
    ("schema", "why"), [("id NO SUCH TYPE", "It is no schema"), ("_headers INT", "_headers is a map")]
)
def test_a_schema_that_is_none_or_does_not_suit_is_refused(schema: str, why: str, run: Run) -> None:
    with pytest.raises(ConfigError, match=rf"schema .*{why}"):
        run("doubled", [row(1)], config={"schema": schema})


def test_functions_between_projections_cut_a_program(pool: ProjectionPool) -> None:
    schema = StructType().add("n", IntegerType()).add("v", StringType())
    seen: list[pa.RecordBatch] = []

    def count(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        return batch

    kept = ArrowFunction(count)

    def build(frame: DataFrame) -> DataFrame:
        below = frame.select("n", F.upper("v").alias("u"), (F.col("n") * 2).alias("m"))
        above = below.mapInArrow(kept, below.schema).select("u", (F.col("m") + 1).alias("odd"))
        return above.mapInArrow(kept, above.schema)

    rows = pa.RecordBatch.from_pylist(
        [{"n": 1, "v": "a"}, {"n": 2, "v": None}], schema=pa.schema([("n", pa.int32()), ("v", pa.string())])
    )
    program, before = pool.compile(schema, build), pool.rows
    assert program.run(rows).to_pylist() == [{"u": "A", "odd": 3}, {"u": None, "odd": 5}]
    assert [batch.schema.names for batch in seen] == [["n", "u", "m"], ["u", "odd"]]
    assert pool.rows == before + 2  # through two programs, and yet two rows
    assert program.run(rows.slice(0, 0)).num_rows == 0
    assert program.run(rows.slice(1)).to_pylist() == [{"u": None, "odd": 5}]
    with pytest.raises(NotProjectable):
        pool.compile(schema, lambda frame: frame.mapInArrow(lambda batches: batches, frame.schema))
