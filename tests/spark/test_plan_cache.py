"""A task's expressions over one range of Kafka after the other, without a broker: nothing is read."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import TopicPartition
from headrace.worker.engine.plan_cache import CachedPlan
from headrace.worker.pipeline.kafka_frames import kafka_rows

pytestmark = pytest.mark.long

P, Q = TopicPartition("t", 3), TopicPartition("u", 4)


@pytest.fixture
def decoded() -> list[DataFrame]:
    """The frames that were decoded."""
    return []


@pytest.fixture
def prepared(decoded: list[DataFrame]) -> CachedPlan:
    def decode(rows: DataFrame) -> DataFrame:
        decoded.append(rows)
        told = rows.select("*", F.upper("topic").alias("name"), F.lit(False).alias("drop"))
        return told.select("name", "partition", "offset", "drop", F.length(F.col("value").cast("string")).alias("size"))

    return CachedPlan(decode)


def kafka(session: SparkSession, **ranges: tuple[int, int]) -> DataFrame:
    of = {{"p": P, "q": Q}[name]: each for name, each in ranges.items()}
    return kafka_rows(session, [of], {"kafka.bootstrap.servers": "127.0.0.1:1"})


def reads(frame: DataFrame) -> str:
    """The offsets that the frame reads of Kafka."""
    node = frame._jdf.queryExecution().analyzed()
    while node.children().size():
        node = node.children().head()
    options = node.options()
    return f"{options.get('startingOffsets')} {options.get('endingOffsets')}"


def test_another_range_is_read_by_the_same_plan(
    spark: SparkSession, prepared: CachedPlan, decoded: list[DataFrame]
) -> None:
    first = prepared.over(kafka(spark, p=(0, 10)))
    again = prepared.over(kafka(spark.newSession(), p=(10, 30)))
    assert len(decoded) == 1
    assert reads(first.frame) == '{"t": {"3": 0}} {"t": {"3": 10}}'
    assert reads(again.frame) == '{"t": {"3": 10}} {"t": {"3": 30}}'
    assert again.frame.schema == first.frame.schema
    plan = again.travelling()._jdf.queryExecution().optimizedPlan().toString()
    assert plan.startswith("Project [offset#")
    assert again.whole.constants == first.whole.constants
    assert {name: value.as_py() for name, value in again.whole.constants.items()} == {
        "name": "T", "partition": 3, "drop": False,
    }  # fmt: skip


def test_a_partition_in_parts_is_read_by_the_same_plan(
    spark: SparkSession, prepared: CachedPlan, decoded: list[DataFrame]
) -> None:
    whole = prepared.over(kafka(spark, p=(0, 10)))
    parts = kafka_rows(spark, [{P: (10, 20)}, {P: (20, 30)}], {"kafka.bootstrap.servers": "127.0.0.1:1"})
    again = prepared.over(parts)
    assert len(decoded) == 1
    assert again.whole.constants == whole.whole.constants, "what is the same in all parts need not travel"


def test_other_partitions_are_decoded_anew(spark: SparkSession, prepared: CachedPlan, decoded: list[DataFrame]) -> None:
    prepared.over(kafka(spark, p=(0, 10)))
    both = prepared.over(kafka(spark, p=(10, 30), q=(0, 5)))
    assert len(decoded) == 2
    assert set(both.whole.constants) == {"drop"}
    assert both.travelling().columns == ["name", "partition", "offset", "size"]
    assert reads(both.frame) == '{"t": {"3": 10}, "u": {"4": 0}} {"t": {"3": 30}, "u": {"4": 5}}'


@pytest.mark.parametrize(
    "changing", [F.current_timestamp, F.current_date, F.uuid, F.rand], ids=["moment", "day", "uuid", "random"]
)
def test_what_another_job_would_have_otherwise_is_not_kept(spark: SparkSession, changing: Callable[[], Column]) -> None:
    times: list[int] = []

    def decode(rows: DataFrame) -> DataFrame:
        times.append(1)
        return rows.select("offset", changing().alias("changing"))

    prepared = CachedPlan(decode)
    prepared.over(kafka(spark, p=(0, 10)))
    prepared.over(kafka(spark, p=(10, 30)))
    assert len(times) == 2


def test_columns_of_any_type_travel_and_come_back_in_their_order(spark: SparkSession) -> None:
    def decode(rows: DataFrame) -> DataFrame:
        at = F.timestamp_millis("timestamp")
        odd = F.struct(at.alias("at"), F.col("offset").cast("decimal(38,3)").alias("number"))
        return rows.select("topic", at.alias("at"), odd.alias("odd"), F.lit(True).alias("flag"), "offset")

    made = CachedPlan(decode).over(kafka(spark, p=(0, 10)))
    assert made.travelling().columns == ["at", "odd", "offset"]
    given = pa.RecordBatch.from_pydict({"at": [1, 2], "odd": [3, 4], "offset": [5, 6]})
    assert made.whole.rows(given).to_pylist() == [
        {"topic": "t", "at": 1, "odd": 3, "flag": True, "offset": 5},
        {"topic": "t", "at": 2, "odd": 4, "flag": True, "offset": 6},
    ]
    assert made.whole.rows(given).schema.names == ["topic", "at", "odd", "flag", "offset"]


def test_a_column_travels_once_under_whatever_names(spark: SparkSession) -> None:
    def decode(rows: DataFrame) -> DataFrame:
        named = rows.withColumns({"_partition": F.col("partition"), "_offset": F.col("offset")})
        told = named.withColumn("size", F.length("value") + F.length("value") * F.lit(2))  # not one projection
        return told.select("_partition", "offset", "_offset", F.col("partition").alias("folder"), "size")

    both = {"p": (0, 10), "q": (0, 10)}
    parts = kafka_rows(spark, [{P: (0, 10), Q: (0, 5)}, {P: (10, 20)}], {"kafka.bootstrap.servers": "127.0.0.1:1"})
    for rows in (kafka(spark, **both), parts):
        made = CachedPlan(decode).over(rows)
        assert made.travelling().columns == ["_partition", "offset", "size"]
        assert made.whole.copies == {"_offset": "offset", "folder": "_partition"}
        given = pa.RecordBatch.from_pydict({"_partition": [3], "offset": [5], "size": [6]})
        assert made.whole.rows(given).to_pydict() == {
            "_partition": [3], "offset": [5], "_offset": [5], "folder": [3], "size": [6],
        }  # fmt: skip


def test_columns_that_are_the_same_in_one_source_travel_for_another(spark: SparkSession) -> None:
    plan = CachedPlan(lambda rows: rows.select("x", "y"))
    for sign in (1, -1):
        made = plan.over(spark.range(3).selectExpr("id AS x", "id AS y" if sign == 1 else "-id AS y"))
        assert made.travelling().columns == ["x", "y"]
        assert [row.y for row in made.frame.collect()] == [0, sign, 2 * sign]


def test_headers_are_not_read_where_nothing_is_made_of_them(spark: SparkSession) -> None:
    def decode(rows: DataFrame) -> DataFrame:
        told = F.when(F.col("topic") == "u", F.col("headers").getField("key").getItem(0))
        return rows.select("offset", told.alias("told"))

    plan, options = CachedPlan(decode), {"kafka.bootstrap.servers": "127.0.0.1:1"}
    assert "headers" not in plan.over(kafka(spark, q=(0, 10))).unread
    of_p = plan.over(kafka(spark, p=(0, 10)))
    assert of_p.unread >= {"headers", "key", "timestamp"}, "its topic is known, and has nothing to do with headers"
    without = plan.over(kafka_rows(spark, [{P: (0, 10)}], options, headers=False))
    assert without.frame.schema == of_p.frame.schema
    assert "headers" not in without.travelling()._jdf.queryExecution().optimizedPlan().toString()
    assert "headers" not in plan.over(kafka(spark, q=(0, 10))).unread


@pytest.mark.parametrize(
    "literal",
    ["7", "named_struct('id', 7L)", "'null'", "cast(7 as decimal(9,2))"],
    ids=["int", "struct", "text", "decimal"],
)
def test_rows_of_any_source_are_changed_by_the_same_plan_unless_they_have_another_constant(
    spark: SparkSession, prepared: CachedPlan, decoded: list[DataFrame], literal: str
) -> None:
    def rows(first: int, constant: str) -> DataFrame:
        frame = spark.range(first, first + 3).selectExpr("id AS offset", "'a' || id AS topic", f"{constant} AS same")
        frame = frame.withColumns({"partition": F.col("same").cast("string"), "value": F.expr("binary('ab')")})
        return frame.mapInArrow(lambda batches: batches, frame.schema) if first == 9 else frame

    first, again = prepared.over(rows(0, literal)), prepared.over(rows(5, literal))
    assert len(decoded) == 1
    assert [row.name for row in first.frame.collect()] == ["A0", "A1", "A2"]
    assert [row.name for row in again.frame.collect()] == ["A5", "A6", "A7"]
    assert again.frame.collect()[0].partition == first.frame.collect()[0].partition
    other = prepared.over(rows(0, literal.replace("7", "8").replace("'null'", "cast(null as string)")))
    assert len(decoded) == 2
    assert other.frame.collect()[0].partition != first.frame.collect()[0].partition
    assert [row.offset for row in prepared.over(rows(9, literal)).frame.collect()] == [9, 10, 11]


def test_what_reads_more_than_kafka_is_decoded_anew(spark: SparkSession) -> None:
    times: list[int] = []

    def decode(rows: DataFrame) -> DataFrame:
        times.append(1)
        return rows.join(spark.range(3).withColumnRenamed("id", "offset"), "offset").select("offset")

    joined = CachedPlan(decode)
    joined.over(kafka(spark, p=(0, 10)))
    again = joined.over(kafka(spark, p=(10, 30)))
    assert len(times) == 2
    assert again.frame.columns == ["offset"]
