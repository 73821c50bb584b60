"""DebeziumTransform and DmsTransform of Iceberg's sink: the row of a change, with `_cdc`, which says what changed.

Decided: what crashes Iceberg's transforms is an error of its record, and a truncate, which has no row, is left out with
a schema as it is without; loses: nothing. A `schema` of the source that is null counts as none: its `db` is used, where
Iceberg names the table `null.t`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.json_members import is_object, member, object_text
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.records import Records
from headrace.plugins.schema import STRING, TIMESTAMP, Field, Schema, SchemaType
from headrace.plugins.transforms.change_events import Changes, RefusedError, field_of, require_struct
from headrace.plugins.transforms.new_columns import NewColumns
from headrace.plugins.transforms.struct_fields import (
    field_value,
    json_members,
    no_object,
    set_members,
    struct_of,
    struct_schema,
    twice,
)
from headrace.plugins.transforms.timestamps import of_ms

ICEBERG_VERSION: Final = "1.12.0"
_CDC: Final = "_cdc"
_PURPOSE: Final = "Debezium transform"
_DMS_PURPOSE: Final = "DMS transform"
_TABLE: Final = "{db}.{table}"
_VARIABLE: Final = re.compile(r"(\{db\}|\{table\})")
_TEXTS: Final = "op string, source struct<schema: string, db: string, table: string>"
_DMS_TEXTS: Final = "metadata struct<operation: string, `schema-name`: string, `table-name`: string>"
_TIME: Final = Schema(SchemaType.INT64, name=TIMESTAMP, version=1)
_OFFSET: Final = Schema(SchemaType.INT64, optional=True)


class _Table(NamedTuple):
    """The table of a change; null if the event does not say it."""

    db: Column
    name: Column

    def text(self, pattern: str) -> Column:
        """Return the pattern with both names in it."""
        names = {"{db}": self.db, "{table}": self.name}
        return F.concat(*(names.get(part, F.lit(part)) for part in _VARIABLE.split(pattern) if part))

    def missing(self) -> Column:
        """Return why a row has no such table; null if it has one."""
        return F.when(self.db.isNull() | self.name.isNull(), F.lit("The event does not name its table"))


class _Event(NamedTuple):
    """Parts of events of one schema."""

    op: Column
    time: Column
    table: _Table
    wrong: Column
    """The reason that an event is refused; null if it is not."""

    @classmethod
    def of(cls, value: Column, schema: Schema) -> _Event:
        """Find the parts. Errors: RefusedError in Connect's words."""
        field_of(schema, "op", SchemaType.STRING)
        field_of(schema, "ts_ms", SchemaType.INT64)
        source = field_of(schema, "source", SchemaType.STRUCT).schema
        names = ["schema", "db"] if source.field("schema") is not None else ["db"]
        for name in (*names, "table"):
            field_of(source, name, SchemaType.STRING)
        op, given, moment = value.getField("op"), value.getField("source"), of_ms(value.getField("ts_ms"))
        table = _Table(F.coalesce(*(given.getField(name) for name in names)), given.getField("table"))
        wrong = F.coalesce(
            _no_operation(op),
            F.when(value.getField("ts_ms").isNull(), F.lit("The event has no ts_ms")),
            moment.beyond(),
            table.missing(),
        )
        return cls(op, moment.timestamp, table, wrong)


class DebeziumTransform(Transform):
    """Puts the row of a Debezium event, that before a delete, in the place of the event, and adds `_cdc`.

    Any value that is not null is taken for an event.
    """

    settings: ClassVar[Settings] = Settings(
        Setting(
            "cdc.target.pattern",
            Type.STRING,
            None,
            None,
            Importance.MEDIUM,
            "The text of _cdc.target, in which {db} and {table} stand for the table's names; {db} is its schema if it "
            "has one. By default {db}.{table}.",
        )
    )
    version: ClassVar[str] = ICEBERG_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        self._target: str = self.settings.parse(config)["cdc.target.pattern"] or _TABLE

    def apply(self, records: Records) -> Records:
        """Replace events by their rows; those without a row are left out."""
        changes = Changes()
        for number, schema in enumerate(records.values):
            rows = (F.col("value_schema") == number) & records.value(number).isNotNull()
            if schema is None:
                _take_json(changes, number, rows, self._of_json(records, records.value(number)))
                continue
            try:
                self._unwrap(changes, records, number, rows, require_struct(schema, _PURPOSE))
            except RefusedError as error:
                changes.messages.append(F.when(rows, error.message))
        return changes.made(records)

    def _unwrap(self, changes: Changes, records: Records, number: int, rows: Column, schema: Schema) -> None:
        value = records.value(number)
        event = _Event.of(value, schema)
        is_delete = F.coalesce(event.op == "d", F.lit(False))
        for name, chosen in (("before", rows & is_delete), ("after", rows & ~is_delete)):
            try:
                of = field_of(schema, name, SchemaType.STRUCT).schema
            except RefusedError as error:
                changes.messages.append(F.when(chosen, error.message))
                continue
            row = value.getField(name)
            changes.drops.append(chosen & row.isNull())
            changes.messages.append(F.when(chosen & row.isNotNull(), event.wrong))
            for of_key, key in _keys(records):
                try:
                    made = self._row(records, row, of, event, key)
                except RefusedError as error:
                    changes.messages.append(F.when(chosen & of_key, error.message))
                else:
                    changes.columns.append(NewColumns(chosen & of_key, number, {"value": made}, whole=False))

    def _row(
        self, records: Records, row: Column, schema: Schema, event: _Event, key: tuple[Field, Column] | None
    ) -> tuple[Column, Schema]:
        """Return the row with `_cdc`, and its schema. Errors: RefusedError in Connect's words."""
        parts = [
            (Field("op", STRING), _operation(event.op, "u", "d")),
            (Field("ts", _TIME), event.time),
            (Field("offset", _OFFSET), _offset(records)),
            (Field("source", STRING), event.table.text(_TABLE)),
            (Field("target", STRING), event.table.text(self._target)),
            *([] if key is None else [key]),
        ]
        fields = [*schema.fields, Field(_CDC, Schema(SchemaType.STRUCT, fields=tuple(one for one, _ in parts)))]
        if (message := twice(fields)) is not None:
            raise RefusedError(message)
        values = [*(field_value(row, one, True) for one in schema.fields), struct_of(parts)]
        return struct_of(zip(fields, values, strict=True)), struct_schema(schema, fields)

    def _of_json(self, records: Records, value: Column) -> _JsonChange:
        texts = F.from_json(value, _TEXTS)
        source = texts["source"]
        key = records.of_keys(lambda key, of: F.when(is_object(key), key) if of is None else F.lit(None))

        def cdc(event: Column) -> dict[str, Column]:
            table = _Table(event["db"], event["table"])
            return {
                "op": quoted(_operation(event["op"], "u", "d")),
                "ts": F.coalesce(member(value, "ts_ms"), F.lit("null")),
                "offset": _offset(records).cast("string"),
                "source": quoted(table.text(_TABLE)),
                "target": quoted(table.text(self._target)),
                "key": key,
            }

        return _JsonChange(
            F.coalesce(no_object(_PURPOSE, value), _no_operation(texts["op"])),
            F.struct(
                texts["op"].alias("op"),
                F.when(texts["op"] == "d", member(value, "before")).otherwise(member(value, "after")).alias("row"),
                F.coalesce(source["schema"], source["db"]).alias("db"),
                source["table"].alias("table"),
            ),
            cdc,
        )


class DmsTransform(Transform):
    """Puts the row of a change by AWS DMS, which is JSON without a schema, in its place, and adds `_cdc`."""

    settings: ClassVar[Settings] = Settings()
    version: ClassVar[str] = ICEBERG_VERSION

    def apply(self, records: Records) -> Records:
        """Replace changes by their rows; those without `data` or `metadata`, such as new tables, are left out."""
        changes = Changes()
        for number, schema in enumerate(records.values):
            rows = (F.col("value_schema") == number) & records.value(number).isNotNull()
            if schema is None:
                _take_json(changes, number, rows, self._of_json(records.value(number)))
            else:
                why = "DmsTransform reads JSON without a schema: set schemas.enable=false of the value's JsonConverter"
                changes.messages.append(F.when(rows, F.lit(why)))
        return changes.made(records)

    def _of_json(self, value: Column) -> _JsonChange:
        metadata = F.from_json(value, _DMS_TEXTS)["metadata"]

        def cdc(event: Column) -> dict[str, Column]:
            return {
                "op": quoted(_operation(event["op"], "update", "delete")),
                "ts": F.coalesce(member(member(value, "metadata"), "timestamp"), F.lit("null")),
                "source": quoted(_Table(event["db"], event["table"]).text(_TABLE)),
            }

        return _JsonChange(
            no_object(_DMS_PURPOSE, value),
            F.struct(
                metadata["operation"].alias("op"),
                F.when(is_object(member(value, "metadata")), member(value, "data")).alias("row"),
                metadata["schema-name"].alias("db"),
                metadata["table-name"].alias("table"),
            ),
            cdc,
        )


class _JsonChange(NamedTuple):
    """A change without a schema."""

    no_event: Column
    """The reason that a value is refused as no event; null if it is one."""
    event: Column
    """Its `op`, `row`, `db` and `table`; null if it lacks them."""
    cdc: Callable[[Column], Mapping[str, Column]]
    """Makes the JSON of the members of `_cdc`, of these parts."""


def _take_json(changes: Changes, number: int, rows: Column, change: _JsonChange) -> None:
    event = change.event
    has_row = F.coalesce(is_object(event["row"]), F.lit(False))

    def with_cdc(event: Column) -> Column:
        cdc = object_text(json_members(change.cdc(event)))
        return let(cdc, lambda one: set_members(event["row"], {_CDC: one}))

    changes.columns.append(NewColumns(rows, number, {"value": (let(event, with_cdc), None)}))
    changes.drops.append(rows & change.no_event.isNull() & ~has_row)
    wrong = F.coalesce(_no_operation(event["op"]), _Table(event["db"], event["table"]).missing())
    changes.messages.append(F.when(rows, F.coalesce(change.no_event, F.when(has_row, wrong))))


def _no_operation(op: Column) -> Column:
    return F.when(op.isNull(), F.lit("The event names no operation"))


def _operation(op: Column, update: str, delete: str) -> Column:
    """Return Iceberg's letter of an operation; null for null."""
    return F.when(op == update, F.lit("U")).when(op == delete, F.lit("D")).when(op.isNotNull(), F.lit("I"))


def _offset(records: Records) -> Column:
    return F.col("offset") if "offset" in records.frame.columns else F.lit(None).cast("long")


def _keys(records: Records) -> Iterator[tuple[Column, tuple[Field, Column] | None]]:
    """Yield the rows of each schema of keys, with the field for such keys: None for schemaless keys and without key."""
    index = F.col("key_schema")
    without = index.isNull()
    for number, schema in enumerate(records.keys):
        if schema is None:
            without = without | (index == number)
        else:
            yield F.coalesce(index == number, F.lit(False)), (Field("key", schema), records.key(number))
    yield F.coalesce(without, F.lit(False)), None
