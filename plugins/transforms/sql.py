"""`headrace.transforms.Sql`: a SELECT over the record.

    transforms.x.type=headrace.transforms.Sql
    transforms.x.sql=SELECT id, upper(name) AS name, topic FROM records WHERE amount > 0

| input | |
|---|---|
| the fields of a struct | one column each; `*` means all of them |
| `value` | the whole value: a struct, a primitive (then `*` means it), a VARIANT if schemaless |
| `topic`, `partition`, `offset` (sinks), `timestamp`, `key`, `headers` | the record's; a field of that name hides it |
| `record` | a struct of these and `value`, always present (`_record` if there is a field `record`) |

The selected columns form the new value, a struct whose schema follows from Spark's types; columns selected unchanged
keep their schemas. `_topic`, `_partition`, `_timestamp`, `_headers`, `_key` and `_value` set the record's own columns
and are not members. The value stays as it is if it is selected alone, or if there are neither members nor `_value`.
Names are not case-sensitive, unless a struct has two that only differ in case.

Decided: an expression that fails for a record (a cast, a division by zero) fails that record, as with every transform.
So does a value that the SELECT names and Spark cannot hold (JSON too deep for a VARIANT, a timestamp of the year
300000). This is because a silent null, Spark's alternative, loses data; `try_cast`, `try_divide` … return null. Loses:
Spark's message; the error only names the expression.

Decided: a null value, such as a tombstone, stays null, but the record's own columns are set and WHERE is evaluated,
with null for everything from the value. The record is dropped if WHERE is false (`value IS NOT NULL`, `topic =
'other'`), but not if it is unknown (`amount > 0`), because a lost tombstone is a row that is never deleted. For such a
record, a null for one of its own columns leaves that column unchanged, since a key cannot come from the missing value.
Loses: if an expression cannot be applied to null alone (`tags[0]`), such a record stays as it is.

Decided: a schema that lacks a named column is an error of its records, not of the config, because a topic may hold
other records. What is wrong for every schema (GROUP BY, joins, `rand()`, the clock) is refused at the start.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import All, Check, NonEmpty
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.catalyst.spark_internals import attempted
from headrace.plugins.records import Records
from headrace.plugins.schema import OPTIONAL_STRING, Schema
from headrace.plugins.transforms.derived_schema import derived_schema
from headrace.plugins.transforms.new_columns import (
    OWN,
    MadeColumn,
    NewColumns,
    parts_of,
    with_new_columns,
    without_null_values,
)
from headrace.plugins.transforms.sql_functions import aggregate_in
from headrace.plugins.transforms.sql_inputs import (
    PARSED,
    Shape,
    inputs_of,
    inputs_of_nothing,
    rows_of,
    shapes,
    troubles,
)
from headrace.plugins.transforms.sql_select import RefusedError, Select, Selected, Selection

log = logging.getLogger(__name__)


def _aggregates(name: str, value: Any) -> str | None:
    found = aggregate_in(value or "")
    why = f"{found} is an aggregate, which needs more than one record"
    return None if found is None else f"Invalid value {value} for configuration {name}: {why}"


SETTINGS: Final = Settings(
    Setting(
        "sql",
        Type.STRING,
        validator=All(NonEmpty(), Check(_aggregates, "without aggregates")),
        importance=Importance.HIGH,
        documentation="SELECT … FROM records [WHERE …] in Spark's SQL, over one record at a time: what is selected is "
        "the new value; columns named _topic, _partition, _timestamp, _headers, _key and _value set those.",
    ),
)


class _SelectedShape(NamedTuple):
    shape: Shape
    holds: Column
    selection: Selection
    parts: Mapping[str, MadeColumn]
    column: str


class Sql(Transform):
    """Applies a SELECT to each record."""

    settings = SETTINGS
    version = "1.0.0"
    _select: tuple[SparkSession, Select] | None = None
    """The SELECT as parsed by the last session."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure; the SELECT itself is checked when Spark runs. Errors: ConfigError."""
        self._sql: str = SETTINGS.parse(config)["sql"]

    def apply(self, records: Records) -> Records:
        """Apply the SELECT. Errors: ConfigError if it is not a SELECT, or needs more than one record."""
        try:
            return self._applied(records)
        except RefusedError as error:
            problem = Problem("sql", self._sql, f"This SELECT cannot be a transform: {error}.", "Change sql.")
            raise ConfigError(problem) from error

    def _applied(self, records: Records) -> Records:
        select = self._parsed(records.frame.sparkSession)
        records = without_null_values(records)
        parsed = {
            f"{PARSED}_{side}_{number}": F.try_parse_json(F.col(f"{side}_{number}"))
            for side, schemas in (("key", records.keys), ("value", records.values))
            for number, schema in enumerate(schemas)
            if schema is None
        }
        given = records.with_frame(records.frame.withColumns(parsed)) if parsed else records
        made, messages = [], []
        for number, shape in enumerate(shapes(given, select)):
            try:
                one = self._made(given, select, shape, number)
                made += [] if one is None else [one]
            except RefusedError:
                raise
            except ValueError as error:
                if shape.value is None:
                    log.info("Records without a value stay as they are: %s", error)
                else:
                    messages.append(F.when(rows_of(given, shape), F.lit(f"The SELECT does not fit: {error}")))
        return self._finished(given, made, messages, set(parsed))

    def _parsed(self, session: SparkSession) -> Select:
        if self._select is None or self._select[0] is not session:
            self._select = session, Select(session, self._sql)
        return self._select[1]

    def _made(self, records: Records, select: Select, shape: Shape, number: int) -> _SelectedShape | None:
        """Return the new columns of these rows; None: the rows stay as they are."""
        schema = None if shape.value is None else records.values[shape.value]
        if shape.value is None:
            inputs, only = inputs_of_nothing(records, shape, select), OWN
        else:
            inputs, only = inputs_of(records, shape, shape.value), None
        selection = select.over(inputs, records.frame, only)
        parts = parts_of(_columns(selection.columns, schema), schema, records)
        if shape.value is None:
            parts = {name: part for name, part in parts.items() if name != "value"}
        if not parts and not selection.conditions:
            return None
        return _SelectedShape(shape, rows_of(records, shape), selection, parts, f"{PARSED}_{number}")

    def _finished(
        self, records: Records, made: Sequence[_SelectedShape], messages: list[Column], own: set[str]
    ) -> Records:
        frame = records.frame.withColumns({one.column: _attempt(one, records) for one in made})
        changes, drops = [], []
        for one in made:
            tried = F.col(one.column)
            row = tried.getField("row")
            parts = {name: (row.getField(name), part.schema) for name, part in one.parts.items()}
            whole = one.shape.key is None
            is_value = one.shape.value is not None
            kept = tried.isNotNull() & tried.getField("keep")
            changes.append(NewColumns(kept, one.shape.value, parts, whole, overrides=is_value))
            drops.append(F.when(one.holds, ~tried.getField("keep")))
            messages.append(F.when(one.holds & tried.isNull(), self._why(one, records)))
        message = F.coalesce(*messages) if messages else None
        done = with_new_columns(
            records.with_frame(frame), changes, message, F.coalesce(*drops, F.lit(False)) if drops else None
        )
        return done.with_frame(done.frame.drop(*own, *(one.column for one in made)))

    def _why(self, made: _SelectedShape, records: Records) -> Column:
        """Return the expression that failed; evaluated only for rows with a failure."""
        session = records.frame.sparkSession
        computed = ((one.column, one.text) for one in made.selection.columns if one.source is None)
        tries = [*made.selection.conditions, *computed]
        told = [
            F.when(attempted(F.struct(column), session).isNull(), F.lit(f"{text} cannot be computed"))
            for column, text in tries
        ]
        rest = F.lit("what was selected cannot be converted")
        return F.coalesce(*troubles(records, made.shape), *told, rest)


def _attempt(made: _SelectedShape, records: Records) -> Column:
    """Return `struct<keep, row>` for the rows of this shape; null if an expression raises."""
    conditions = [column for column, _ in made.selection.conditions]
    unknown = made.shape.value is None
    keep = F.coalesce(reduce(lambda one, other: one & other, conditions), F.lit(unknown)) if conditions else F.lit(True)
    row = F.struct(*(part.column.alias(name) for name, part in made.parts.items()))
    rest = [F.when(keep, row).alias("row")] if made.parts else []
    return F.when(made.holds, attempted(F.struct(keep.alias("keep"), *rest), records.frame.sparkSession))


def _columns(columns: Sequence[Selected], schema: Schema | None) -> list[MadeColumn]:
    """Return the selected columns, without those that leave the value unchanged."""
    own = [one for one in columns if one.name.lower() in OWN]
    members = [one for one in columns if one.name.lower() not in OWN]
    alone = len(members) == 1 and members[0].source == "value" and not _is_field(schema, "value")
    if alone or (schema is not None and [(one.name, one.source) for one in members] == _names(schema)):
        members = []
    return [_part(one) for one in (*members, *own)]


def _is_field(schema: Schema | None, name: str) -> bool:
    return schema is not None and any(field.name.lower() == name for field in schema.fields)


def _names(schema: Schema) -> list[tuple[str, str | None]]:
    return [(field.name, field.name) for field in schema.fields]


def _part(one: Selected) -> MadeColumn:
    schema = one.schema
    if schema is None and not isinstance(one.kind, spark.VariantType):
        try:
            schema = derived_schema(one.kind, one.optional)
        except ValueError as error:
            if one.name.lower() not in OWN:
                raise ValueError(f"{one.name}: {error}") from None
            schema = OPTIONAL_STRING
    return MadeColumn(one.name, one.column, one.kind, schema)
