"""Records of a source's rows by the names of their columns, so that types are stated once, in Arrow's."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.plugins.arrow_schemas import schema_of_arrow
from headrace.plugins.records import Records, source_records
from headrace.plugins.schema import Schema, spark_type

_ROUTING: Final = ("topic", "key", "partition", "timestamp", "headers")


def records_by_name(frame: DataFrame, row_type: pa.Schema, topics: Sequence[str]) -> Records:
    """Return records of rows of this type.

    The columns `topic`, `key`, `value`, `partition`, `timestamp` and `headers` become these parts of a record. Without
    a column `value`, all others together are its value, a struct. Without a column `topic` there is one topic.

    Errors: TypeError for types that Connect or Spark lacks; ValueError if there are several topics and
    rows do not tell theirs.
    """
    if "topic" not in row_type.names and len(topics) != 1:
        raise ValueError(
            f"A source of {len(topics)} topics does not say which is a row's: return one topic from `topics`, or add "
            "the column `topic` to `row_type`"
        )
    if timed := [field.name for field in row_type if _has_time(field.type)]:
        raise TypeError(f"Spark carries no time of day ({', '.join(timed)}); write int32, milliseconds of the day")
    names = [name for name in row_type.names if name not in _ROUTING]
    whole = pa.struct([row_type.field(name) for name in names])
    parts = {name: F.col(name) for name in ("partition", "timestamp", "headers") if name in row_type.names}
    key, key_schema = _column(row_type.field("key")) if "key" in row_type.names else (None, None)
    if "value" in row_type.names:
        value, schema = _column(row_type.field("value"))
    else:
        schema = schema_of_arrow(whole, "row_type")
        value = F.struct(*(F.col(f"`{name}`") for name in names)).cast(spark_type(schema))
    topic = F.col("topic") if "topic" in row_type.names else F.lit(topics[0])
    return source_records(frame, topic, value, schema, key=key, key_schema=key_schema, **parts)


def _has_time(kind: pa.DataType) -> bool:
    return pa.types.is_time(kind) or any(_has_time(kind.field(number).type) for number in range(kind.num_fields))


def _column(field: pa.Field) -> tuple[Column, Schema]:
    schema = dataclasses.replace(schema_of_arrow(field.type, field.name), optional=field.nullable)
    return F.col(field.name).cast(spark_type(schema)), schema
