"""Runs transforms over records that a test makes up, inline and in a job, and says what became of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.plugins.records import ERROR, HEADERS, Records
from headrace.plugins.schema import Schema, spark_type
from headrace.worker.engine.inline import ProjectionPool


@dataclass
class Given:
    """One record; `of` and `key_of` are indexes into the schemas, None: a null without schema."""

    value: Any = None
    of: int | None = 0
    key: Any = None
    key_of: int | None = None
    topic: str = "t"
    timestamp: int | None = 1_000
    headers: list[dict[str, Any]] | None = None
    error: dict[str, str] | None = None
    drop: bool = False


@dataclass
class Became:
    """The record that was made; `schema` is that of its value."""

    topic: str
    partition: int | None
    timestamp: int | None
    headers: Any
    key: Any
    key_schema: Schema | None
    value: Any
    schema: Schema | None
    error: str | None
    drop: bool
    has_value: bool = field(default=True)


def applied(
    spark_session: SparkSession,
    pool: ProjectionPool,
    apply: Callable[[Records], Records],
    given: Sequence[Given],
    values: Sequence[Schema | None],
    keys: Sequence[Schema | None] = (),
    in_job: bool = True,
) -> list[Became]:
    """The outcome of `apply` for these records of a sink; the same inline and, if `in_job`, in a job."""
    made: list[Records] = []

    def build(frame: DataFrame) -> DataFrame:
        done = apply(Records(frame, tuple(keys), tuple(values)))
        made.append(done)
        named = [c for c in done.frame.columns if c.startswith(("key_", "value_"))]
        columns = ["offset", "topic", "partition", "timestamp", "headers", "error", "drop", *named]
        return done.frame.select(*(F.col(name) for name in columns))

    schema = _row_type(keys, values)
    rows = pa.RecordBatch.from_pylist(
        [_row(number, one, keys, values) for number, one in enumerate(given)],
        schema=to_arrow_schema(schema, timezone="UTC"),
    )
    here = pool.compile(schema, build).run(rows).to_pylist()
    if in_job:
        frame = spark_session.createDataFrame(pa.Table.from_batches([rows]), schema).coalesce(1)
        assert repr(build(frame).toArrow().to_pylist()) == repr(here)
    assert [row["offset"] for row in here] == list(range(len(given)))
    return [_became(row, made[0]) for row in here]


def _row_type(keys: Sequence[Schema | None], values: Sequence[Schema | None]) -> spark.StructType:
    kind = spark.StructType().add("topic", "string").add("partition", "integer").add("offset", "long")
    kind = kind.add("timestamp", "long").add("headers", HEADERS).add("key_schema", "integer")
    kind = kind.add("value_schema", "integer")
    for name, schemas in (("key", keys), ("value", values)):
        for number, schema in enumerate(schemas):
            kind = kind.add(f"{name}_{number}", spark_type(schema))
    return kind.add("error", ERROR).add("drop", "boolean", nullable=False)


def _row(number: int, one: Given, keys: Sequence[Any], values: Sequence[Any]) -> dict[str, Any]:
    row = {
        "topic": one.topic,
        "partition": 3,
        "offset": number,
        "timestamp": one.timestamp,
        "headers": one.headers,
        "key_schema": one.key_of,
        "value_schema": one.of,
        "error": one.error,
        "drop": one.drop,
    }
    row |= {f"key_{n}": one.key if n == one.key_of else None for n in range(len(keys))}
    return row | {f"value_{n}": one.value if n == one.of else None for n in range(len(values))}


def _became(row: dict[str, Any], done: Records) -> Became:
    key, value = row["key_schema"], row["value_schema"]
    return Became(
        row["topic"],
        row["partition"],
        row["timestamp"],
        row["headers"],
        None if key is None else row[f"key_{key}"],
        None if key is None else done.keys[key],
        None if value is None else row[f"value_{value}"],
        None if value is None else done.values[value],
        None if row["error"] is None else row["error"]["message"],
        row["drop"],
        value is not None,
    )
