"""Debezium's ByLogicalTableRouter: events of several tables go to one topic, with names of schemas after it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError
from headrace.config.settings import REQUIRED, Importance, Problem, Setting, Settings, Type, Width
from headrace.config.validators import All, Check, NonEmpty, OneOf, OrNull
from headrace.config.values import trimmed
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.interop.java.regex import JavaRegex, regex_problem
from headrace.plugins.records import Case, Records
from headrace.plugins.schema import STRING, Field, Schema, SchemaType
from headrace.plugins.transforms.change_events import DEBEZIUM_VERSION, ENVELOPE, Events, RefusedError, events_of
from headrace.plugins.transforms.key_or_value import only_struct
from headrace.plugins.transforms.struct_fields import field_value, struct_of, twice

_PURPOSE: Final = "Updating schema"
_KEY: Final = ".Key"
_VALUE: Final = ".Value"
_ROWS: Final = ("before", "after")
_REGEX: Final = Check(regex_problem, "a regular expression of Java")
_AVRO: Final = "avro"


def _setting(name: str, kind: Type, default: Any, text: str, check: Any = None, width: Width = Width.LONG) -> Setting:
    return Setting(name, kind, default, check, Importance.LOW, text, None, 1, width)


def _settings(key_field: str, cache_size: str) -> Settings:
    return Settings(
        _setting(
            "topic.regex", Type.STRING, REQUIRED, "What a topic's whole name has to match.", All(NonEmpty(), _REGEX)
        ),
        _setting(
            "topic.replacement",
            Type.STRING,
            REQUIRED,
            "What takes the place of the match; $1 and ${name} stand for groups. An empty result changes nothing.",
            NonEmpty(),
        ),
        _setting(
            "key.enforce.uniqueness",
            Type.BOOLEAN,
            True,
            "If true, keys get a field that says which table they are of.",
            None,
            Width.SHORT,
        ),
        _setting(
            "key.field.regex",
            Type.STRING,
            None,
            "What the former topic has to match for key.field.replacement; without it, or if it does not match, the "
            "field is the former topic.",
            OrNull(_REGEX),
        ),
        _setting("key.field.name", Type.STRING, key_field, "The name of that field."),
        _setting("key.field.replacement", Type.STRING, None, "What the field is, if the former topic matches."),
        _setting(
            "schema.name.adjustment.mode",
            Type.STRING,
            "none",
            "avro: characters that Avro's names cannot have become underscores in names of schemas.",
            OneOf("none", _AVRO),
            Width.MEDIUM,
        ),
        _setting(cache_size, Type.INT, 16, "Has no effect: nothing is looked up twice."),
    )


class _Routed(NamedTuple):
    """Records that get another topic."""

    rows: Column
    topic: Column
    """Null for the others."""


class ByLogicalTableRouter(Transform):
    """Renames topics that match as a whole, gives keys the former one, and names schemas after the new one.

    Decided: the new names of schemas are made of the former ones, because a plan has its schemas before its records: a
    record whose schema is not named after its topic fails; loses: such records, which Debezium names after the first
    topic that a task met with their schema.
    """

    settings: ClassVar[Settings] = _settings("__dbz__physicalTableIdentifier", "logical.table.cache.size")
    version: ClassVar[str] = DEBEZIUM_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._regex: str = parsed["topic.regex"]
        self._replacement: str = parsed["topic.replacement"]
        self._unique: bool = parsed["key.enforce.uniqueness"]
        self._key_regex: str = trimmed(parsed["key.field.regex"] or "")
        self._key_replacement: str = parsed["key.field.replacement"] or ""
        self._key_field: str = parsed["key.field.name"]
        self._adjusts: bool = parsed["schema.name.adjustment.mode"] == _AVRO
        if self._key_regex and not trimmed(self._key_replacement):
            text = "key.field.replacement must be non-empty if key.field.regex is set."
            raise ConfigError(Problem("key.field.replacement", None, text, "Set it, or remove key.field.regex."))

    def apply(self, records: Records) -> Records:
        """Return the records in their new topics. Errors: ConfigError if Java refuses a regular expression."""
        regex, old = JavaRegex("topic.regex", self._regex), F.col("topic")
        try:
            topic = regex.replaced(old, self._replacement)
            identifier = self._identifier(old)
        except ValueError as error:
            return records.changed(message=F.when(regex.matches(old), F.lit(str(error))))
        rows = regex.matches(old) & (topic != "")
        routed = _Routed(rows, F.when(rows, topic))
        records = _without_null_keys(records, rows)
        cases, messages = self._keys(records, routed, regex, identifier)
        values: list[Case] = []
        for events in events_of(records):
            holds = routed.rows & events.rows
            try:
                name, other = self._named(events.schema, ENVELOPE, routed, regex)
                value, schema = self._envelope(events, name)
            except RefusedError as error:
                messages.append(F.when(holds, error.message))
                continue
            messages.append(F.when(holds, other))
            values.append(Case(value, schema, events.number, holds))
        message = F.coalesce(*messages) if messages else None
        return records.changed({"topic": F.coalesce(routed.topic, old)}, keys=cases, values=values, message=message)

    def _identifier(self, topic: Column) -> Column:
        """Return what the keys' field says. Errors: ValueError, in Java's words, for a wrong replacement."""
        if not self._key_regex:
            return topic
        return JavaRegex("key.field.regex", self._key_regex).replaced(topic, self._key_replacement)

    def _keys(
        self, records: Records, routed: _Routed, regex: JavaRegex, identifier: Column
    ) -> tuple[list[Case], list[Column]]:
        cases, messages = [], list[Column]()
        for number, schema in enumerate(records.keys):
            value = records.key(number)
            rows = routed.rows & (F.col("key_schema") == number) & value.isNotNull()
            if schema is None or schema.type is not SchemaType.STRUCT:
                found = class_of_json(value) if schema is None else F.lit(class_of(schema))
                messages.append(F.when(rows, only_struct(_PURPOSE, found)))
                continue
            try:
                name, message = self._named(schema, _KEY, routed, regex)
                made, new = self._key(value, schema, name, identifier)
            except RefusedError as error:
                messages.append(F.when(rows, error.message))
                continue
            messages.append(F.when(rows, message))
            cases.append(Case(made, new, number, rows))
        return cases, messages

    def _key(self, value: Column, schema: Schema, name: str, identifier: Column) -> tuple[Column, Schema]:
        fields = [(field, field_value(value, field, True)) for field in schema.fields]
        if self._unique:
            fields.append((Field(self._key_field, STRING), identifier))
        if (message := twice([field for field, _ in fields])) is not None:
            raise RefusedError(message)
        return struct_of(fields), _renamed(schema, f"{name}{_KEY}", [field for field, _ in fields])

    def _envelope(self, events: Events, name: str) -> tuple[Column, Schema]:
        """Return the event with the new names. Errors: RefusedError."""
        before = events.schema.field("before")
        if before is None or before.schema.type is not SchemaType.STRUCT:
            raise RefusedError("The event has no struct before, whose schema gets the topic's name")
        row = _renamed(before.schema, f"{name}{_VALUE}", before.schema.fields)
        fields = []
        for field in events.schema.fields:
            column, of = field_value(events.value, field, True), field.schema
            if field.name in _ROWS:
                column, of = _as(column, of, row), row
            fields.append((Field(field.name, of), column))
        return struct_of(fields), _renamed(events.schema, f"{name}{ENVELOPE}", [field for field, _ in fields])

    def _named(self, schema: Schema, end: str, routed: _Routed, regex: JavaRegex) -> tuple[str, Column]:
        """Return the topic that the new name is made of, and why a row has another one. Errors: RefusedError."""
        former = (schema.name or "").removesuffix(end)
        new = regex.replaced_text(former, self._replacement)
        why = f"The schema {schema.name} is not named after the record's topic, so no name after the new topic is known"
        if new is None or former == schema.name:
            raise RefusedError(why)
        topic = routed.topic
        if self._adjusts:
            new = re.sub(r"[^A-Za-z0-9_.]|\A[0-9.]", "_", new)
            topic = F.regexp_replace(topic, r"[^A-Za-z0-9_.]|\A[0-9.]", "_")
        return new, F.when(topic != F.lit(new), F.lit(why))


class ToLogicalTopicRouter(ByLogicalTableRouter):
    """ByLogicalTableRouter under the name, and with the defaults, of later versions."""

    settings: ClassVar[Settings] = _settings("__dbz__sourceIdentifier", "logical.destination.cache.size")


def _without_null_keys(records: Records, rows: Column) -> Records:
    """Return the records with null keys of these rows without a schema, as Debezium leaves them."""
    rows = rows if records.applies is None else rows & records.applies
    index, null = F.col("key_schema"), F.lit(False)
    for number in range(len(records.keys)):
        null = null | ((index == number) & records.key(number).isNull())
    kept = F.when(~F.coalesce(rows & null, F.lit(False)), index)
    return records.with_frame(records.frame.withColumn("key_schema", kept)) if records.keys else records


def _renamed(schema: Schema, name: str, fields: Sequence[Field]) -> Schema:
    return replace(schema, name=name, default=None, fields=tuple(fields))


def _as(value: Column, schema: Schema, row: Schema) -> Column:
    """Return a row of the table under the schema of `before`. Errors: RefusedError."""
    if schema.type is not SchemaType.STRUCT:
        raise RefusedError(only_struct(_PURPOSE, F.lit(class_of(schema))))
    for field in schema.fields:
        if row.field(field.name) is None:
            raise RefusedError(f"{field.name} is not a valid field name")
    has = {field.name: field for field in schema.fields}
    made = struct_of(
        (field, field_value(value, has[field.name], True) if field.name in has else F.lit(None)) for field in row.fields
    )
    return F.when(value.isNotNull(), made)
