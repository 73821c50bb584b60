"""A field of records' values: one column over values of several schemas, and over schemaless ones.

Decided: schemaless JSON objects are read, too, because most JSON topics have them; loses: Confluent's FieldPartitioner
refuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.java.json_members import is_object, member
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema, SchemaType

NO_STRUCT = "The value is no struct and no JSON object, and has no fields."


class FoundField(NamedTuple):
    """The field of the rows of one schema, or the reason why they have none."""

    holds: Column
    """True for the rows of this case; never null."""
    value: Column
    schema: Schema | None
    """None: the value is JSON text, null if the member is missing or null."""
    refusal: str | None = None
    missing: Column | None = None
    """True for rows with a null `value` whose object or map has no such member; None: the schema has the field."""


def field_cases(records: Records, path: str) -> Iterator[FoundField]:
    """The field for the rows of each schema; at most one case holds for a row, none for a record without value."""
    steps = path.split(".")
    nothing = F.lit(None).cast("string")
    for number, schema in enumerate(records.values):
        value = records.value(number)
        holds = F.coalesce(F.col("value_schema") == number, F.lit(False)) & value.isNotNull()
        if schema is None:
            objects = F.coalesce(is_object(value), F.lit(False))
            yield _member(holds & objects, value, steps)
            yield FoundField(holds & ~objects & (value != "null"), nothing, None, NO_STRUCT)
            continue
        found = _field(holds, value, schema, steps)
        yield FoundField(holds, nothing, schema, found) if isinstance(found, str) else found


def chosen(cases: Sequence[tuple[Column, Column]], kind: str) -> Column:
    """The column of the first case that holds; null if none does."""
    column = F.lit(None).cast(kind)
    for holds, value in reversed(cases):
        column = F.when(holds, value).otherwise(column)
    return column


def refusals(
    cases: Sequence[FoundField], reason: Callable[[FoundField], str | Column | None]
) -> list[tuple[Column, Column]]:
    """Pairs of a case's condition and the reason why its rows are refused: the case's own, else that of `reason`.

    Cases without a reason are left out.
    """
    found = []
    for case in cases:
        why = case.refusal if case.refusal is not None else reason(case)
        if why is not None:
            found.append((case.holds, F.lit(why) if isinstance(why, str) else why))
    return found


def _member(holds: Column, value: Column, steps: Sequence[str]) -> FoundField:
    """The member: null if the value is null, missing if the value has no such member."""
    missing = F.lit(False)
    for step in steps:
        names = F.json_object_keys(value)
        missing = missing | (value.isNotNull() & ~F.coalesce(F.array_contains(names, step), F.lit(False)))
        value = member(value, step)
    return FoundField(holds, value, None, missing=missing)


def _field(holds: Column, value: Column, schema: Schema, steps: Sequence[str]) -> FoundField | str:
    """The field, or the reason why there is none."""
    missing: Column | None = None
    for number, step in enumerate(steps):
        if schema.type is SchemaType.MAP and schema.key_schema is not None and schema.value_schema is not None:
            if schema.key_schema.type is not SchemaType.STRING:
                return f"Field '{step}' is not present in a map whose keys are no texts."
            lacks = F.coalesce(~F.map_contains_key(value, step), F.lit(False))
            missing = lacks if missing is None else missing | lacks
            value, schema = F.try_element_at(value, F.lit(step)), schema.value_schema
            continue
        if schema.type is not SchemaType.STRUCT and number == 0:
            return NO_STRUCT
        field = schema.field(step)
        if field is None:
            return f"Field '{'.'.join(steps[: number + 1])}' is not present in the schema."
        value, schema = value.getField(step), field.schema
    return FoundField(holds, value, schema, missing=missing)
