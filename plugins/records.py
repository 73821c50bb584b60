"""Records between source and Kafka, or Kafka and sink: a Spark frame with the Connect schemas of its keys and values.

Columns of a `Records` frame:

| column | type | |
|---|---|---|
| `topic` | string | origin (sink) or destination (source) |
| `partition` | int | null: the producer's partitioner decides |
| `timestamp` | long | ms since the epoch; null: the client's clock at sending |
| `headers` | array<struct<key: string, value: binary>> | raw, null if there are none |
| `key_schema`, `value_schema` | int | index into `keys`, `values`; null: a null without schema (a tombstone) |
| `key_0` …, `value_0` … | by schema | one column for each schema; the row's index names its column |
| `error` | struct<stage: string, class: string, message: string> | null for a good row |
| `drop` | boolean | true: filtered out |

Other columns (a sink's `offset`, a source's `source_offset` and `split`) pass through unchanged. A sink's frame has
`fetched_headers` beside `header_values`: its headers before all transforms. A source's frame may have `as_read`: the
row as it was read, as text. It replaces the value in the dead letter of a bad row whose value could not hold what was
read.

Decided: rows of several schemas share one frame with a column for each schema, because no row then moves: order needs
no sorting, a row's result is in the row's place, and a batch of one schema pays nothing; loses: a frame of many wide
schemas has many columns (mostly null).

Decided: a header's value stays in the bytes of the task's header converter, because bytes that are never read cannot be
misread and cost nothing; loses: a value that a sink's transform puts into a header reaches the sink with the type that
the converter reads back (SimpleHeaderConverter makes an int8 of an int32 5).

Decoding and transforms never raise for data: a bad row stays in place with `error` set, a filtered one with `drop`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.plugins.schema import Schema, spark_type

AS_READ: Final = "as_read"
FETCHED_HEADERS: Final = "fetched_headers"
TRANSFORMATION: Final = "TRANSFORMATION"
"""Stage of errors found by transforms."""
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


class HeaderValues(NamedTuple):
    """Values of a sink's headers, which all have one schema."""

    schema: Schema
    read: Callable[[Column], tuple[Column, Column]]
    """Returns the value of non-null bytes, and why there is none, evaluated only for a null value."""


class Case(NamedTuple):
    """New keys or values for some rows."""

    value: Column
    schema: Schema | None
    """Schema of the new value; None: schemaless, as JSON text."""
    of: int | None = None
    """Restricts to rows whose key or value now has the schema of this index; None: only `holds` decides."""
    holds: Column | None = None
    """Restricts to rows for which this is true (not null); may use any column of the frame."""


@dataclass(frozen=True)
class Records:
    """A frame of records with the schemas of its columns `key_<i>` and `value_<i>`; None is a schemaless value."""

    frame: DataFrame
    keys: tuple[Schema | None, ...]
    values: tuple[Schema | None, ...]
    applies: Column | None = None
    """Rows that a transform is to change, by its predicate; None: all. `changed` obeys it."""
    by: str = ""
    """Class name of the transform at work, for errors."""
    header_bytes: Callable[[Column, Schema | None], tuple[Column, Column]] | None = None
    """Returns a value's bytes by the task's header converter, and the error (null if there is none).

    `headers` holds such bytes.
    """
    header_values: HeaderValues | None = None
    """Reads the values of `fetched_headers`; None if their types are not known beforehand."""

    def key(self, index: int) -> Column:
        """Return the column of the keys of schema `index`."""
        return F.col(f"key_{index}")

    def value(self, index: int) -> Column:
        """Return the column of the values of schema `index`."""
        return F.col(f"value_{index}")

    def of_keys(self, make: Callable[[Column, Schema | None], Column]) -> Column:
        """As `of_values`, of the keys."""
        return self._by_schema("key", self.keys, make)

    def of_values(self, make: Callable[[Column, Schema | None], Column]) -> Column:
        """Return one column: each row's value as `make` has it by the schema of that value.

        `make` is called once for each schema, and its columns must be of one type. Null for a null without schema.
        """
        return self._by_schema("value", self.values, make)

    def _by_schema(
        self, side: str, schemas: Sequence[Schema | None], make: Callable[[Column, Schema | None], Column]
    ) -> Column:
        made = [
            F.when(F.col(f"{side}_schema") == index, make(F.col(f"{side}_{index}"), schema))
            for index, schema in enumerate(schemas)
        ]
        return F.coalesce(*made, F.lit(None))

    def with_frame(self, frame: DataFrame) -> Records:
        """Return these records with another frame of the same schemas."""
        return replace(self, frame=frame)

    def changed(
        self,
        columns: Mapping[str, Column] | None = None,
        *,
        keys: Sequence[Case] = (),
        values: Sequence[Case] = (),
        message: Column | None = None,
        drop: Column | None = None,
    ) -> Records:
        """Return these records with other `columns` (`topic`, `partition`, `timestamp`, `headers`), keys and values.

        The first case that holds for a row decides; a row of no case keeps what it has. A case for all rows of a schema
        replaces the schema. A case that keeps the schema stays in its column. Any other case adds a schema; cases with
        equal schemas share one. A row with a `message` (string, null for none) fails, and one with `drop` (boolean) is
        filtered; it stays so, though later transforms may still change its columns. All columns are computed from the
        current frame.
        """
        changes = dict(columns or {})
        key_schemas = self._side("key", self.keys, keys, changes)
        value_schemas = self._side("value", self.values, values, changes)
        if message is not None:
            found = self._chosen(error(TRANSFORMATION, self.by, message))
            changes["error"] = F.when(F.col("error").isNull() & ~F.col("drop"), found).otherwise(F.col("error"))
        if drop is not None:
            changes["drop"] = F.col("drop") | F.coalesce(self._chosen(drop), F.lit(False))
        for name in (columns or {}).keys() & _ROUTING:
            if self.applies is not None:
                changes[name] = F.when(self.applies, changes[name]).otherwise(F.col(name))
        kept = [F.col(f"`{name}`") for name in self.frame.columns if name not in changes]
        frame = self.frame.select(*kept, *(column.alias(name) for name, column in changes.items()))
        return replace(self, frame=frame, keys=key_schemas, values=value_schemas)

    def _chosen(self, column: Column) -> Column:
        return column if self.applies is None else F.when(self.applies, column)

    def _side(
        self, name: str, schemas: tuple[Schema | None, ...], cases: Sequence[Case], changes: dict[str, Column]
    ) -> tuple[Schema | None, ...]:
        """Return the side's schemas after the cases; adds their columns and any changed index to `changes`."""
        if not cases:
            return schemas
        after, index = list(schemas), F.col(f"{name}_schema")
        made: dict[int, Any] = {}
        numbers: Any = F
        for value, schema, of, holds in cases:
            cast = value.cast(spark_type(schema))
            if of is not None and holds is None and self.applies is None:
                after[of] = schema
                changes[f"{name}_{of}"] = cast
                continue
            if of is not None and schema == schemas[of]:
                number = of
            elif schema in after[len(schemas) :]:
                number = after.index(schema, len(schemas))
            else:
                number = len(after)
                after.append(schema)
            where = _all(self.applies, holds, None if of is None else index == of)
            made[number] = made.get(number, F).when(where, cast)
            numbers = numbers.when(where, F.lit(number))
        for number, chosen in made.items():
            column = f"{name}_{number}"
            changes[column] = chosen.otherwise(F.col(column)) if number < len(schemas) else chosen
        if len(after) > len(schemas):
            changes[f"{name}_schema"] = numbers.otherwise(index)
        return tuple(after)


_ROUTING: Final = {"topic", "partition", "timestamp", "headers"}


def _all(*conditions: Column | None) -> Column:
    """Combine by AND; null counts as false."""
    together = F.lit(True)
    for condition in conditions:
        together = together if condition is None else together & F.coalesce(condition, F.lit(False))
    return together


def source_records(
    frame: DataFrame,
    topic: Column,
    value: Column,
    schema: Schema | None,
    *carried: str,
    key: Column | None = None,
    key_schema: Schema | None = None,
    partition: Column | None = None,
    timestamp: Column | None = None,
    headers: Column | None = None,
) -> Records:
    """Return records of a source's rows, without the parts that are None.

    `carried` names further columns of `frame` to keep; `source_offset` and `split` are always kept. `key_schema` None:
    keys are schemaless, as JSON text.
    """
    nothing = F.lit(None)
    keys = [] if key is None else [key.alias("key_0")]
    columns = [
        topic.alias("topic"),
        (nothing if partition is None else partition).cast("int").alias("partition"),
        (nothing if timestamp is None else timestamp).cast("long").alias("timestamp"),
        (nothing if headers is None else headers).cast(HEADERS).alias("headers"),
        (nothing if key is None else F.lit(0)).cast("int").alias("key_schema"),
        *keys,
        F.lit(0).alias("value_schema"),
        value.alias("value_0"),
        F.lit(None).cast(ERROR).alias("error"),
        F.lit(False).alias("drop"),
        *(F.col(name) for name in ("source_offset", "split", *carried)),
    ]
    return Records(frame.select(*columns), keys=(key_schema,) if keys else (), values=(schema,))


def error(stage: str, class_name: str, message: Column) -> Column:
    """Return an `error` column: null if `message` is null."""
    made = F.struct(F.lit(stage).alias("stage"), F.lit(class_name).alias("class"), message.alias("message"))
    return F.when(message.isNotNull(), made)


def first_error(errors: Sequence[Column]) -> Column:
    """Return the first of these `error` columns that is set."""
    return F.coalesce(*errors, F.lit(None).cast(ERROR))
