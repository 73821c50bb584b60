"""The values of a struct's fields as a sink writes them, with the schemas of suitable columns.

Besides Connect's logical types those of Debezium's sources are understood: only their names tell a count of
microseconds from other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.connectors.jdbc.contract.debezium_types import ANY_SCALE, SOURCE_NAME, ZONED_TIMESTAMP
from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import FRACTION, Value, time_text
from headrace.plugins.interop.catalyst.java_calls import decimal_text
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    OPTIONAL_STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaType,
    literal,
    logical,
)

_WITH_ZONE: Final = r"[0-9][T: ][0-9.]+ *[^0-9:. ]"
"""Matches a text with an offset or a zone after its time of day."""
_MOST_MILLIS: Final = (1 << 63) // 1000 - 1
"""Spark holds no timestamps beyond it."""
_SCALE: Final = 30
"""The scale of a new column for decimals of any scale, if a database wants one: MySQL's maximum."""
_MOST_SCALE: Final = 16_383
"""PostgreSQL's maximum."""


def field_values(
    struct: Column, schema: Schema, options: SinkOptions, kept: frozenset[str] = frozenset()
) -> tuple[Value, ...]:
    """The fields of a struct; `kept` as in `value_of`."""
    return tuple(value_of(one.name, struct.getField(one.name), one.schema, options, kept) for one in schema.fields)


def value_of(
    name: str, column: Column, schema: Schema, options: SinkOptions, kept: frozenset[str] = frozenset()
) -> Value:
    """A field as it is written: nulls replaced by its default, dates and times as such.

    `kept`: names of Debezium's types whose values the dialect reads itself.
    """
    if options.replaces_nulls and schema.optional and schema.default is not None:
        column = F.coalesce(column, literal(schema.default, schema))
    if name in options.timestamp_fields and logical(schema) is None:
        meaning = _listed(schema.type, options)
    else:
        meaning = _debeziums(schema, kept)
    if meaning is not None and schema.type is meaning.of:
        made = meaning.value(column)
        wrong = made.isNull() & column.isNotNull() if meaning.may_be_wrong else None
        return Value(name, _of(meaning, schema), made, meaning.text, wrong)
    element = schema.value_schema if schema.type is SchemaType.ARRAY else None
    meaning = None if element is None else _debeziums(element, kept)
    if meaning is None or element is None or element.type is not meaning.of or meaning.means == TIME:
        return Value(name, schema, column)
    made, read = F.transform(column, meaning.value), meaning.value
    wrong = F.exists(column, lambda one: one.isNotNull() & read(one).isNull()) if meaning.may_be_wrong else None
    return Value(name, replace(schema, value_schema=_of(meaning, element), default=None), made, wrong=wrong)


def _debeziums(schema: Schema, kept: frozenset[str]) -> _Meaning | None:
    return None if schema.name in kept else _DEBEZIUM.get(schema.name or "")


def member_values(json: Column, names: tuple[str, ...]) -> tuple[Value, ...]:
    """These members of a JSON object, each as text; any other value is itself the only member."""
    if len(names) == 1:
        named = F.regexp_replace(F.to_json(F.create_map(F.lit(names[0]), F.lit(0))), "0}$", "")
        json = F.when(json.startswith("{"), json).otherwise(F.concat(named, json, F.lit("}")))
    wanted = spark.StructType([spark.StructField(name, spark.StringType()) for name in names])
    parsed = F.from_json(json, wanted)
    return tuple(Value(name, OPTIONAL_STRING, parsed.getField(name)) for name in names)


class _Meaning(NamedTuple):
    of: SchemaType
    means: str
    """A logical type."""
    value: Callable[[Column], Column]
    """Returns null for a value without meaning."""
    text: bool = False
    may_be_wrong: bool = False
    digits: str = "6"
    """The digits of a second's fraction."""


def _of(meaning: _Meaning, schema: Schema) -> Schema:
    """The schema for the field's meaning, as optional as the field, without its default, which means something else."""
    means = meaning.means
    if means == DECIMAL:
        parameters = {"scale": str(_SCALE), **_source_name(schema)}
        return Schema(SchemaType.BYTES, schema.optional, name=DECIMAL, version=1, parameters=parameters)
    kind = SchemaType.INT64 if means == TIMESTAMP else SchemaType.INT32
    digits = {} if means == DATE else {FRACTION: meaning.digits}
    parameters = {**_source_name(schema), **digits}
    return replace(schema, type=kind, name=means, default=None, version=1, parameters=parameters)


def _source_name(schema: Schema) -> dict[str, str]:
    return {name: value for name, value in schema.parameters.items() if name == SOURCE_NAME}


def _listed(kind: SchemaType, options: SinkOptions) -> _Meaning | None:
    """The meaning of a field in `timestamp.fields.list`: a count since the epoch, or ISO 8601.

    A text without offset is by the clock of `db.timezone`. Decided: columns take microseconds, because no database here
    has more and Spark holds no more; loses: nanoseconds.
    """
    count = _nanos if options.timestamp_nanos else F.timestamp_micros
    if kind is SchemaType.INT64:
        return _Meaning(kind, TIMESTAMP, count)
    if kind is not SchemaType.STRING:
        return None

    def read(text: Column) -> Column:
        clock = F.to_utc_timestamp(text.try_cast("timestamp_ntz").cast("timestamp"), options.zone)
        counted = F.when(text.rlike(r"^[+-]?[0-9]+$"), count(text.try_cast("bigint")))
        return counted.when(text.rlike(_WITH_ZONE), text.try_cast("timestamp")).otherwise(clock)

    return _Meaning(kind, TIMESTAMP, read, may_be_wrong=True)


def _nanos(nanos: Column) -> Column:
    return F.timestamp_micros(F.call_function("div", nanos, F.lit(1000)))


def _millis(millis: Column) -> Column:
    return F.when(millis.between(-_MOST_MILLIS, _MOST_MILLIS), F.timestamp_millis(millis))


def _any_scale(decimal: Column) -> Column:
    """The digits of a decimal that has its own scale; null for a scale that no database has."""
    unscaled, scale = decimal.getField("value"), decimal.getField("scale")
    holds = (F.length(unscaled) > 0) & scale.between(-_MOST_SCALE, _MOST_SCALE)
    return F.when(holds, decimal_text(unscaled, scale))


_INT32, _INT64, _STRING = SchemaType.INT32, SchemaType.INT64, SchemaType.STRING
_DEBEZIUM: Final[Mapping[str, _Meaning]] = {
    "io.debezium.time.Date": _Meaning(_INT32, DATE, F.date_from_unix_date),
    "io.debezium.time.Timestamp": _Meaning(_INT64, TIMESTAMP, _millis, may_be_wrong=True, digits="3"),
    "io.debezium.time.MicroTimestamp": _Meaning(_INT64, TIMESTAMP, F.timestamp_micros),
    "io.debezium.time.NanoTimestamp": _Meaning(_INT64, TIMESTAMP, _nanos),
    ANY_SCALE: _Meaning(SchemaType.STRUCT, DECIMAL, _any_scale, text=True, may_be_wrong=True),
    ZONED_TIMESTAMP: _Meaning(_STRING, TIMESTAMP, lambda text: text.try_cast("timestamp"), may_be_wrong=True),
    "io.debezium.time.Time": _Meaning(_INT32, TIME, lambda millis: millis, digits="3"),
    "io.debezium.time.MicroTime": _Meaning(
        _INT64, TIME, lambda micros: time_text(micros, 6), text=True, may_be_wrong=True
    ),
    "io.debezium.time.NanoTime": _Meaning(
        _INT64,
        TIME,
        lambda nanos: time_text(F.call_function("div", nanos, F.lit(1000)), 6),
        text=True,
        may_be_wrong=True,
    ),
}
