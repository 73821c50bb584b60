"""Reads the two sides of a record, key and value: as fields, as no row, or as a reason to refuse it.

Source: the requirements of Confluent's sink and its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.jdbc.contract.sink_options import KeyMode, SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import Cell, Value
from headrace.connectors.jdbc.sink.values import field_values, member_values, value_of
from headrace.plugins.interop.debezium import is_envelope
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema, SchemaType, logical


class Fields(NamedTuple):
    """A side of a record with these fields."""

    prefix: str
    """The prefix of their columns' names in the batch."""
    values: tuple[Value, ...]
    members: Column | None = None
    """A JSON object in place of a struct's fields."""

    def cells(self, key: bool) -> list[tuple[Cell, Value]]:
        """A cell for each field; `key`: they are all of the key, or none is."""
        return [
            (Cell(value.name, value.schema, key, f"{self.prefix}_{number}", value.text), value)
            for number, value in enumerate(self.values)
        ]


class NoRow(Enum):
    """Values that are no row."""

    TOMBSTONE = auto()
    TRUNCATE = auto()
    MESSAGE = auto()


class SideCase(NamedTuple):
    """Some rows of a batch, and their side; a text is the reason why it cannot be written."""

    holds: Column
    what: Fields | NoRow | str
    kind: tuple[str, str] = ("null", "null")
    """The value and its schema in the words of messages."""


@dataclass
class RecordSides:
    """Reads the sides of one sink's records."""

    options: SinkOptions
    kept: frozenset[str] = frozenset()
    _schemas: dict[tuple[str, Schema | None], int] = field(default_factory=dict)

    def values(self, records: Records) -> Iterator[SideCase]:
        """The cases of values; one holds for each row."""
        index = F.col("value_schema")
        yield SideCase(index.isNull(), NoRow.TOMBSTONE)
        for schema, here, value in _each(records.values, index, records.value):
            if schema is None:
                yield SideCase(here & (value == "null"), NoRow.TOMBSTONE)
                yield from self._schemaless_value(here & (value != "null"), value)
                continue
            if schema.optional:
                yield SideCase(here & value.isNull(), NoRow.TOMBSTONE)
                here = here & value.isNotNull()
            if is_envelope(schema):
                yield from self._envelope(here, value, schema)
            else:
                yield self._value(here, value, schema, self._prefix("v", schema))

    def _envelope(self, here: Column, value: Column, schema: Schema) -> Iterator[SideCase]:
        operation, row = F.coalesce(value.getField("op"), F.lit("")), value.getField("after")
        after = schema.field("after")
        assert after is not None
        yield SideCase(here & (operation == "d"), NoRow.TOMBSTONE)
        yield SideCase(here & (operation == "t"), NoRow.TRUNCATE)
        yield SideCase(here & (operation == "m"), NoRow.MESSAGE)
        here = here & ~operation.isin("d", "t", "m")
        yield self._value(here & row.isNotNull(), row, after.schema, self._prefix("v", schema))
        lacks = "A change event of table '{table}' says nothing of its row after the change"
        yield SideCase(here & row.isNull(), lacks)

    def _value(self, here: Column, value: Column, schema: Schema, prefix: str) -> SideCase:
        kind = _kind(schema)
        if schema.type is SchemaType.STRUCT:
            return SideCase(here, Fields(prefix, field_values(value, schema, self.options, self.kept)), kind)
        plain = not (self.options.included or self.options.timestamp_fields)
        if schema.type is SchemaType.STRING and plain and self.options.key_mode is not KeyMode.RECORD_VALUE:
            text = value_of(self.options.string_column, value, schema, self.options, self.kept)
            return SideCase(here, Fields(prefix, (text,)), kind)
        why = self.requires_value(*kind, structs_only=schema.type is SchemaType.STRING)
        return SideCase(here, why, kind)

    def _schemaless_value(self, here: Column, value: Column) -> Iterator[SideCase]:
        is_object = value.startswith("{")
        keys: tuple[Value, ...] = ()
        if self.options.key_mode is KeyMode.RECORD_VALUE and self.options.key_fields:
            keys = member_values(value, self.options.key_fields)
        yield SideCase(here & is_object, Fields(self._prefix("v", None), keys, value), ("HashMap", "null"))
        yield SideCase(here & ~is_object, self.requires_value("schemaless", "null"))

    def keys(self, records: Records) -> Iterator[SideCase]:
        """The cases of keys; one holds for each row."""
        index = F.col("key_schema")
        missing = "PK mode for table '{table}' is RECORD_KEY, but record key schema is missing"
        yield SideCase(index.isNull(), missing)
        for schema, here, key in _each(records.keys, index, records.key):
            if schema is None:
                yield SideCase(here & (key == "null"), missing)
                yield SideCase(here & (key != "null"), self._schemaless_key(key))
                continue
            if schema.optional:
                yield SideCase(here & key.isNull(), self._requires_key(*_kind(schema)))
                here = here & key.isNotNull()
            yield SideCase(here, self._key(key, schema))

    def _key(self, key: Column, schema: Schema) -> Fields | str:
        wanted, prefix = self.options.key_fields, self._prefix("k", schema)
        if schema.type is SchemaType.STRUCT:
            values = field_values(key, schema, self.options, self.kept)
            lacking = [name for name in wanted if schema.field(name) is None]
            if lacking:
                return self.lacks("key", lacking[0])
            return Fields(prefix, tuple(value for value in values if not wanted or value.name in wanted))
        if schema.type in (SchemaType.ARRAY, SchemaType.MAP):
            return self._requires_key(*_kind(schema))
        if len(wanted) != 1:
            return (
                "Need exactly one PK column defined since the key schema for records is a primitive type, defined "
                f"columns are: [{', '.join(wanted)}]"
            )
        return Fields(prefix, (value_of(wanted[0], key, schema, self.options, self.kept),))

    def _schemaless_key(self, key: Column) -> Fields | str:
        if not self.options.key_fields:
            return "The key of a record for table '{table}' has no schema: pk.fields has to name its fields"
        return Fields(self._prefix("k", None), member_values(key, self.options.key_fields))

    def _prefix(self, side: str, schema: Schema | None) -> str:
        return f"{side}{self._schemas.setdefault((side, schema), len(self._schemas))}"

    # -- why it cannot be written; {table} and {record} stand for its own ----------------------------------------------

    def lacks(self, side: str, name: str) -> str:
        """The message for a field of the key that no schema has."""
        return (
            f"PK mode for table '{{table}}' is {self.options.key_mode.name} with configured PK fields "
            f"[{', '.join(self.options.key_fields)}], but record {side} schema does not contain field: {name}"
        )

    def requires_value(self, value: str, schema: str, structs_only: bool = False) -> str:
        """The message for a value of this kind, which is no row; `structs_only`: settings rule out texts, too."""
        if not structs_only:
            return self._requires("Struct or String", "value", value, schema)
        options = self.options
        causes = {
            "fields.whitelist": options.included,
            "timestamp.fields.list": options.timestamp_fields,
            "pk.mode=record_value": options.key_mode is KeyMode.RECORD_VALUE,
        }
        names = " and ".join(name for name, is_set in causes.items() if is_set)
        return f"{self._requires('Struct', 'value', value, schema)} A text has no fields for {names}."

    def _requires_key(self, key: str, schema: str) -> str:
        return self._requires("Struct or primitive", "key", key, schema)

    def _requires(self, what: str, side: str, found: str, schema: str) -> str:
        kinds = f"non-null {what} {side} and non-null {what} schema"
        return (
            f"Sink connector '{self.options.connector}' is configured with 'delete.enabled="
            f"{str(self.options.deletes).lower()}' and 'pk.mode={self.options.key_mode}' and therefore requires "
            f"records with a {kinds}, but found record at {{record}} with a {found} {side} and {schema} {side} schema."
        )


def _each(
    schemas: Sequence[Schema | None], index: Column, column: Callable[[int], Column]
) -> Iterator[tuple[Schema | None, Column, Column]]:
    """Each schema once, however many indexes it has, with the condition of its rows and their keys or values."""
    numbers: dict[Schema | None, list[int]] = {}
    for number, schema in enumerate(schemas):
        numbers.setdefault(schema, []).append(number)
    for schema, (first, *others) in numbers.items():
        own = column(first)
        for number in others:
            own = F.when(index == number, column(number)).otherwise(own)
        yield schema, index.isin(first, *others), own


def _kind(schema: Schema) -> tuple[str, str]:
    """A value and its schema in Confluent's words: the Java class, and the type."""
    return _JAVA.get(schema.type, "Struct"), (schema.name if logical(schema) else None) or schema.type.name


_JAVA: Final = {
    SchemaType.INT8: "Byte",
    SchemaType.INT16: "Short",
    SchemaType.INT32: "Integer",
    SchemaType.INT64: "Long",
    SchemaType.FLOAT32: "Float",
    SchemaType.FLOAT64: "Double",
    SchemaType.BOOLEAN: "Boolean",
    SchemaType.STRING: "String",
    SchemaType.BYTES: "ByteBuffer",
    SchemaType.ARRAY: "ArrayList",
    SchemaType.MAP: "HashMap",
    SchemaType.STRUCT: "Struct",
}
