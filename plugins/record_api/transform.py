"""Transforms and predicates over records: a method called once for each record, between the expressions of a batch.

Decided: the methods are `change` and `matches`, because `apply` and `test` are the contract's, which get batches. A
transform gives one record for each, since a record's place in its batch is its place in its partition; loses: a record
that becomes several.
"""

from __future__ import annotations

import traceback
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.config.settings import Settings
from headrace.plugins.arrow_types import arrow_schema_of
from headrace.plugins.contracts import Predicate, Transform
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.interop.catalyst.arrow_functions import ArrowFunction
from headrace.plugins.record_api.columns import KINDS, Side
from headrace.plugins.record_api.packing import NOTHING, Packed, packed_by_kind
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.rows import HEADERS_ARROW, Row, own_parts
from headrace.plugins.record_api.schemas import schema_of
from headrace.plugins.record_api.settings import declared, parsed
from headrace.plugins.record_api.unpacking import records_in
from headrace.plugins.records import HEADERS, TRANSFORMATION, Records, error
from headrace.plugins.schema import Schema, SchemaType, spark_type

MATCHES: Final = "_matches"
"""Column of what a predicate over records answered; for the next transform alone."""
_CHANGED: Final = "_changed"
_APPLIES: Final = "_applies"
_OWN: Final = {"topic": spark.StringType(), "partition": spark.IntegerType(), "timestamp": spark.LongType(),
               "headers": HEADERS}  # fmt: skip


class RecordTransform(Transform):
    """A transform whose `change` is called for each record.

        class Upper(RecordTransform):
            settings = [Setting("field")]

            def change(self, record):
                record.value[self.config["field"]] = record.value[self.config["field"]].upper()
                return record

    A value keeps its schema and has to fit it; `value_schema` declares another one. A text, bytes or a tombstone that
    becomes something else is what it is, a dict JSON without schema. An error fails the record; after a RetriableError
    the batch is tried again. Several tasks, threads and processes have objects of their own.
    """

    settings: ClassVar[Any] = ()
    """A list of `Setting`."""
    version: ClassVar[str] = "undefined"
    value_schema: ClassVar[Any] = None
    """What `schema_of` takes; None: the schema that the value had."""
    key_schema: ClassVar[Any] = None
    """As `value_schema`, of keys."""

    config: Mapping[str, Any]
    """The values of `settings`, parsed."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if not isinstance(cls.settings, Settings):
            cls.settings = declared(cls.settings)

    @abstractmethod
    def change(self, record: Record) -> Record | None:
        """Return the record changed, or another one; None: it is left out."""

    # -- the contract's side -------------------------------------------------------------------------------------------

    def configure(self, config: Mapping[str, str]) -> None:
        """Parse the settings. Errors: ConfigError with all problems."""
        self.config = parsed(type(self).settings, config)
        self._kept: list[ArrowFunction] = []

    def apply(self, records: Records) -> Records:
        """Return the records as `change` gives them."""
        keys, values = _Schemas.of(records.keys, self.key_schema), _Schemas.of(records.values, self.value_schema)
        alive = F.col("error").isNull() & ~F.col("drop")
        given = records.frame.withColumn(_APPLIES, alive if records.applies is None else alive & records.applies)
        answer = _answer(keys, values)
        frame = _called(self, given, answer, _Changes(self, keys, values, answer)).drop(_APPLIES)
        made, ran = F.col(_CHANGED), F.col(_CHANGED).isNotNull()
        columns = {name: F.when(ran, made.getField(name)).otherwise(_own(records, name)) for name in answer.names[2:]}
        failed = error(TRANSFORMATION, records.by, made.getField("failure"))
        columns["topic"] = F.coalesce(columns["topic"], F.col("topic"))
        columns["error"] = F.coalesce(F.when(ran, failed), F.col("error"))
        columns["drop"] = F.col("drop") | F.coalesce(made.getField("dropped"), F.lit(False))
        others = [F.col(f"`{name}`") for name in records.frame.columns if name not in columns]
        changed = frame.select(*others, *(column.alias(name) for name, column in columns.items()))
        return replace(records, frame=changed, keys=keys.after, values=values.after)


class RecordPredicate(Predicate):
    """A predicate whose `matches` is called for each record; settings as `RecordTransform`."""

    settings: ClassVar[Any] = ()
    version: ClassVar[str] = "undefined"
    config: Mapping[str, Any]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if not isinstance(cls.settings, Settings):
            cls.settings = declared(cls.settings)

    @abstractmethod
    def matches(self, record: Record) -> bool:
        """Return True for a record to which the transform applies. An error fails the record."""

    # -- the contract's side -------------------------------------------------------------------------------------------

    def configure(self, config: Mapping[str, str]) -> None:
        """Parse the settings. Errors: ConfigError with all problems."""
        self.config = parsed(type(self).settings, config)
        self._kept: list[ArrowFunction] = []

    def asked(self, records: Records) -> Records:
        """Return the records with the column `MATCHES`; called before `test`."""
        given = records.frame.withColumn(_APPLIES, F.col("error").isNull() & ~F.col("drop"))
        answer = spark.StructType().add("matches", spark.BooleanType()).add("failure", spark.StringType())
        frame = _called(self, given, answer, _Matches(self, records.keys, records.values)).drop(_APPLIES)
        told = records.with_frame(frame.withColumnRenamed(_CHANGED, MATCHES))
        return told.changed(message=F.col(MATCHES).getField("failure"))

    def test(self, records: Records) -> Column:
        """Return what `matches` answered."""
        return F.col(MATCHES).getField("matches")


def _called(plugin: Any, given: Any, answer: spark.StructType, call: Callable[[pa.RecordBatch], pa.Array]) -> Any:
    """Return a frame with the column `_CHANGED`, which the call makes of a batch."""
    made = spark.StructType([*given.schema.fields, spark.StructField(_CHANGED, answer)])
    function = ArrowFunction(_Extended(call, arrow_schema_of(made)))
    plugin._kept = [*plugin._kept[-8:], function]  # found by name while it is referenced
    return given.mapInArrow(function, made)


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
class _Schemas:
    """The schemas of one side: those before a transform, and those that it adds."""

    before: tuple[Schema | None, ...]
    after: tuple[Schema | None, ...]
    is_declared: bool

    @classmethod
    def of(cls, before: tuple[Schema | None, ...], declared: Any) -> _Schemas:
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


def _answer(keys: _Schemas, values: _Schemas) -> spark.StructType:
    answer = spark.StructType().add("dropped", spark.BooleanType()).add("failure", spark.StringType())
    for name, kind in _OWN.items():
        answer.add(name, kind)
    for name, side in (("key", keys), ("value", values)):
        answer.add(f"{name}_schema", spark.IntegerType())
        for number, schema in enumerate(side.after):
            answer.add(f"{name}_{number}", spark_type(schema))
    return answer


def _own(records: Records, name: str) -> Column:
    return F.col(name) if name in records.frame.columns else F.lit(None)


@dataclass(frozen=True)
class _Changes:
    """Calls `change` for the rows of a batch that a transform applies to; picklable."""

    plugin: RecordTransform
    keys: _Schemas
    values: _Schemas
    answer: spark.StructType

    def __reduce__(self) -> tuple[Any, ...]:
        return _changes, (type(self.plugin), dict(self.plugin.config), self.keys, self.values, self.answer)

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        applies = rows.column(_APPLIES).to_pylist()
        chosen = rows.filter(pa.array([bool(one) for one in applies]))
        keys, values = self.keys.side(), self.values.side()
        made = [
            self._row(record, before, keys, values)
            for record, before in zip(
                records_in(chosen, self.keys.before, self.values.before), _numbers(chosen), strict=True
            )
        ]
        key_columns, bad_keys = keys.columns([one.key for one in made])
        value_columns, bad_values = values.columns([one.value for one in made])
        failures = [one.failure for one in made]
        for name, faults in (("key", bad_keys), ("value", bad_values)):
            for row, why in faults.items():
                failures[row] = f"the {name} that change returned does not fit: {why}"
        columns = [
            pa.array([one.topic is None for one in made], pa.bool_()),
            pa.array(failures, pa.string()),
            pa.array([one.topic for one in made], pa.string()),
            pa.array([one.partition for one in made], pa.int32()),
            pa.array([one.timestamp for one in made], pa.int64()),
            pa.array([one.headers for one in made], HEADERS_ARROW),
            *key_columns,
            *value_columns,
        ]
        return _scattered(pa.StructArray.from_arrays(columns, names=self.answer.names), applies)

    def _row(self, record: Record, before: tuple[int | None, int | None], keys: Side, values: Side) -> Row:
        try:
            changed = self.plugin.change(record)
            if changed is None:
                return Row(None, None, None, None, NOTHING, NOTHING, None)
            if not isinstance(changed, Record):
                raise TypeError(f"change returned a {type(changed).__name__}; it has to return a Record, or None")
            key = self.keys.packed(keys, changed.key, before[0])
            value = self.values.packed(values, changed.value, before[1])
            return Row(changed.topic or record.topic, *own_parts(changed), key, value, None)
        except RetriableError:
            raise
        except DataError as fault:
            return Row(record.topic, None, None, None, NOTHING, NOTHING, None, str(fault))
        except Exception as fault:
            return Row(record.topic, None, None, None, NOTHING, NOTHING, None, told(fault))


def _changes(kind: type[RecordTransform], config: Mapping[str, Any], *parts: Any) -> _Changes:
    return _Changes(_made(kind, config), *parts)


@dataclass(frozen=True)
class _Matches:
    """Calls `matches` for the rows of a batch; picklable."""

    plugin: RecordPredicate
    keys: tuple[Schema | None, ...]
    values: tuple[Schema | None, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _matches, (type(self.plugin), dict(self.plugin.config), self.keys, self.values)

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        applies = rows.column(_APPLIES).to_pylist()
        chosen = rows.filter(pa.array([bool(one) for one in applies]))
        answers = [self._answer(record) for record in records_in(chosen, self.keys, self.values)]
        matches = pa.array([one for one, _ in answers], pa.bool_())
        made = pa.StructArray.from_arrays(
            [matches, pa.array([why for _, why in answers], pa.string())], names=["matches", "failure"]
        )
        return _scattered(made, applies)

    def _answer(self, record: Record) -> tuple[bool, str | None]:
        try:
            return bool(self.plugin.matches(record)), None
        except RetriableError:
            raise
        except Exception as fault:
            return False, told(fault)


def _matches(kind: type[RecordPredicate], config: Mapping[str, Any], *parts: Any) -> _Matches:
    return _Matches(_made(kind, config), *parts)


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
