"""What flows through the pipe: a Spark frame, and beside it the Connect schemas of its keys and values.

Columns of a `Records` frame:

| column | type | |
|---|---|---|
| `topic` | string | where the record comes from (sink) or goes to (source) |
| `partition` | int | null: the producer's partitioner decides |
| `timestamp` | long | ms since the epoch; null: the client's clock when it is sent |
| `headers` | array<struct<key: string, value: binary>> | raw, null where there are none |
| `key_schema`, `value_schema` | int | index into `keys`, `values`; null: a null without schema (a tombstone) |
| `key_0` …, `value_0` … | by schema | one column a schema; a row's own is the one its index names |
| `error` | struct<stage: string, class: string, message: string> | null for a good row |
| `drop` | boolean | true: filtered out |

Anything else in the frame (a sink's `offset`, a source's `source_offset` and `split`) is carried through unchanged.

Decided: rows of several schemas stand side by side in one frame, a column a schema, because then no row ever moves:
order needs no sorting, a row's answer stands where the row stood, and a batch of one schema costs nothing for it;
loses: a frame of many wide schemas has many columns (mostly null).

Decode and transforms never raise for data: a bad row stays in place with `error` set, a filtered one with `drop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.plugins.schema import Schema

HEADERS = spark.ArrayType(
    spark.StructType([spark.StructField("key", spark.StringType()), spark.StructField("value", spark.BinaryType())])
)
ERROR = spark.StructType(
    [
        spark.StructField("stage", spark.StringType()),
        spark.StructField("class", spark.StringType()),
        spark.StructField("message", spark.StringType()),
    ]
)


@dataclass(frozen=True)
class Records:
    """A frame of records with the schemas its columns `key_<i>` and `value_<i>` have; None is a schemaless value."""

    frame: DataFrame
    keys: tuple[Schema | None, ...]
    values: tuple[Schema | None, ...]

    def key(self, index: int) -> Column:
        """The keys of schema `index`."""
        return F.col(f"key_{index}")

    def value(self, index: int) -> Column:
        """The values of schema `index`."""
        return F.col(f"value_{index}")

    def with_frame(self, frame: DataFrame) -> Records:
        """These records in another frame of the same schemas."""
        return replace(self, frame=frame)


def source_records(frame: DataFrame, topic: Column, value: Column, schema: Schema, *carried: str) -> Records:
    """Records as a source without keys, headers and timestamps makes them from its reader's rows.

    `carried` names further columns of `frame` to keep; `source_offset` and `split` are kept in any case.
    """
    columns = [
        topic.alias("topic"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("long").alias("timestamp"),
        F.lit(None).cast(HEADERS).alias("headers"),
        F.lit(None).cast("int").alias("key_schema"),
        F.lit(0).alias("value_schema"),
        value.alias("value_0"),
        F.lit(None).cast(ERROR).alias("error"),
        F.lit(False).alias("drop"),
        *(F.col(name) for name in ("source_offset", "split", *carried)),
    ]
    return Records(frame.select(*columns), keys=(), values=(schema,))


def error(stage: str, class_name: str, message: Column) -> Column:
    """An `error` value: null where `message` is null."""
    made = F.struct(F.lit(stage).alias("stage"), F.lit(class_name).alias("class"), message.alias("message"))
    return F.when(message.isNotNull(), made)


def first_error(errors: Sequence[Column]) -> Column:
    """The first of these `error` columns that is set."""
    return F.coalesce(*errors, F.lit(None).cast(ERROR))
