"""Transforms change the columns and schemas of a frame's records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.records import Case, Records
from headrace.plugins.schema import STRING, Field, Schema, SchemaType
from headrace.plugins.transforms.cast import CastValue
from headrace.plugins.transforms.value_to_key import ValueToKey
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from tests.spark.applying import Given, applied

pytestmark = pytest.mark.spark

INT = Schema(SchemaType.INT32)
ROWS = tuple(
    Schema(SchemaType.STRUCT, name=name, fields=(Field("id", INT), Field(name, STRING))) for name in ("one", "two")
)


@pytest.fixture(scope="module")
def pool(engine: Spark) -> Iterator[ProjectionPool]:
    pool = ProjectionPool(engine, lanes=1)
    yield pool
    pool.stop()


def test_equal_schemas_share_a_column(spark: SparkSession, pool: ProjectionPool) -> None:
    made: list[Records] = []

    def keyed(records: Records) -> Records:
        transform = ValueToKey()
        transform.configure({"fields": "id"})
        made.append(transform.apply(records))
        return made[-1]

    given = [Given({"id": 1, "one": "a"}), Given({"id": 2, "two": "b"}, 1), Given(None, None, "k", 0)]
    done = applied(spark, pool, keyed, given, ROWS, (STRING,))
    assert [one.key for one in done[:2]] == [{"id": 1}, {"id": 2}]
    assert (done[2].key, done[2].key_schema) == ("k", STRING)
    assert made[0].keys == (STRING, Schema(SchemaType.STRUCT, fields=(Field("id", INT),)))


def test_the_first_case_decides_and_stays_where_its_schema_does(spark: SparkSession, pool: ProjectionPool) -> None:
    def changed(records: Records) -> Records:
        small, value = F.col("value_0") < 3, F.col("value_0")
        cases = [Case(value * 10, INT, 0, small), Case(value.cast("string"), STRING, 0, value < 5)]
        done = records.changed(values=[*cases, Case(value + 1, INT, 0, value < 9)])
        assert done.values == (INT, STRING)
        return done

    done = applied(spark, pool, changed, [Given(n) for n in (1, 4, 8, 9)], (INT,))
    assert [(one.value, one.schema) for one in done] == [(10, INT), ("4", STRING), (9, INT), (9, INT)]


def test_a_default_is_cast_once(spark: SparkSession, pool: ProjectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[DataFrame] = []
    collect = type(spark.range(1)).collect

    def counted(frame: Any) -> Any:
        asked.append(frame)
        return collect(frame)

    monkeypatch.setattr(type(spark.range(1)), "collect", counted)
    cast = CastValue()
    cast.configure({"spec": "n:string"})
    schema = Schema(SchemaType.STRUCT, fields=(Field("n", Schema(SchemaType.INT32, default=7)),))
    for _ in range(2):
        (done,) = applied(spark, pool, cast.apply, [Given({"n": 1})], (schema,), in_job=False)
        assert done.schema is not None
        assert done.schema.fields[0].schema == Schema(SchemaType.STRING, default="7")
    assert len(asked) == 1


def test_a_function_within_an_expression_sees_the_columns_before_the_change(
    spark: SparkSession, pool: ProjectionPool
) -> None:
    """By itself Spark takes the new topic there, whose alias comes before in the select."""

    def changed(records: Records) -> Records:
        def seen(*names: str) -> Column:
            return let(F.lit("saw"), lambda told: F.concat_ws(" ", told, *map(F.col, names)))

        return records.changed(
            {"topic": F.lit("new")}, values=[Case(seen("topic"), STRING, 0)], message=seen("topic", "value_0")
        )

    (done,) = applied(spark, pool, changed, [Given("old")], (STRING,))
    assert (done.topic, done.value, done.error) == ("new", "saw t", "saw t old")
