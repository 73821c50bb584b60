"""Debezium's ExtractNewRecordState: replaces a change event by the row after the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Importance, Setting, Settings, Type, Width
from headrace.config.validators import Check
from headrace.config.values import invalid, trimmed
from headrace.plugins.contracts import Transform
from headrace.plugins.records import Records
from headrace.plugins.schema import STRING, Field, Schema, SchemaType, literal
from headrace.plugins.transforms.change_events import (
    DEBEZIUM_VERSION,
    Changes,
    Events,
    RefusedError,
    events_of,
    field_of,
    part_of,
    require_struct,
    required,
)
from headrace.plugins.transforms.extract_field import ExtractFieldValue
from headrace.plugins.transforms.headers import appended, made_header
from headrace.plugins.transforms.insert_field import InsertFieldValue
from headrace.plugins.transforms.key_or_value import KeyOrValue
from headrace.plugins.transforms.new_columns import NewColumns, without_null_values
from headrace.plugins.transforms.predicates import RecordIsTombstone
from headrace.plugins.transforms.replace_field import split_pair
from headrace.plugins.transforms.struct_fields import REPLACE_NULLS, struct_of, struct_schema, twice

_DROP: Final = "drop"
_TOMBSTONE: Final = "tombstone"
_REWRITE: Final = "rewrite"
_REWRITE_WITH_TOMBSTONE: Final = "rewrite-with-tombstone"
_DELETE_TO_TOMBSTONE: Final = "delete-to-tombstone"
_MODES: Final = (_DROP, _TOMBSTONE, _REWRITE, _REWRITE_WITH_TOMBSTONE, _DELETE_TO_TOMBSTONE)
_PARENTS: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("op", "ts_ms", "ts_us", "ts_ns")),
    **dict.fromkeys(("id", "total_order", "data_collection_order"), "transaction"),
    "updateDescription": "updateDescription",
}
"""Struct of the event for fields named alone; None: the event itself. All others are in source."""
_BLANK: Final = r"\A[\x00-\x20]*\z"


class _Addition(NamedTuple):
    """A part of the event that becomes a field or a header."""

    parent: str | None
    """Struct of the event with the field; None: the event itself."""
    field: str
    name: str

    @classmethod
    def of(cls, text: str, prefix: str) -> _Addition:
        """Parse `field` or `struct.field`, optionally with `:name`. Errors: ValueError."""
        parts = split_pair(text)
        if len(parts) > 2:
            raise ValueError(f"Unexpected field name: {text}")
        steps = parts[0].rstrip(".").split(".") if parts else [""]
        if not steps[0]:
            raise ValueError(f"No field is named: {text}")
        if len(steps) == 1:
            parent, name = _PARENTS.get(steps[0], "source"), steps[0]
        else:
            parent, name = steps[0], f"{steps[0]}_{steps[1]}"
        return cls(parent, steps[:2][-1], prefix + (parts[1] if len(parts) == 2 else name))


class _Replacement(NamedTuple):
    """Replacement for an event."""

    value: Column
    schema: Schema | None
    topic: Column | None = None
    """Null for a record that stays in its topic."""
    message: Column | None = None


def _additions(texts: list[str], prefix: str) -> tuple[_Addition, ...]:
    return tuple(_Addition.of(text, prefix) for text in texts if text)


def _no_additions(name: str, value: Any) -> str | None:
    try:
        _additions(value or [], "")
    except ValueError as error:
        return invalid(name, value, str(error))
    return None


def _no_mode(name: str, value: Any) -> str | None:
    known = value is None or value.lower() in _MODES
    return None if known else invalid(name, value, f"Value must be one of {', '.join(_MODES)}")


def _no_header(name: str, value: Any) -> str | None:
    if not trimmed(value or ""):
        return None
    why = "Fields to drop that a header names would give every record a schema of its own: leave it empty, and name the"
    return invalid(name, value, f"{why} fields in 'exclude' of ReplaceField, after this transform")


_ADDITIONS: Final = Check(_no_additions, "a list of field, struct.field, field:name or struct.field:name")


def _setting(name: str, type_: Type, default: Any, width: Width, text: str, validator: Check | None = None) -> Setting:
    return Setting(name, type_, default, validator, Importance.LOW, text, None, 1, width)


class ExtractNewRecordState(Transform):
    """Replaces a change event by its row; other records stay as they are.

    Decided: `drop.fields.header.name` is refused, because each record's header would decide its schema, and a plan has
    its schemas before its records; loses: that setting, and the two that belong to it.

    Decided: a wrong mode and wrong additions are refused at validation, because Debezium only fails the task at its
    start; loses: nothing. An event without a struct that an addition names is an error of its record; Debezium crashes
    there.
    """

    settings: ClassVar[Settings] = Settings(
        Setting(
            "delete.tombstone.handling.mode",
            Type.STRING,
            _TOMBSTONE,
            Check(_no_mode, "one of " + ", ".join(_MODES)),
            Importance.MEDIUM,
            "What becomes of deletes and of the tombstones after them. drop: both go. tombstone: the delete becomes a "
            "null value, its tombstone goes. rewrite: the delete becomes the row before it, with the field __deleted "
            "(true; false in all others), its tombstone goes. rewrite-with-tombstone: the same, and the tombstone "
            "stays. delete-to-tombstone: the delete becomes a tombstone without a schema, its own tombstone goes.",
            None,
            1,
            Width.MEDIUM,
        ),
        _setting(
            "route.by.field", Type.STRING, "", Width.LONG, "The field of the row whose text is the record's topic."
        ),
        _setting("add.fields.prefix", Type.STRING, "__", Width.SHORT, "What the names of added fields begin with."),
        _setting(
            "add.fields",
            Type.LIST,
            [],
            Width.LONG,
            "Parts of the event to add to the row, as field, struct.field or either with :name: op,source.ts_ms adds "
            "__op and __source_ts_ms. A field alone is one of source, of transaction (id, total_order, "
            "data_collection_order) or of the event itself (op, ts_ms, ts_us, ts_ns). What an event does not have is "
            "left out.",
            _ADDITIONS,
        ),
        _setting("add.headers.prefix", Type.STRING, "__", Width.SHORT, "What the keys of added headers begin with."),
        _setting(
            "add.headers", Type.LIST, [], Width.LONG, "Parts of the event to add as headers, as add.fields.", _ADDITIONS
        ),
        _setting(
            "drop.fields.header.name",
            Type.STRING,
            None,
            Width.SHORT,
            "Not supported: a header that names fields to drop. Use ReplaceField.",
            Check(_no_header, "empty"),
        ),
        _setting("drop.fields.from.key", Type.BOOLEAN, False, Width.SHORT, "Belongs to drop.fields.header.name."),
        _setting(
            "drop.fields.keep.schema.compatible",
            Type.BOOLEAN,
            True,
            Width.SHORT,
            "Belongs to drop.fields.header.name.",
        ),
        replace(
            REPLACE_NULLS,
            importance=Importance.LOW,
            documentation="If true, and a rewrite adds __deleted, a field that is null is read as the default of its "
            "schema if that has one.",
        ),
    )
    version: ClassVar[str] = DEBEZIUM_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._mode: str = parsed["delete.tombstone.handling.mode"].lower()
        self._route: str = parsed["route.by.field"]
        self._fields = _additions(parsed["add.fields"], parsed["add.fields.prefix"])
        self._headers = _additions(parsed["add.headers"], parsed["add.headers.prefix"])
        replaces = str(parsed["replace.null.with.default"]).lower()
        self._after, self._before = ExtractFieldValue(), ExtractFieldValue()
        self._after.configure({"field": "after"})
        self._before.configure({"field": "before"})
        self._updated, self._deleted = InsertFieldValue(), InsertFieldValue()
        mark = {"static.field": "__deleted", "replace.null.with.default": replaces}
        self._updated.configure({**mark, "static.value": "false"})
        self._deleted.configure({**mark, "static.value": "true"})

    def apply(self, records: Records) -> Records:
        """Replace events by their rows, in other topics if `route.by.field` is set, and with added headers."""
        changes = Changes()
        self._tombstones(changes, records)
        for events in events_of(records):
            self._unwrap(changes, events)
        done = changes.made(records)
        return without_null_values(done) if self._mode == _DELETE_TO_TOMBSTONE else done

    def _tombstones(self, changes: Changes, records: Records) -> None:
        tombstone = RecordIsTombstone().test(records)
        if self._mode != _REWRITE_WITH_TOMBSTONE:
            changes.drops.append(tombstone)
            return
        of = [made_header(records, one.name, F.lit("d"), STRING) for one in self._headers if one.field == "op"]
        if of:
            changes.columns.append(NewColumns(tombstone, None, {"headers": (appended([one for one, _ in of]), None)}))

    def _unwrap(self, changes: Changes, events: Events) -> None:
        """Add the new columns of these events: deletes first, since that of updates is for all rows of a schema."""
        try:
            headers = self._added_headers(events)
            after, after_schema = part_of(self._after, events)
        except RefusedError as error:
            changes.messages.append(F.when(events.rows, error.message))
            return
        gone = events.rows & after.isNull()
        try:
            before, before_schema = part_of(self._before, events)
        except RefusedError as error:
            changes.messages.append(F.when(gone, error.message))
        else:
            # A truncate has neither `before` nor `after`.
            changes.drops.append(gone if self._mode == _DROP else gone & before.isNull())
            if self._mode != _DROP:
                deleted = gone & before.isNotNull()
                _take(
                    changes,
                    events,
                    deleted,
                    headers,
                    lambda: self._delete(events, after_schema, before, before_schema),
                    whole=False,
                )
        updated = events.rows & after.isNotNull()
        # Nulls of an event's schema are tombstones, which may have to stay unchanged.
        whole = not (self._mode == _REWRITE_WITH_TOMBSTONE and events.schema.optional)
        _take(changes, events, updated, headers, lambda: self._update(events, after, after_schema), whole=whole)

    def _update(self, events: Events, after: Column, schema: Schema) -> _Replacement:
        row = self._marked(self._updated, events, after, schema)
        topic = None
        if self._route:
            require_struct(row.schema, "Read record to set topic routing for CREATE / UPDATE")
            topic = _topic(row.value, row.schema, self._route)
        return self._extended(events, row)._replace(topic=topic)

    def _delete(self, events: Events, after_schema: Schema, before: Column, schema: Schema) -> _Replacement:
        if self._mode == _TOMBSTONE:
            row = _Replacement(literal(None, after_schema), after_schema)
        elif self._mode == _DELETE_TO_TOMBSTONE:
            row = _Replacement(literal(None, None), None)
        else:
            row = self._marked(self._deleted, events, before, schema)
        topic = None
        if self._route:
            if schema.type is not SchemaType.STRUCT:
                raise RefusedError("Field 'before' is not of type STRUCT")
            topic = _topic(before, schema, self._route)
        rewrites = self._mode in (_REWRITE, _REWRITE_WITH_TOMBSTONE)
        return (self._extended(events, row) if rewrites else row)._replace(topic=topic)

    def _marked(self, insertion: KeyOrValue, events: Events, value: Column, schema: Schema) -> _Replacement:
        """Add the field __deleted, if this is a rewrite."""
        if self._mode not in (_REWRITE, _REWRITE_WITH_TOMBSTONE) or schema.type is not SchemaType.STRUCT:
            return _Replacement(value, schema)
        return _Replacement(*required(insertion.with_schema(value, schema, events.records)))

    def _extended(self, events: Events, row: _Replacement) -> _Replacement:
        """Add the parts of the event named by `add.fields`; the schema is required and has no default."""
        schema = require_struct(row.schema, "source field insertion")
        field_of(events.schema, "op", SchemaType.STRING)
        new = [(one, *found) for one in self._fields if (found := _found(one, events)) is not None]
        fields = [*schema.fields, *(Field(one.name, of) for one, of, _ in new)]
        if (message := twice(fields)) is not None:
            raise RefusedError(message)
        made = struct_schema(schema, fields)
        if not new:
            return _Replacement(row.value, made)
        columns = [row.value.getField(one.name) for one in schema.fields] + [column for _, _, column in new]
        others = [F.when(c.isNotNull(), "Struct schemas do not match.") for _, of, c in new if _is_struct(of)]
        value = struct_of(zip(fields, columns, strict=True))
        return _Replacement(value, made, None, F.coalesce(*others) if others else None)

    def _added_headers(self, events: Events) -> list[tuple[Column, Column]]:
        found = ((one, _found(one, events)) for one in self._headers)
        return [made_header(events.records, one.name, part[1], part[0]) for one, part in found if part is not None]


def _take(
    changes: Changes,
    events: Events,
    rows: Column,
    headers: Sequence[tuple[Column, Column]],
    make: Callable[[], _Replacement],
    *,
    whole: bool,
) -> None:
    try:
        row = make()
    except RefusedError as error:
        changes.messages.append(F.when(rows, error.message))
        return
    parts: dict[str, tuple[Column, Schema | None]] = {"value": (row.value, row.schema)}
    if row.topic is not None:
        parts["topic"] = row.topic, None
    if headers:
        parts["headers"] = appended([one for one, _ in headers]), None
    changes.columns.append(NewColumns(rows, events.number, parts, whole))
    refusals = [refused for _, refused in headers] + ([] if row.message is None else [row.message])
    changes.messages += [F.when(rows, message) for message in refusals]


def _topic(row: Column, schema: Schema | None, name: str) -> Column:
    """Return the text of the field; null if it is blank."""
    assert schema is not None, "a row of an event has a schema"
    text = row.getField(field_of(schema, name, SchemaType.STRING).name)
    return F.when(~text.rlike(_BLANK), text)


def _found(one: _Addition, events: Events) -> tuple[Schema, Column] | None:
    """Return the part's schema, made optional, and its value; None if events have no such part."""
    schema, value = events.schema, events.value
    if one.parent is not None:
        parent = schema.field(one.parent)
        if parent is None:
            raise RefusedError(f"Field does not exist: {one.parent}")
        if parent.schema.type is not SchemaType.STRUCT:
            raise RefusedError("Cannot look up fields on non-struct type")
        schema, value = parent.schema, value.getField(one.parent)
    if (inner := schema.field(one.field)) is not None:
        column = value.getField(one.field)
    elif (inner := events.schema.field(one.field)) is not None:
        column = F.when(value.isNotNull(), events.value.getField(one.field))
    else:
        return None
    return replace(inner.schema, optional=True, default=None), column


def _is_struct(schema: Schema) -> bool:
    return schema.type is SchemaType.STRUCT
