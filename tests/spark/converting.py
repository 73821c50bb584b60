"""Runs converters over Kafka's rows as a task does: what is unknown is resolved and read again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.plugins.contracts import Converter
from headrace.plugins.interop.conversion.decode import ConverterBinding, to_records
from headrace.plugins.records import HEADERS, Records
from headrace.plugins.schema import Schema
from headrace.worker.engine.inline import ProjectionPool

C = TypeVar("C", bound=Converter)
KAFKA_ROW = (
    StructType()
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("timestamp", "long")
    .add("headers", HEADERS)
    .add("key", "binary")
    .add("value", "binary")
)


def configured(made: C, settings: Mapping[str, str] | None = None) -> C:
    """The converter, configured for values."""
    made.configure({"converter.type": "value", **(settings or {})}, is_key=False)
    return made


def kafka_rows(spark: SparkSession, pairs: Sequence[tuple[bytes | None, bytes | None]]) -> DataFrame:
    """Rows of topic `t`, partition 0, with these keys and values at offsets 0, 1, …"""
    rows = [("t", 0, offset, 1000 + offset, None, key, value) for offset, (key, value) in enumerate(pairs)]
    return spark.createDataFrame(rows, KAFKA_ROW).coalesce(1)


def learned(
    rows: DataFrame, key: ConverterBinding, value: ConverterBinding
) -> tuple[Records, ConverterBinding, ConverterBinding]:
    """The rows as records once every identity in them is known."""
    for _ in range(5):
        records = to_records(rows, key, value)
        wanted = records.frame.select("unknown_key", "unknown_value").distinct().collect()
        keys = {bytes(row.unknown_key) for row in wanted if row.unknown_key is not None}
        values = {bytes(row.unknown_value) for row in wanted if row.unknown_value is not None}
        if not keys and not values:
            return records, key, value
        key, value = (
            side.learned([(identity, "t") for identity in sorted(met)]) for side, met in ((key, keys), (value, values))
        )
    raise AssertionError(f"still unknown: {keys} {values}")


@dataclass
class Read:
    """The outcome of reading a value."""

    schema: Schema | None
    value: Any
    error: str | None


def read(spark: SparkSession, converter: Converter, documents: Sequence[bytes]) -> list[Read]:
    """Each document as the converter reads it."""
    rows = kafka_rows(spark, [(None, document) for document in documents])
    records, *_ = learned(rows, ConverterBinding(converter, "K"), ConverterBinding(converter, "V"))
    return [_read(records, row) for row in sorted(records.frame.collect(), key=lambda row: int(row.offset))]


def _read(records: Records, row: Any) -> Read:
    if row.error is not None:
        return Read(None, None, row.error.message)
    value = row[f"value_{row.value_schema}"]
    return Read(records.values[row.value_schema], bytes(value) if isinstance(value, bytearray) else value, None)


class _OneSession:
    """The part of the worker's Spark that a pool needs."""

    generation = 1

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    @contextlib.contextmanager
    def using(self) -> Iterator[SparkSession]:
        """The session."""
        yield self._session


def compiled(
    spark: SparkSession, schema: StructType, build: Callable[[DataFrame], DataFrame], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The answer of `build` for these rows inline, without a Spark job."""
    pool = ProjectionPool(_OneSession(spark), lanes=1)  # type: ignore[arg-type]
    try:
        batch = pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=to_arrow_schema(schema, timezone="UTC"))
        answer: list[dict[str, Any]] = pool.compile(schema, build).run(batch).to_pylist()
        return answer
    finally:
        pool.stop()
