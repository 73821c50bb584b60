"""The columns that tables are written from, by expressions.

| column | |
|---|---|
| `topic` | the record's topic after the transforms, which names its table |
| `origin_topic`, `origin_partition`, `offset` | the record's origin |
| `error` | the reason why it cannot be written; null for a good row |
| `layout` | the number of its value's schema among those that the task has met; null for a row that is passed over |
| `is_delete` | true if it removes the row of its key |
| `value_<layout>` | the row; null for rows of other layouts |

Decided: Debezium's envelopes and unwrapped deletes are understood for upserts only, because appended envelopes are a
history of changes, which loses nothing; loses: appending only their rows, which takes Debezium's transform.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.lake.change_events import changes
from headrace.connectors.lake.delta.settings import DeltaOptions
from headrace.connectors.lake.unwrapped_rows import is_deleted
from headrace.plugins.interop.debezium import is_envelope
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType

_NO_SCHEMA: Final = "It has no schema, by which a table has columns; let its converter give one"
_NO_STRUCT: Final = "Its value is no struct, whose fields are a table's columns"
_NO_KEY: Final = "It removes the row of its key, but it has no key"
_PLAIN_KEY: Final = "Its key is no struct: to remove a row by it, id.columns has to name one column"
_NESTED: Final = (SchemaType.ARRAY, SchemaType.MAP)


class SinkColumns:
    """The expressions of one task; numbers the schemas that it meets."""

    def __init__(self, options: DeltaOptions) -> None:
        self._options = options
        self.layouts: list[Schema] = []

    def columns(self, records: Records) -> list[Column]:
        """The columns of these records."""
        rows = Rows(self.layouts)
        for index, schema in enumerate(records.values):
            value = records.value(index)
            here = (F.col("value_schema") == index) & value.isNotNull()
            if schema is None:
                rows.refuse(here & (value != "null"), _NO_SCHEMA)
            elif schema.type is not SchemaType.STRUCT:
                rows.refuse(here, _NO_STRUCT)
            elif self._options.upserts and is_envelope(schema):
                _add_envelope(rows, here, value, schema)
            else:
                rows.add(here, schema, value, is_deleted(value, schema) if self._options.upserts else F.lit(False))
        if self._options.upserts:
            self._add_keys(rows, records)
        return rows.columns()

    def _add_keys(self, rows: Rows, records: Records) -> None:
        """Add the rows that only their keys tell: tombstones, and deletes without the row before."""
        left, ids = ~rows.met, self._options.ids
        for index, schema in enumerate(records.keys):
            key = records.key(index)
            here = left & F.coalesce(F.col("key_schema") == index, F.lit(False)) & key.isNotNull()
            if schema is None:
                rows.refuse(here & (key != "null"), _NO_SCHEMA)
            elif schema.type is SchemaType.STRUCT:
                rows.add(here, schema, key, F.lit(True))
            elif len(ids) > 1 or schema.type in _NESTED:
                rows.refuse(here, _PLAIN_KEY)
            else:
                of = Schema(SchemaType.STRUCT, fields=(Field(ids[0], schema),))
                rows.add(here, of, F.struct(key.alias(ids[0])), F.lit(True))
        rows.refuse(~rows.met, _NO_KEY)


class Rows:
    """The rows of a batch by what becomes of them, as conditions; the rest is passed over."""

    def __init__(self, layouts: list[Schema]) -> None:
        self._layouts = layouts
        self._errors: list[Column] = []
        self._met = F.lit(False)
        self._layout, self._is_delete = F.lit(None).cast("int"), F.lit(None).cast("boolean")
        self._values: dict[int, list[Column]] = {}

    @property
    def met(self) -> Column:
        """True for the rows that have got an effect or an error."""
        return self._met

    def add(self, holds: Column, schema: Schema, value: Column, is_delete: Column) -> None:
        """Add rows that change a table."""
        if schema not in self._layouts:
            self._layouts.append(schema)
        number = self._layouts.index(schema)
        self._meet(holds)
        self._layout = F.when(holds, F.lit(number)).otherwise(self._layout)
        self._is_delete = F.when(holds, is_delete).otherwise(self._is_delete)
        self._values.setdefault(number, []).append(F.when(holds, value))

    def refuse(self, holds: Column, why: str) -> None:
        """Add rows that cannot be written."""
        self._meet(holds)
        self._errors.append(F.when(holds, F.lit(why)))

    def pass_over(self, holds: Column) -> None:
        """Add rows that change nothing."""
        self._meet(holds)

    def columns(self) -> list[Column]:
        """The columns of all rows."""
        return [
            F.col("topic"),
            F.col("_topic").alias("origin_topic"),
            F.col("_partition").alias("origin_partition"),
            F.col("_offset").alias("offset"),
            F.coalesce(*self._errors, F.lit(None).cast("string")).alias("error"),
            self._layout.alias("layout"),
            self._is_delete.alias("is_delete"),
            *(F.coalesce(*parts).alias(f"value_{number}") for number, parts in self._values.items()),
        ]

    def _meet(self, holds: Column) -> None:
        self._met = self._met | F.coalesce(holds, F.lit(False))


def _add_envelope(rows: Rows, here: Column, value: Column, schema: Schema) -> None:
    after, before = schema.field("after"), schema.field("before")
    assert after is not None
    row = value.getField("after")
    found = changes(rows, here, F.coalesce(value.getField("op"), F.lit("")), row)
    rows.add(found.writes, after.schema, row, F.lit(False))
    if before is not None and before.schema.type is SchemaType.STRUCT:
        old = value.getField("before")
        rows.add(found.deletes & old.isNotNull(), before.schema, old, F.lit(True))
