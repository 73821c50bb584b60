"""A task's expressions over one range of Kafka after the other, without a broker: nothing is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import TopicPartition
from headrace.worker.prepared import Prepared
from headrace.worker.there import kafka_rows

P, Q = TopicPartition("t", 3), TopicPartition("u", 4)


@pytest.fixture
def decoded() -> list[DataFrame]:
    """The frames that were decoded."""
    return []


@pytest.fixture
def prepared(decoded: list[DataFrame]) -> Prepared:
    def decode(rows: DataFrame) -> DataFrame:
        decoded.append(rows)
        told = rows.select("*", F.upper("topic").alias("name"), F.lit(False).alias("drop"))
        return told.select("name", "partition", "offset", "drop", F.length(F.col("value").cast("string")).alias("size"))

    return Prepared(decode)


def kafka(session: SparkSession, **ranges: tuple[int, int]) -> tuple[DataFrame, Any]:
    of = {{"p": P, "q": Q}[name]: each for name, each in ranges.items()}
    return kafka_rows(session, of, {"kafka.bootstrap.servers": "127.0.0.1:1"}), of


def reads(frame: DataFrame) -> str:
    """What the frame reads of Kafka."""
    node = frame._jdf.queryExecution().analyzed()
    while node.children().size():
        node = node.children().head()
    options = node.options()
    return f"{options.get('startingOffsets')} {options.get('endingOffsets')}"


def test_another_range_is_read_by_the_same_plan(
    spark: SparkSession, prepared: Prepared, decoded: list[DataFrame]
) -> None:
    first = prepared.over(*kafka(spark, p=(0, 10)))
    again = prepared.over(*kafka(spark.newSession(), p=(10, 30)))
    assert len(decoded) == 1
    assert reads(first.frame) == '{"t": {"3": 0}} {"t": {"3": 10}}'
    assert reads(again.frame) == '{"t": {"3": 10}} {"t": {"3": 30}}'
    assert again.frame.schema == first.frame.schema
    plan = again.frame._jdf.queryExecution().optimizedPlan().toString()
    assert plan.startswith("Project [offset#")
    assert again.whole.constants == first.whole.constants
    assert {name: value.as_py() for name, value in again.whole.constants.items()} == {
        "name": "T", "partition": 3, "drop": False,
    }  # fmt: skip


def test_other_partitions_are_decoded_anew(spark: SparkSession, prepared: Prepared, decoded: list[DataFrame]) -> None:
    prepared.over(*kafka(spark, p=(0, 10)))
    both = prepared.over(*kafka(spark, p=(10, 30), q=(0, 5)))
    assert len(decoded) == 2
    assert set(both.whole.constants) == {"drop"}
    assert both.frame.columns == ["name", "partition", "offset", "size"]
    assert reads(both.frame) == '{"t": {"3": 10}, "u": {"4": 0}} {"t": {"3": 30}, "u": {"4": 5}}'


@pytest.mark.parametrize(
    "changing", [F.current_timestamp, F.current_date, F.uuid, F.rand], ids=["moment", "day", "uuid", "random"]
)
def test_what_another_job_would_have_otherwise_is_not_kept(spark: SparkSession, changing: Callable[[], Column]) -> None:
    times: list[int] = []

    def decode(rows: DataFrame) -> DataFrame:
        times.append(1)
        return rows.select("offset", changing().alias("changing"))

    prepared = Prepared(decode)
    prepared.over(*kafka(spark, p=(0, 10)))
    prepared.over(*kafka(spark, p=(10, 30)))
    assert len(times) == 2


def test_columns_of_any_type_travel_and_come_back_in_their_order(spark: SparkSession) -> None:
    def decode(rows: DataFrame) -> DataFrame:
        at = F.timestamp_millis("timestamp")
        odd = F.struct(at.alias("at"), F.col("offset").cast("decimal(38,3)").alias("number"))
        return rows.select("topic", at.alias("at"), odd.alias("odd"), F.lit(True).alias("flag"), "offset")

    made = Prepared(decode).over(*kafka(spark, p=(0, 10)))
    assert made.frame.columns == ["at", "odd", "offset"]
    given = pa.RecordBatch.from_pydict({"at": [1, 2], "odd": [3, 4], "offset": [5, 6]})
    assert made.whole.rows(given).to_pylist() == [
        {"topic": "t", "at": 1, "odd": 3, "flag": True, "offset": 5},
        {"topic": "t", "at": 2, "odd": 4, "flag": True, "offset": 6},
    ]
    assert made.whole.rows(given).schema.names == ["topic", "at", "odd", "flag", "offset"]


def test_what_reads_more_than_kafka_is_decoded_anew(spark: SparkSession) -> None:
    times: list[int] = []

    def decode(rows: DataFrame) -> DataFrame:
        times.append(1)
        return rows.join(spark.range(3).withColumnRenamed("id", "offset"), "offset").select("offset")

    joined = Prepared(decode)
    joined.over(*kafka(spark, p=(0, 10)))
    again = joined.over(*kafka(spark, p=(10, 30)))
    assert len(times) == 2
    assert again.frame.columns == ["offset"]
