"""Debezium's change events: values with a schema whose name ends in `.Envelope`, as its transforms read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.java.class_names import class_of
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue, only_struct
from headrace.plugins.transforms.new_columns import NewColumns, with_new_columns

DEBEZIUM_VERSION: Final = "3.5.0.Final"
ENVELOPE: Final = ".Envelope"
"""End of the schema names of change events."""


class RefusedError(Exception):
    """All rows that would change so fail."""

    def __init__(self, message: Column | str) -> None:
        super().__init__()
        self.message = F.lit(message) if isinstance(message, str) else message


@dataclass
class Changes:
    """Results for all schemas."""

    columns: list[NewColumns] = field(default_factory=list)
    messages: list[Column] = field(default_factory=list)
    drops: list[Column] = field(default_factory=list)

    def made(self, records: Records) -> Records:
        """Return the records with all of them."""
        message = F.coalesce(*self.messages) if self.messages else None
        drop = None
        for one in self.drops:
            # Never null: a null would hide that another one is true.
            drop = F.coalesce(one, F.lit(False)) if drop is None else drop | F.coalesce(one, F.lit(False))
        return with_new_columns(records, self.columns, message, drop)


@dataclass(frozen=True)
class Events:
    """Events of one schema."""

    records: Records
    number: int
    schema: Schema
    value: Column
    rows: Column
    """Rows that are not null."""


def events_of(records: Records) -> Iterator[Events]:
    """Yield the change events among the records, schema by schema."""
    for number, schema in enumerate(records.values):
        if schema is not None and (schema.name or "").endswith(ENVELOPE):
            value = records.value(number)
            yield Events(records, number, schema, value, (F.col("value_schema") == number) & value.isNotNull())


def part_of(extraction: KeyOrValue, events: Events) -> tuple[Column, Schema]:
    """Return what an extraction takes out of the events, and its schema. Errors: RefusedError in Connect's words."""
    return required(extraction.with_schema(events.value, events.schema, events.records))


def required(became: Became | None) -> tuple[Column, Schema]:
    """Return new values and their schema. Errors: RefusedError if there are none."""
    assert became is not None, "transforms of values answer for every schema"
    if became.value is None or became.schema is None:
        assert became.message is not None, "a transform that changes nothing says why"
        raise RefusedError(became.message)
    return became.value, became.schema


def require_struct(schema: Schema | None, purpose: str) -> Schema:
    """Return the schema, which has to be a struct's. Errors: RefusedError in Connect's words."""
    assert schema is not None, "a row of an event has a schema"
    if schema.type is not SchemaType.STRUCT:
        raise RefusedError(only_struct(purpose, F.lit(class_of(schema))))
    return schema


def field_of(schema: Schema, name: str, type_: SchemaType) -> Field:
    """Return the field, which has to be of this type. Errors: RefusedError in Connect's words."""
    found = schema.field(name)
    if found is None:
        raise RefusedError(f"{name} is not a valid field name")
    if found.schema.type is not type_:
        raise RefusedError(f"Field '{name}' is not of type {type_.name}")
    return found
