"""Records from a host as Arrow arrays, made from the buffers that `host/RecordColumns.java` wrote; nothing is copied.

Decided: the buffers of Arrow arrays and not Arrow's IPC format, because they need no arrow-java, netty and opened JDK
packages in the host, and Python makes arrays of them without a copy; loses: one more layout that both sides know.

Decided: columns and not JSON texts of the records; the docs of this room have the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.connectors.java.schemas import schema_of
from headrace.plugins.arrow_types import arrow_type_of
from headrace.plugins.interop.conversion.decode import VALUE_STAGE
from headrace.plugins.records import ERROR, HEADERS, Records, error
from headrace.plugins.schema import Schema, spark_type

ROUTING: Final = (
    spark.StructField("topic", spark.StringType()),
    spark.StructField("partition", spark.IntegerType()),
    spark.StructField("timestamp", spark.LongType()),
    spark.StructField("headers", HEADERS),
    spark.StructField("key_schema", spark.IntegerType()),
    spark.StructField("value_schema", spark.IntegerType()),
    spark.StructField("drop", spark.BooleanType()),
)
"""First columns; `drop`: the Java stage filtered the record."""
FAILURE: Final = (
    spark.StructField("message", spark.StringType()),
    spark.StructField("failed_stage", spark.StringType()),
    spark.StructField("failed_class", spark.StringType()),
)
"""Columns that follow if a record of the batch failed.

`message` has the error, in this stage and class of the host's chain; if these are null, the reason why the record could
not be carried.
"""
OFFSET: Final = pa.struct([("row", pa.int64())])
"""Offset of a row: its number among all that its task polled."""
_MOST_SHAPES: Final = 256
_MOST_TOGETHER: Final = 64
"""Maximum number of key schemas, or of value schemas, in one shape in addition to those of its first batch."""


@dataclass(frozen=True)
class BatchSchemas:
    """Schemas that the rows of a batch may have, with the numbers that the host gave them."""

    keys: Mapping[int, Schema | None]
    values: Mapping[int, Schema | None]
    has_failures: bool = False
    """True if records may have failed: most batches avoid the expressions for that, which cost a tenth of a text's."""

    def row_type(self) -> spark.StructType:
        """Return the columns of its rows, without their offset."""
        sides = (("key", self.keys), ("value", self.values))
        columns = [
            spark.StructField(f"{side}_{position}", spark_type(schema))
            for side, schemas in sides
            for position, schema in enumerate(schemas.values())
        ]
        return spark.StructType([*self._first, *columns])

    def records(self, frame: DataFrame, class_name: str) -> Records:
        """Return the records of a frame with these and any other columns.

        `class_name`: the class named in the error of a record that could not be carried.
        """
        own = {field.name for field in FAILURE} if self.has_failures else set()
        columns = [F.col(f"`{name}`") for name in frame.columns if name not in own]
        failed = _failed(class_name) if self.has_failures else F.lit(None).cast(ERROR)
        frame = frame.select(*columns, failed.alias("error"))
        return Records(frame, keys=tuple(self.keys.values()), values=tuple(self.values.values()))

    def covers(self, keys: Set[int], values: Set[int], has_failures: bool) -> bool:
        """True if it has the schemas of these numbers, and the columns of failures if they are needed."""
        return self.keys.keys() >= keys and self.values.keys() >= values and self.has_failures >= has_failures

    @property
    def size(self) -> tuple[int, bool]:
        """Sort key; smaller shapes have smaller programs."""
        return len(self.keys) + len(self.values), self.has_failures

    @property
    def _first(self) -> tuple[spark.StructField, ...]:
        return (*ROUTING, *FAILURE) if self.has_failures else ROUTING

    @cached_property
    def first_types(self) -> Mapping[str, pa.DataType]:
        """Types of the columns before those of keys and values."""
        return {field.name: _arrow(field.dataType) for field in self._first}

    @cached_property
    def sides(self) -> Mapping[str, _Side]:
        """Columns of keys and values; computed once, since a batch may have only one record."""
        return {"key": _Side.of(self.keys), "value": _Side.of(self.values)}


class _Side(NamedTuple):
    """Columns of a shape's keys, or of its values."""

    types: Mapping[int, pa.DataType]
    """By schema number."""
    positions: pa.Array | None
    """Position of each number among them; None: the number itself."""

    @classmethod
    def of(cls, schemas: Mapping[int, Schema | None]) -> _Side:
        types = {number: _arrow(spark_type(schema)) for number, schema in schemas.items()}
        if list(schemas) == list(range(len(schemas))):
            return cls(types, None)
        places = np.zeros(max(schemas) + 1, dtype=np.int32)
        places[list(schemas)] = np.arange(len(schemas), dtype=np.int32)
        return cls(types, pa.array(places))


class ToldShapes:
    """Schemas that a host has sent for one task, and the shapes made of them, by name.

    Decided: a batch with a new schema gets a shape of just its own schemas. A batch of known schemas that no shape has
    together gets a shape of all. Both because a program's compilation grows with its schemas (a snapshot of 25 tables
    took 47 s on a busy machine while each new table compiled all earlier ones anew); loses: one more program if a
    schema is new to a stream of many tables. Beyond `_MOST_TOGETHER` tables a stream of all of them has a program for
    each mixture that occurs.
    """

    def __init__(self) -> None:
        self._era = 0
        self._keys: list[Schema | None] = []
        self._values: list[Schema | None] = []
        self._shapes: dict[str, BatchSchemas] = {}
        """The most recently used are last."""

    def __getitem__(self, name: str) -> BatchSchemas:
        return self._shapes[name]

    def told(self, head: Mapping[str, Any]) -> str:
        """Return the name of the shape of a batch, whose head may have new schemas."""
        if head["era"] != self._era:
            self._era, self._keys, self._values = head["era"], [], []
        self._keys.extend(map(schema_of, head["keys"]))
        self._values.extend(map(schema_of, head["values"]))
        is_new = bool(head["keys"] or head["values"])
        name, shape = self._known(head) or self._made(head, is_new or self._are_many)
        self._shapes.pop(name, None)
        self._shapes[name] = shape
        if len(self._shapes) > _MOST_SHAPES:
            del self._shapes[next(iter(self._shapes))]
        return name

    @property
    def _are_many(self) -> bool:
        return max(len(self._keys), len(self._values)) > _MOST_TOGETHER

    def _known(self, head: Mapping[str, Any]) -> tuple[str, BatchSchemas] | None:
        """Return the smallest shape of this era with all schemas of a batch."""
        keys, values, era = set(head["key_columns"]), set(head["value_columns"]), f"{self._era}/"
        needed = keys, values, head["has_failures"]
        covering = [one for one in self._shapes.items() if one[0].startswith(era) and one[1].covers(*needed)]
        return min(covering, key=lambda one: one[1].size, default=None)

    def _made(self, head: Mapping[str, Any], has_own: bool) -> tuple[str, BatchSchemas]:
        """Make a shape of the batch's own schemas, or of all."""
        keys = head["key_columns"] if has_own else range(len(self._keys))
        values = head["value_columns"] if has_own else range(len(self._values))
        has_failures: bool = head["has_failures"]
        name = f"{self._era}/{','.join(map(str, keys))}/{','.join(map(str, values))}{'/failed' * has_failures}"
        return name, BatchSchemas(
            {at: self._keys[at] for at in keys}, {at: self._values[at] for at in values}, has_failures
        )


def _failed(class_name: str) -> Column:
    stage, of_class, message = (F.col(field) for field in ("failed_stage", "failed_class", "message"))
    in_chain = F.struct(stage.alias("stage"), of_class.alias("class"), message.alias("message"))
    return F.when(stage.isNotNull(), in_chain).otherwise(error(VALUE_STAGE, class_name, message))


def batch_of(data: bytearray, head: Mapping[str, Any], shape: BatchSchemas) -> pa.RecordBatch:
    """Return the rows in `data`, each with its number."""
    reader, rows, first = _Reader(pa.py_buffer(data)), head["rows"], head["first"]
    columns = {name: reader.array(of_type) for name, of_type in shape.first_types.items()}
    for side, (types, positions) in shape.sides.items():
        given = {number: reader.array(types[number]) for number in head[f"{side}_columns"]}
        if positions is not None:
            columns[f"{side}_schema"] = positions.take(columns[f"{side}_schema"])
        for position, (number, of_type) in enumerate(types.items()):
            columns[f"{side}_{position}"] = given[number] if number in given else pa.nulls(rows, of_type)
    numbers = pa.array(np.arange(first, first + rows, dtype=np.int64))
    columns["source_offset"] = pa.StructArray.from_arrays([numbers], names=["row"])
    return pa.RecordBatch.from_pydict(columns)


def _arrow(of_type: spark.DataType) -> pa.DataType:
    return arrow_type_of(of_type)


class _Reader:
    """Reads consecutive arrays."""

    def __init__(self, data: pa.Buffer) -> None:
        self._data = data
        self._words = memoryview(data)
        self._at = 0

    def array(self, of_type: Any) -> pa.Array:
        length, nulls, validity = self._word(), self._word(), self._buffer()
        known = validity if nulls else None
        if pa.types.is_struct(of_type):
            children = [self.array(of_type.field(number).type) for number in range(of_type.num_fields)]
            return self._made(of_type, length, [known], nulls, children)
        if pa.types.is_list(of_type):
            return self._made(of_type, length, [known, self._buffer()], nulls, [self.array(of_type.value_type)])
        if pa.types.is_map(of_type):
            ends = self._buffer()
            entries = self.array(pa.struct([of_type.key_field, of_type.item_field]))
            return self._made(of_type, length, [known, ends], nulls, [entries])
        varies = pa.types.is_string(of_type) or pa.types.is_binary(of_type)
        buffers = [self._buffer() for _ in range(2 if varies else 1)]
        return self._made(of_type, length, [known, *buffers], nulls, None)

    @staticmethod
    def _made(
        of_type: Any, length: int, buffers: Sequence[pa.Buffer | None], nulls: int, children: list[pa.Array] | None
    ) -> pa.Array:
        return pa.Array.from_buffers(of_type, length, list(buffers), nulls, 0, children)

    def _word(self) -> int:
        at, self._at = self._at, self._at + 8
        return int.from_bytes(self._words[at : at + 8], "little")

    def _buffer(self) -> pa.Buffer:
        length = self._word()
        at, self._at = self._at, (self._at + length + 7) // 8 * 8
        return self._data.slice(at, length)
