"""The calls of an author's `change`, `matches` and the like, for the rows of a batch; all of it is picklable."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from headrace.plugins.arrow_types import arrow_schema_of
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.interop.catalyst.arrow_functions import ArrowFunction
from headrace.plugins.record_api.columns import KINDS, Side
from headrace.plugins.record_api.packing import NOTHING, Packed, packed_by_kind
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.rows import HEADERS_ARROW, Row, own_parts
from headrace.plugins.record_api.schemas import schema_of
from headrace.plugins.record_api.unpacking import each_record
from headrace.plugins.records import HEADERS
from headrace.plugins.schema import Schema, SchemaType, spark_type

ANSWER: Final = "_answer"
"""Column of what the author's method made of each row; null for rows that it did not get."""
APPLIES: Final = "_applies"
"""Column: true for rows that the method gets."""
OWN: Final = {"topic": spark.StringType(), "partition": spark.IntegerType(), "timestamp": spark.LongType(),
              "headers": HEADERS}  # fmt: skip


def called(
    given: DataFrame, answer: spark.StructType, call: Callable[[pa.RecordBatch], pa.Array]
) -> tuple[DataFrame, ArrowFunction]:
    """Return a frame with the column `ANSWER`, which the call makes of a batch; and the function, to be kept.

    Until the frame is compiled the function is found by its name, while it is referenced.
    """
    made = spark.StructType([*given.schema.fields, spark.StructField(ANSWER, answer)])
    function = ArrowFunction(_Extended(call, arrow_schema_of(made)))
    return given.mapInArrow(function, made), function


@dataclass(frozen=True)
class _Extended:
    """Adds a column to a batch; picklable."""

    call: Callable[[pa.RecordBatch], pa.Array]
    gives: pa.Schema

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        made = self.call(rows)
        arrays = [rows.column(name) for name in self.gives.names[:-1]]
        return pa.RecordBatch.from_arrays([*arrays, made.cast(self.gives.types[-1])], names=self.gives.names)


@dataclass(frozen=True)
class Schemas:
    """The schemas of one side: those before a transform, and those that it adds."""

    before: tuple[Schema | None, ...]
    after: tuple[Schema | None, ...]
    is_declared: bool

    @classmethod
    def of(cls, before: tuple[Schema | None, ...], declared: Any) -> Schemas:
        added = KINDS if declared is None else (schema_of(declared),)
        return cls(before, (*before, *added), declared is not None)

    def side(self) -> Side:
        return Side(self.after)

    def packed(self, side: Side, value: Any, before: int | None) -> Packed:
        """Make a value ready whose record had the schema of this number. Errors: DataError."""
        if value is None:
            return NOTHING
        added = len(self.before)
        if self.is_declared:
            return side.pack(value, added)
        own = None if before is None else self.before[before]
        if before is None or (own in _TEXTS and not isinstance(value, _TEXTS[own])):
            return packed_by_kind(value, added)
        return side.pack(value, before)


_TEXTS: Final = {
    Schema(kind, optional): of
    for kind, of in ((SchemaType.STRING, str), (SchemaType.BYTES, bytes))
    for optional in (False, True)
}
"""The schemas whose values may become others, and Python's type of theirs."""


def answer_of(keys: Schemas, values: Schemas) -> spark.StructType:
    answer = spark.StructType().add("dropped", spark.BooleanType()).add("failure", spark.StringType())
    for name, kind in OWN.items():
        answer.add(name, kind)
    for name, side in (("key", keys), ("value", values)):
        answer.add(f"{name}_schema", spark.IntegerType())
        for number, schema in enumerate(side.after):
            answer.add(f"{name}_{number}", spark_type(schema))
    return answer


@dataclass(frozen=True)
class Changes:
    """Calls `change` for the rows of a batch that a transform applies to; picklable."""

    plugin: Any
    keys: Schemas
    values: Schemas
    answer: spark.StructType

    def __reduce__(self) -> tuple[Any, ...]:
        return _changes, (type(self.plugin), dict(self.plugin.config), self.keys, self.values, self.answer)

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        applies = rows.column(APPLIES).to_pylist()
        chosen = rows.filter(pa.array([bool(one) for one in applies]))
        keys, values = self.keys.side(), self.values.side()
        made = [
            self._row(record, before, keys, values)
            for record, before in zip(
                each_record(chosen, self.keys.before, self.values.before), _numbers(chosen), strict=True
            )
        ]
        key_columns, bad_keys = keys.columns([one.key for one in made])
        value_columns, bad_values = values.columns([one.value for one in made])
        failures = [one.failure for one in made]
        for name, faults in (("key", bad_keys), ("value", bad_values)):
            for row, why in faults.items():
                failures[row] = f"the {name} that change returned does not fit: {why}"
        columns = [
            pa.array([one.topic is None and one.failure is None for one in made], pa.bool_()),
            pa.array(failures, pa.string()),
            pa.array([one.topic for one in made], pa.string()),
            pa.array([one.partition for one in made], pa.int32()),
            pa.array([one.timestamp for one in made], pa.int64()),
            pa.array([one.headers for one in made], HEADERS_ARROW),
            *key_columns,
            *value_columns,
        ]
        return _scattered(pa.StructArray.from_arrays(columns, names=self.answer.names), applies)

    def _row(self, record: Record | str, before: tuple[int | None, int | None], keys: Side, values: Side) -> Row:
        if isinstance(record, str):
            return _failed(record)
        try:
            changed = self.plugin.change(record)
            if changed is None:
                return _failed(None)
            if not isinstance(changed, Record):
                raise TypeError(f"change returned a {type(changed).__name__}; it has to return a Record, or None")
            key = self.keys.packed(keys, changed.key, before[0])
            value = self.values.packed(values, changed.value, before[1])
            return Row(changed.topic or record.topic, *own_parts(changed), key, value, None)
        except RetriableError:
            raise
        except DataError as fault:
            return _failed(str(fault))
        except Exception as fault:
            return _failed(told(fault))


def _failed(why: str | None) -> Row:
    """Return the row of a record that failed; or, without a reason, of one that is left out."""
    return Row(None, None, None, None, NOTHING, NOTHING, None, why)


def _changes(kind: type[Any], config: Mapping[str, Any], *parts: Any) -> Changes:
    return Changes(_made(kind, config), *parts)


@dataclass(frozen=True)
class Matches:
    """Calls `matches` for the rows of a batch; picklable."""

    plugin: Any
    keys: tuple[Schema | None, ...]
    values: tuple[Schema | None, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _matches, (type(self.plugin), dict(self.plugin.config), self.keys, self.values)

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        applies = rows.column(APPLIES).to_pylist()
        chosen = rows.filter(pa.array([bool(one) for one in applies]))
        answers = [self._answer(record) for record in each_record(chosen, self.keys, self.values)]
        matches = pa.array([one for one, _ in answers], pa.bool_())
        made = pa.StructArray.from_arrays(
            [matches, pa.array([why for _, why in answers], pa.string())], names=["matches", "failure"]
        )
        return _scattered(made, applies)

    def _answer(self, record: Record | str) -> tuple[bool, str | None]:
        if isinstance(record, str):
            return False, record
        try:
            return bool(self.plugin.matches(record)), None
        except RetriableError:
            raise
        except Exception as fault:
            return False, told(fault)


def _matches(kind: type[Any], config: Mapping[str, Any], *parts: Any) -> Matches:
    return Matches(_made(kind, config), *parts)


def _made(kind: type[Any], config: Mapping[str, Any]) -> Any:
    made = kind()
    made.config = config
    return made


def _numbers(rows: pa.RecordBatch) -> list[tuple[int | None, int | None]]:
    return list(zip(rows.column("key_schema").to_pylist(), rows.column("value_schema").to_pylist(), strict=True))


def _scattered(made: pa.Array, applies: Sequence[bool | None]) -> pa.Array:
    """Return the rows at the places to which they apply; null at all others."""
    if len(made) == len(applies):
        return made
    places, at = [], 0
    for one in applies:
        places.append(at if one else None)
        at += bool(one)
    return made.take(pa.array(places, pa.int64()))


def told(fault: Exception) -> str:
    """Return an author's error as a record's failure: what it is, and where it was raised."""
    frames = traceback.extract_tb(fault.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(fault).__name__}: {fault}{where}"
