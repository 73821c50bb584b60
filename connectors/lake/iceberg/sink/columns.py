"""The columns that tables are written from, by expressions.

| column | |
|---|---|
| `origin_topic`, `origin_partition`, `offset` | the record's origin |
| `error` | the reason why it cannot be written; null for a good row |
| `layout` | the number of the value's schema among those that the task has met; null for a row without a value |
| `route` | the text that chooses its table; null if the config names no field for that |
| `op` | 0: append, 1: upsert, 2: delete; null for a row that is passed over |
| `value_<layout>` | the columns' values, or JSON; null for rows of other layouts |
| `key_layout`, `key_<key_layout>` | the same of the keys of deletes without a value |

Decided: Debezium's envelopes and unwrapped deletes are understood if the connector upserts, because without keys a
table of their rows would be no copy, and an append-only table of the envelopes as they are is what Apache's sink makes;
loses: appending only the rows of envelopes, which takes a transform.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.connectors.lake.change_events import changes
from headrace.connectors.lake.iceberg.sink.settings import SinkOptions
from headrace.connectors.lake.unwrapped_rows import DELETED, OPERATION, field_at, field_text, is_unwrapped_delete
from headrace.plugins.interop.debezium import is_envelope
from headrace.plugins.numbered_schemas import numbers_among
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType


class Op(IntEnum):
    """The change that a row makes."""

    APPEND = 0
    UPSERT = 1
    DELETE = 2


class _Row(NamedTuple):
    """Some rows of a batch, those for which `holds` is true."""

    holds: Column
    layout: int
    value: Column
    op: Column


_NO_NAME: Final = r"^\s*$|^\.|\.\.|\.$"
_NO_STRUCT: Final = "Its value is neither a struct nor a JSON object, whose fields are a table's columns"
_NO_KEY: Final = "It deletes the row of its key, but it has no key"
_PLAIN_KEY: Final = (
    "Its key is no struct: to delete by it, iceberg.tables.default-id-columns or iceberg.table.T.id-columns has to "
    "name one column, the same for all tables, that is in no struct"
)


class SinkColumns:
    """The expressions of one task; numbers the layouts that it meets."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self.layouts: list[Schema | None] = []
        self.key_layouts: list[Schema | None] = []
        """Schemas of values and of deletes' keys by their numbers; None: JSON text."""

    def columns(self, records: Records) -> list[Column]:
        """Return the columns of these records."""
        rows = _Rows()
        for index, schema in enumerate(records.values):
            here, value = F.col("value_schema") == index, records.value(index)
            if schema is None:
                rows.refuse(here & ~value.startswith("{") & (value != "null"), _NO_STRUCT)
                self._schemaless(rows, here & value.startswith("{"), value)
            elif schema.type is SchemaType.STRUCT:
                self._structs(rows, here & value.isNotNull(), value, schema)
            else:
                rows.refuse(here & value.isNotNull(), _NO_STRUCT)
        if self._options.upserts:
            self._deletes(rows, records)
        return self._projected(rows, records)

    def _projected(self, rows: _Rows, records: Records) -> list[Column]:
        op, route, errors = F.lit(None).cast("tinyint"), self._route(records), rows.errors
        for row in rows.values + rows.keys:
            op = F.when(row.holds, row.op.cast("tinyint")).otherwise(op)
        if self._options.dynamic:
            name = ".".join(self._options.route)
            is_lost = route.isNull() | route.rlike(_NO_NAME)
            text = F.lit(f"Its field {name}, which names its table, is missing, null or no table's name")
            errors.append(F.when(op.isNotNull() & is_lost, text))
        return [
            F.col("_topic").alias("origin_topic"),
            F.col("_partition").alias("origin_partition"),
            F.col("_offset").alias("offset"),
            F.coalesce(*errors, F.lit(None).cast("string")).alias("error"),
            route.alias("route"),
            op.alias("op"),
            *_of_layouts("layout", "value", rows.values),
            *(_of_layouts("key_layout", "key", rows.keys) if rows.keys else ()),
        ]

    def _number(self, schema: Schema | None) -> int:
        return numbers_among(self.layouts, [schema])[0]

    def _key_number(self, schema: Schema | None) -> int:
        return numbers_among(self.key_layouts, [schema])[0]

    def _route(self, records: Records) -> Column:
        """The text of the field that chooses a table."""
        path = self._options.route
        found = [] if not path else [_text(records.value(i), schema, path) for i, schema in enumerate(records.values)]
        mine = [F.when(F.col("value_schema") == index, one) for index, one in enumerate(found)]
        route = F.coalesce(*mine, F.lit(None).cast("string"))
        return F.lower(route) if self._options.dynamic else route

    # -- values --------------------------------------------------------------------------------------------------------

    def _structs(self, rows: _Rows, here: Column, value: Column, schema: Schema) -> None:
        options = self._options
        if options.upserts and is_envelope(schema):
            self._envelope(rows, here, value, schema)
            return
        op = F.lit(Op.APPEND.value)
        if options.cdc_field:
            if field_at(schema, options.cdc_field) is None:
                rows.refuse(here, f"Its value has no field {'.'.join(options.cdc_field)}, the change of the row")
            op = _change(_text(value, schema, options.cdc_field))
        elif options.upserts:
            op = _unwrapped(_text(value, schema, (DELETED,)), _text(value, schema, (OPERATION,)))
        self._refuse_keyless(rows, here, schema)
        rows.add(here, self._number(schema), value, op)

    def _envelope(self, rows: _Rows, here: Column, value: Column, schema: Schema) -> None:
        after, before, row = schema.field("after"), schema.field("before"), value.getField("after")
        assert after is not None
        found = changes(rows, here, F.coalesce(value.getField("op"), F.lit("")), row)
        self._refuse_keyless(rows, found.writes | found.deletes, after.schema)
        rows.add(found.writes, self._number(after.schema), row, F.lit(Op.UPSERT.value))
        if before is not None and before.schema.type is SchemaType.STRUCT:
            old = value.getField("before")
            rows.add(found.deletes & old.isNotNull(), self._number(before.schema), old, F.lit(Op.DELETE.value))

    def _schemaless(self, rows: _Rows, here: Column, value: Column) -> None:
        options, text = self._options, self._number(None)
        if not options.upserts:
            rows.add(here, text, value, F.lit(Op.APPEND.value))
            return
        names = ("before", "after", "source", "op", DELETED, OPERATION)
        parsed = F.from_json(value, spark.StructType([spark.StructField(one, spark.StringType()) for one in names]))
        before, after, operation = parsed.getField("before"), parsed.getField("after"), parsed.getField("op")
        is_change = operation.isin("c", "r", "u", "d", "m", "t") & parsed.getField("source").startswith("{")
        is_envelope = here & F.coalesce(is_change, F.lit(False))
        found = changes(rows, is_envelope, F.coalesce(operation, F.lit("")), after)
        rows.add(found.writes, text, after, F.lit(Op.UPSERT.value))
        rows.add(found.deletes & before.isNotNull(), text, before, F.lit(Op.DELETE.value))
        op = _unwrapped(parsed.getField(DELETED), parsed.getField(OPERATION))
        if options.cdc_field:
            op = _change(_text(value, None, options.cdc_field))
        rows.add(here & ~is_envelope, text, value, op)

    # -- deletes by keys -----------------------------------------------------------------------------------------------

    def _deletes(self, rows: _Rows, records: Records) -> None:
        """Add the rows that only their keys tell: tombstones, and changes without the row before."""
        left = ~rows.met
        if self._options.route:
            # Decided: a tombstone names no table, and the change before it has deleted its row; as the JDBC sink.
            is_lost = left & self._route(records).isNull()
            rows.pass_over(is_lost)
            left &= ~is_lost
        no_key = left
        for index, schema in enumerate(records.keys):
            key = records.key(index)
            here = left & F.coalesce(F.col("key_schema") == index, F.lit(False)) & key.isNotNull()
            no_key &= ~here
            if schema is None:
                no_key |= here & (key == "null")
                here &= key != "null"
                rows.add_key(here & key.startswith("{"), self._key_number(None), key)
                here &= ~key.startswith("{")
            elif schema.type is SchemaType.STRUCT:
                self._refuse_keyless(rows, here, schema)
                rows.add_key(here, self._key_number(schema), key)
                continue
            name = self._plain_key()
            if name is None or (schema is not None and schema.type in (SchemaType.ARRAY, SchemaType.MAP)):
                rows.refuse(here, _PLAIN_KEY)
            elif schema is None:
                text = F.concat(F.lit(f"{{{json.dumps(name)}:"), key, F.lit("}"))
                rows.add_key(here, self._key_number(None), text)
            else:
                of = Schema(SchemaType.STRUCT, fields=(Field(name, schema),))
                rows.add_key(here, self._key_number(of), F.struct(key.alias(name)))
        rows.refuse(no_key, _NO_KEY)

    def _plain_key(self) -> str | None:
        """The only column of all tables' keys; None if there is not just one."""
        columns = self._keys.pop() if len(self._keys) == 1 else ()
        return columns[0] if len(columns) == 1 and "." not in columns[0] else None

    @property
    def _keys(self) -> set[tuple[str, ...]]:
        """The keys of all tables, as far as the settings name them."""
        options = self._options
        return {options.id_columns(table) for table in (options.tables or [*options.of_tables, ""])}

    def _refuse_keyless(self, rows: _Rows, here: Column, schema: Schema) -> None:
        """Refuse rows without a field of the keys of all tables, which a table could not be made of, either."""
        ignore = str.lower if self._options.ignores_case else str
        fields = {ignore(one.name) for one in schema.fields}
        keys = [{path.partition(".")[0] for path in key} for key in self._keys] if self._options.upserts else [set()]
        for name in sorted(set.intersection(*keys)):
            if ignore(name) not in fields:
                rows.refuse(here, f"It has no field {name}, which id-columns name as a part of its table's key")


class _Rows:
    """The rows of a batch by what becomes of them, as conditions."""

    def __init__(self) -> None:
        self.values: list[_Row] = []
        self.keys: list[_Row] = []
        self.errors: list[Column] = []
        self._met: list[Column] = []

    @property
    def met(self) -> Column:
        """True for all rows that have got an effect or an error."""
        known = F.lit(False)
        for one in self._met:
            known |= F.coalesce(one, F.lit(False))
        return known

    def add(self, holds: Column, layout: int, value: Column, op: Column) -> None:
        """Add rows that change a table by their values."""
        self._met.append(holds)
        self.values.append(_Row(holds, layout, value, op))

    def add_key(self, holds: Column, layout: int, key: Column) -> None:
        """Add rows that delete by their keys."""
        self._met.append(holds)
        self.keys.append(_Row(holds, layout, key, F.lit(Op.DELETE.value)))

    def refuse(self, holds: Column, why: str) -> None:
        """Add rows that cannot be written."""
        self._met.append(holds)
        self.errors.append(F.when(holds, F.lit(why)))

    def pass_over(self, holds: Column) -> None:
        """Add rows that change nothing."""
        self._met.append(holds)


def _of_layouts(number: str, prefix: str, rows: Sequence[_Row]) -> list[Column]:
    """The numbers of rows' layouts, and a column for each layout."""
    numbers, data = F.lit(None).cast("int"), dict[int, list[Column]]()
    for row in rows:
        numbers = F.when(row.holds, F.lit(row.layout)).otherwise(numbers)
        data.setdefault(row.layout, []).append(F.when(row.holds, row.value))
    columns = (F.coalesce(*parts).alias(f"{prefix}_{layout}") for layout, parts in data.items())
    return [numbers.alias(number), *columns]


def _change(text: Column) -> Column:
    """The operation that Tabular's `cdc-field` names.

    Decided: an insert is an upsert, because redelivery and new snapshots must not make rows twice; loses: a delete file
    that an insert might do without.
    """
    return F.when(F.upper(F.substring(text, 1, 1)) == "D", F.lit(Op.DELETE.value)).otherwise(F.lit(Op.UPSERT.value))


def _unwrapped(deleted: Column, operation: Column) -> Column:
    """The operation of a row that Debezium's transform has unwrapped."""
    return F.when(is_unwrapped_delete(deleted, operation), F.lit(Op.DELETE.value)).otherwise(F.lit(Op.UPSERT.value))


def _text(value: Column, schema: Schema | None, path: Sequence[str]) -> Column:
    """The text of the field at this path; null if it is missing."""
    if schema is None:
        return F.get_json_object(value, "$" + "".join(f"['{name}']" for name in path))
    return field_text(value, schema, path)
