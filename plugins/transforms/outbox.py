"""Debezium's outbox EventRouter: events of an outbox table become the records that their rows describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Settings
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.catalyst.java_calls import compact_json
from headrace.plugins.interop.java.json_members import object_of
from headrace.plugins.interop.java.regex import JavaRegex
from headrace.plugins.interop.json.writing import JsonWriter
from headrace.plugins.records import Records
from headrace.plugins.schema import Field, Schema, SchemaType, literal, logical
from headrace.plugins.transforms.change_events import (
    DEBEZIUM_VERSION,
    Changes,
    Events,
    RefusedError,
    events_of,
    field_of,
    part_of,
    require_struct,
)
from headrace.plugins.transforms.extract_field import ExtractFieldValue
from headrace.plugins.transforms.headers import appended, made_header
from headrace.plugins.transforms.key_or_value import only_struct
from headrace.plugins.transforms.new_columns import NewColumns, without_null_values
from headrace.plugins.transforms.outbox_settings import HEADER, PARTITION, REGEX, SETTINGS, outbox_of
from headrace.plugins.transforms.predicates import RecordIsTombstone
from headrace.plugins.transforms.struct_fields import field_value, struct_of, twice

_PER_MS: Final = {
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1_000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}
_BLANK: Final = r"\A[\x00-\x20]*\z"
_PAYLOAD: Final = "payload"
_JSON: Final = JsonWriter(replace_nulls=True, numeric=False)


class _Row(NamedTuple):
    """Rows of the outbox table, of one schema."""

    value: Column
    schema: Schema

    def field(self, name: str) -> Field:
        """Return a field. Errors: RefusedError in Connect's words."""
        found = self.schema.field(name)
        if found is None:
            raise RefusedError(f"{name} is not a valid field name")
        return found

    def get(self, field: Field) -> Column:
        """Return a field's value; its default replaces null."""
        return field_value(self.value, field, True)

    def typed(self, name: str, type_: SchemaType) -> Column:
        """Return the value of a field of this type, as it is. Errors: RefusedError in Connect's words."""
        return self.value.getField(field_of(self.schema, name, type_).name)


class _Outcome(NamedTuple):
    """New values for some rows."""

    holds: Column
    value: Column
    schema: Schema | None


class EventRouter(Transform):
    """Replaces inserts into an outbox table by what their rows say: value, key, topic, timestamp and headers.

    Deletes, updates and tombstones are left out; what is no event stays as it is.

    Decided: an expanded payload has no schema, because a plan has its schemas before its records; loses: the schema
    that Debezium infers for each one. It is the document as it was written: Debezium leaves out empty arrays, and keeps
    the text of documents whose arrays mix types.

    Decided: a struct with columns beside the payload has the name of the table's rows, because Debezium's has the first
    topic in it that a task met, also for all others; loses: that name. A version by a column is refused with it.
    """

    settings: ClassVar[Settings] = SETTINGS
    version: ClassVar[str] = DEBEZIUM_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        self._outbox = outbox_of(config)
        self._after = ExtractFieldValue()
        self._after.configure({"field": "after"})

    def apply(self, records: Records) -> Records:
        """Return the events' records. Errors: ConfigError if Java refuses the regular expression."""
        changes = Changes()
        changes.drops.append(RecordIsTombstone().test(records))
        for events in events_of(records):
            try:
                require_struct(events.schema, "Detect Debezium Operation")
                op = events.value.getField(field_of(events.schema, "op", SchemaType.STRING).name)
            except RefusedError as error:
                changes.messages.append(F.when(events.rows, error.message))
                continue
            update = events.rows & (op == "u")
            changes.drops.append(events.rows & (op.isin("d") if self._outbox.updates_fail else op.isin("d", "u")))
            if self._outbox.updates_fail:
                why = F.lit("Unexpected update message received, fail: table.op.invalid.behavior is fatal")
                changes.messages.append(F.when(update, why))
            changes.messages.append(F.when(events.rows & op.isNull(), F.lit("The event has no operation: op is null")))
            self._insert(changes, events, events.rows & ~op.isin("d", "u"))
        done = changes.made(records)
        return without_null_values(done) if self._outbox.tombstones else done

    def _insert(self, changes: Changes, events: Events, rows: Column) -> None:
        """Add the new columns of these rows."""
        try:
            after, schema = part_of(self._after, events)
            require_struct(schema, "Read Outbox Event")
        except RefusedError as error:
            changes.messages.append(F.when(rows, error.message))
            return
        changes.messages.append(F.when(rows & after.isNull(), only_struct("Read Outbox Event", F.lit("null"))))
        try:
            parts, outcomes, messages = self._made(events, _Row(after, schema), rows)
        except RefusedError as error:
            changes.messages.append(F.when(rows, error.message))
            return
        changes.messages += [F.when(rows, message) for message in messages]
        changes.columns.append(NewColumns(rows, events.number, parts))
        whole = len(outcomes) == 1
        for one in outcomes:
            part: dict[str, tuple[Column, Schema | None]] = {"value": (one.value, one.schema)}
            changes.columns.append(NewColumns(rows & one.holds, events.number, part, whole))

    def _made(
        self, events: Events, row: _Row, rows: Column
    ) -> tuple[dict[str, tuple[Column, Schema | None]], list[_Outcome], list[Column]]:
        """Return new columns by name, new values, and what fails rows. Errors: RefusedError."""
        outbox = self._outbox
        if (payload := row.schema.field(outbox.payload)) is None:
            raise RefusedError(f"Unable to find payload field {outbox.payload} in event")
        timestamp, messages = self._timestamp(events, row)
        event_id = row.field(outbox.id)
        headers = [made_header(events.records, "id", row.get(event_id), event_id.schema)]
        partition = F.lit(None).cast("int")
        for one in outbox.placed:
            if row.schema.field(one.field) is None and not outbox.lacks_fail:
                continue
            field = row.field(one.field)
            if one.place == HEADER:
                headers.append(made_header(events.records, one.alias, row.get(field), field.schema))
            elif one.place == PARTITION:
                partition = row.typed(one.field, SchemaType.INT32)
        outcomes = self._values(row, payload, messages)
        key = row.field(outbox.key)
        topic, routing = self._topic(row)
        messages += [refused for _, refused in headers] + routing
        parts = {
            "key": (row.get(key), key.schema),
            "topic": (topic, None),
            "timestamp": (timestamp, None),
            "headers": (appended([header for header, _ in headers]), None),
        }
        if "offset" not in events.records.frame.columns:  # a sink's record keeps the partition that it came from
            parts["partition"] = partition, None
        return parts, outcomes, messages

    def _timestamp(self, events: Events, row: _Row) -> tuple[Column, list[Column]]:
        name = self._outbox.timestamp
        if name is None:
            return events.value.getField(field_of(events.schema, "ts_ms", SchemaType.INT64).name), []
        if row.schema.field(name) is None:
            raise RefusedError(f"Unable to find timestamp field {name} in event")
        value, of = row.typed(name, SchemaType.INT64), row.field(name).schema.name
        seen = events.schema.field("ts_ms")
        is_seen = seen is not None and seen.schema.type is SchemaType.INT64
        own = events.value.getField("ts_ms") if is_seen else F.lit(None).cast("long")
        if of in _PER_MS:
            ms = value if _PER_MS[of] == 1 else F.call_function("div", value, F.lit(_PER_MS[of]))
            return F.coalesce(ms, own), []
        found = f"{of}" if of is not None else "INT64 (without logical schema name)"
        why = F.lit(f"Unsupported field type {found} for event timestamp")
        return own, [F.when(value.isNotNull(), why)]

    def _topic(self, row: _Row) -> tuple[Column, list[Column]]:
        route, regex = row.typed(self._outbox.route, SchemaType.STRING), JavaRegex(REGEX, self._outbox.regex)
        null = F.when(route.isNull(), F.lit(f"No topic is named: {self._outbox.route} is null"))
        try:
            return regex.replaced(route, self._outbox.replacement), [null]
        except ValueError as error:
            return route, [null, F.when(regex.matches(route), F.lit(str(error)))]

    def _values(self, row: _Row, payload: Field, messages: list[Column]) -> list[_Outcome]:
        """Return new values; tombstones and expanded payloads first, because those of others are for all rows."""
        value, schema = row.get(payload), payload.schema
        is_text = schema.type is SchemaType.STRING and logical(schema) is None
        left, outcomes = F.lit(True), []
        if self._outbox.tombstones:
            gone = value.isNull() | value.rlike(_BLANK) if is_text else value.isNull()
            outcomes.append(_Outcome(gone, literal(None, None), None))
            left = ~gone
        if self._outbox.expands and is_text:
            json = compact_json(F.when(value.rlike(r"\A[{\[]"), value), nulls=self._outbox.keeps_nulls)
            outcomes.append(_Outcome(left & json.isNotNull(), self._object(row, json), None))
            left = left & json.isNull()
        outcomes.append(self._enveloped(row, payload, left, messages))
        return outcomes

    def _envelope(self, row: _Row) -> Iterator[tuple[str, Field]]:
        for one in self._outbox.envelope:
            if row.schema.field(one.field) is not None or self._outbox.lacks_fail:
                yield one.alias, row.field(one.field)

    def _object(self, row: _Row, json: Column) -> Column:
        if not self._outbox.envelope:
            return json
        others = [(alias, _JSON.payload(row.get(one), one.schema, "", "")) for alias, one in self._envelope(row)]
        return object_of([(_PAYLOAD, json), *others])

    def _enveloped(self, row: _Row, payload: Field, holds: Column, messages: list[Column]) -> _Outcome:
        value, schema = row.get(payload), payload.schema
        if not self._outbox.envelope:
            return _Outcome(holds, value, schema)
        fields = [(Field(_PAYLOAD, schema), value)]
        fields += [(Field(alias, one.schema), row.get(one)) for alias, one in self._envelope(row)]
        if (message := twice([field for field, _ in fields])) is not None:
            raise RefusedError(message)
        for field, column in fields:
            if not field.schema.optional:
                text = "Invalid value: null used for required field: "
                null = F.lit(f'{text}"{field.name}", schema type: {field.schema.type.name}')
                messages.append(F.when(column.isNull(), null))
        made = Schema(SchemaType.STRUCT, name=row.schema.name, fields=tuple(field for field, _ in fields))
        return _Outcome(holds, struct_of(fields), made)
