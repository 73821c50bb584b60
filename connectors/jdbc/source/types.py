"""Maps a database's columns to records: the Connect schema of a table's rows, the SELECT and the expressions.

Source: Confluent's table of types, with these differences:

Decided: `numeric.mapping` holds for DECIMAL as for NUMERIC, because drivers call columns the one or the other by
chance; loses: MariaDB's columns change their type if the setting was without effect so far.

Decided: a NUMERIC without declared scale is a Decimal of scale 18 (Confluent: 127), because Spark holds 38 digits;
loses: a value with more digits after the point fails its record, it is never rounded. A declared scale beyond 38 makes
a STRING.

Decided: numbers beyond Spark's are texts if `numeric.long.mapping` says so, not Decimals whose bytes Spark does not
read, because each transform, converter and sink would have to know both kinds; loses: their type.

Decided: an array is an ARRAY and not left out.

Decided: expressions are Spark's SQL and not Columns, because each function of a Column is two calls into the JVM, and a
task may have a thousand tables (25 ms a table less, measured).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from pyspark.sql import types as spark

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.source_sql import TEMPORAL_KINDS, SourceSql
from headrace.connectors.jdbc.source.sql_text import sql_text
from headrace.connectors.jdbc.source.unfit_values import why_unfit
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    MOST_DIGITS,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
    scale,
    spark_type,
)

log = logging.getLogger(__name__)

UNBOUNDED_SCALE: Final = 18
"""The scale of a Decimal whose column has none."""
PRECISION: Final = "connect.decimal.precision"
"""The parameter by which Confluent's connector passes a Decimal's precision to the Avro converter."""
_MOST_LONG_DIGITS: Final = 18
_DAY_MICROS: Final = 86_400_000_000
_MOST_MICROS: Final = 253_402_300_800_000_000
"""The year 10000; beyond it, or as far before 1970, no zone has times."""

_PLAIN: Final = {
    Kind.BOOLEAN: SchemaType.BOOLEAN,
    Kind.INT8: SchemaType.INT8,
    Kind.INT16: SchemaType.INT16,
    Kind.INT32: SchemaType.INT32,
    Kind.INT64: SchemaType.INT64,
    Kind.FLOAT32: SchemaType.FLOAT32,
    Kind.FLOAT64: SchemaType.FLOAT64,
    Kind.STRING: SchemaType.STRING,
    Kind.BYTES: SchemaType.BYTES,
}

_MAY_FAIL: Final = (*TEMPORAL_KINDS, Kind.NUMERIC, Kind.DECIMAL, Kind.ARRAY)


class NumericMapping(StrEnum):
    """The types of NUMERIC and DECIMAL columns, by the setting `numeric.mapping`."""

    NONE = "none"
    PRECISION_ONLY = "precision_only"
    BEST_FIT = "best_fit"
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"


@dataclass(frozen=True)
class TypeRules:
    """A connector's settings about types."""

    numeric: NumericMapping = NumericMapping.NONE
    long_as_text: bool = False
    """True if columns with numbers that may exceed Spark's become texts, by `numeric.long.mapping`."""
    granularity: str = "connect_logical"
    """The setting `timestamp.granularity`."""
    zone: str | None = None
    """The zone whose clock timestamps without a zone show; None: UTC."""


@dataclass(frozen=True)
class SourceColumn:
    """A column of a source: selected as `sql`, fetched as `type`, in records a value of `schema`."""

    name: str
    sql: str
    type: spark.DataType
    schema: Schema
    convert: str
    """The value in records as Spark's SQL, with `{}` for the fetched one; null if `schema` cannot hold it."""
    unfit: str = ""
    """The SQL of `why_unfit`; empty: `schema` holds every value."""

    @property
    def may_fail(self) -> bool:
        """True if there can be values that `schema` cannot hold."""
        return bool(self.unfit)

    def value(self, given: str) -> str:
        """The value in records of a column fetched under this name."""
        return f"CAST({self.convert.replace('{}', given)} AS {spark_type(self.schema).simpleString()})"


def source_columns(
    columns: Sequence[DatabaseColumn], rules: TypeRules, sql: SourceSql, quoted: Callable[[str], str]
) -> tuple[SourceColumn, ...]:
    """The columns of a table or query that records have; `quoted` writes a column's name in the statement."""
    found = []
    for column in columns:
        schema = _required(column, rules, sql)
        if schema is None:
            log.warning("Column %s of type %s is left out: Connect has no type for it", column.name, column.type_name)
            continue
        if _is_decimal(column) and schema.type is SchemaType.STRING and not rules.long_as_text:
            log.warning(
                "Column %s of type %s becomes a STRING: Spark holds no such scale", column.name, column.type_name
            )
        selected, fetched, may_be_null = sql.fetched(column, quoted(column.name))
        schema = replace(schema, optional=column.nullable or may_be_null)
        convert = _conversion(column, schema, fetched, rules, sql)
        may_fail = column.kind in _MAY_FAIL or fetched not in (spark_type(schema), spark.DoubleType())
        unfit = why_unfit(column, schema, sql, may_be_long(column, sql)) if may_fail and convert != "{}" else ""
        found.append(SourceColumn(column.name, selected, fetched, schema, convert, unfit))
    return tuple(found)


def value_schema(name: str | None, columns: Sequence[SourceColumn]) -> Schema:
    """The schema of records' values."""
    return Schema(SchemaType.STRUCT, name=name, fields=tuple(Field(column.name, column.schema) for column in columns))


def may_be_long(column: DatabaseColumn, sql: SourceSql) -> bool:
    """True if a NUMERIC or DECIMAL may have numbers beyond Spark's Decimals."""
    return not sql.keeps_scale or column.precision is None or column.precision > MOST_DIGITS


def _is_decimal(column: DatabaseColumn) -> bool:
    return column.kind in (Kind.NUMERIC, Kind.DECIMAL)


def _required(column: DatabaseColumn, rules: TypeRules, sql: SourceSql) -> Schema | None:
    kind = column.kind
    if _is_decimal(column):
        found = _number(column, rules.numeric)
        as_text = rules.long_as_text and found.name == DECIMAL and may_be_long(column, sql)
        return Schema(SchemaType.STRING) if as_text else found
    if kind is Kind.DATE:
        return Schema(SchemaType.INT32, name=DATE, version=1)
    if kind is Kind.TIME:
        return Schema(SchemaType.INT32, name=TIME, version=1)
    if kind is Kind.TIMESTAMP:
        if rules.granularity == "connect_logical":
            return Schema(SchemaType.INT64, name=TIMESTAMP, version=1)
        return Schema(SchemaType.INT64 if rules.granularity.endswith("_long") else SchemaType.STRING)
    if kind is Kind.ARRAY and column.element is not None:
        element = _required(column.element, rules, sql)
        return None if element is None else Schema(SchemaType.ARRAY, value_schema=replace(element, optional=True))
    plain = _PLAIN.get(kind)
    return None if plain is None else Schema(plain)


def _number(column: DatabaseColumn, mapping: NumericMapping) -> Schema:
    """A Decimal, or the mapping's type.

    Its integers are chosen by all digits before the point: `numeric(4,-2)` has six.
    """
    digits, declared = column.precision, column.scale
    if mapping is not NumericMapping.NONE:
        whole = declared is not None and (declared == 0 if mapping is NumericMapping.PRECISION_ONLY else declared <= 0)
        if whole and digits is not None and declared is not None and digits - declared <= _MOST_LONG_DIGITS:
            return Schema(_integer(digits - declared))
        doubles = mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE or (
            mapping is NumericMapping.BEST_FIT and (digits is None or digits <= _MOST_LONG_DIGITS)
        )
        if doubles and (declared is None or declared > 0):
            return Schema(SchemaType.FLOAT64)
    shown = UNBOUNDED_SCALE if declared is None else max(declared, 0)
    if shown > MOST_DIGITS:
        return Schema(SchemaType.STRING)
    precision = {} if digits is None else {PRECISION: str(digits)}
    return Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": str(shown), **precision})


def _integer(digits: int) -> SchemaType:
    if digits > 9:
        return SchemaType.INT64
    if digits > 4:
        return SchemaType.INT32
    return SchemaType.INT16 if digits > 2 else SchemaType.INT8


def _conversion(
    column: DatabaseColumn, schema: Schema, fetched: spark.DataType, rules: TypeRules, sql: SourceSql
) -> str:
    kind, wanted = column.kind, spark_type(schema)
    if kind is Kind.ARRAY and column.element is not None and schema.value_schema is not None:
        return _array(column.element, schema.value_schema, rules, sql)
    if kind is Kind.DATE:
        return f"date_from_unix_date(CAST({_within(2**31 - 1)} AS INT))"
    if kind is Kind.TIME:
        return f"CAST(CASE WHEN {{}} BETWEEN 0 AND {_DAY_MICROS} THEN {{}} DIV 1000 END AS INT)"
    if kind is Kind.TIMESTAMP:
        return _timestamp(column.zoned, rules)
    if schema.name == DECIMAL and (column.scale is None or not sql.keeps_scale):
        return _exact(wanted, scale(schema))
    if fetched == wanted:
        return "{}"
    if isinstance(fetched, spark.DoubleType) and isinstance(wanted, spark.FloatType):
        return "CAST({} AS FLOAT)"
    return f"try_cast({{}} AS {wanted.simpleString()})"


def _within(most: int) -> str:
    """The number if it is within these bounds, which -2**63 is not."""
    return f"CASE WHEN {{}} BETWEEN -{most} AND {most} THEN {{}} END"


def _exact(wanted: spark.DataType, digits: int) -> str:
    """The decimal if no digit is lost, else null: a column without scale has numbers of any scale.

    Texts with an exponent are SQLite's, which writes 15 digits: large ones are whole, small ones are below 0.001.
    """
    fraction = "length(TRIM(TRAILING '0' FROM substring_index({}, '.', -1)))"
    found = f"try_cast({{}} AS {wanted.simpleString()})"
    small = f"{found} <> 0 AND {found} = try_cast({{}} AS DECIMAL({MOST_DIGITS}, {MOST_DIGITS}))"
    fits = f"NOT contains({{}}, '.') OR contains({{}}, 'e') OR {fraction} <= {digits}"
    return f"CASE WHEN CASE WHEN contains({{}}, 'e-') THEN {small} ELSE {fits} END THEN {found} END"


def _timestamp(zoned: bool, rules: TypeRules) -> str:
    shown = f"timestamp_micros({_within(_MOST_MICROS)})"
    instant = shown if zoned or rules.zone is None else f"to_utc_timestamp({shown}, {sql_text(rules.zone)})"
    if rules.granularity == "connect_logical":
        return instant
    unit, _, form = rules.granularity.partition("_")
    if form in ("long", "string"):
        since = f"unix_micros({instant})"
        number = since if unit == "micros" else f"try_multiply({since}, 1000L)"
        return number if form == "long" else f"CAST({number} AS STRING)"
    pattern = f"yyyy-MM-dd'T'HH:mm:ss.{'S' * (6 if unit == 'micros' else 9)}"
    clock = f"from_utc_timestamp({shown}, {sql_text(rules.zone)})" if zoned and rules.zone is not None else shown
    return f"date_format({clock}, {sql_text(pattern)})"


def _array(element: DatabaseColumn, schema: Schema, rules: TypeRules, sql: SourceSql) -> str:
    """The array of a JSON array; null if an element does not fit its schema."""
    fetched = _element_type(element)
    convert = "unhex({})" if element.kind is Kind.BYTES else _conversion(element, schema, fetched, rules, sql)
    value = convert.replace("{}", "x")
    parsed = f"from_json({{}}, 'ARRAY<{fetched.simpleString()}>')"
    values = f"transform({parsed}, x -> CAST({value} AS {spark_type(schema).simpleString()}))"
    return f"CASE WHEN NOT exists({parsed}, x -> x IS NOT NULL AND {value} IS NULL) THEN {values} END"


def _element_type(element: DatabaseColumn) -> spark.DataType:
    if element.kind in (Kind.NUMERIC, Kind.DECIMAL, Kind.STRING, Kind.BYTES):
        return spark.StringType()
    if element.kind is Kind.BOOLEAN:
        return spark.BooleanType()
    return spark.DoubleType() if element.kind in (Kind.FLOAT32, Kind.FLOAT64) else spark.LongType()
