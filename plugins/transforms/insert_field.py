"""Apache's InsertField: inserts a record's origin, its timestamp or a fixed text as fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Setting, Settings, Type
from headrace.config.values import invalid
from headrace.plugins.interop.java.jackson import json_string
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.records import Records
from headrace.plugins.schema import STRING, TIMESTAMP, Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.struct_fields import (
    REPLACE_NULLS,
    fails,
    field_value,
    no_object,
    present,
    refused,
    set_members,
    struct_of,
    struct_schema,
    twice,
)
from headrace.plugins.transforms.timestamps import of_ms

_PURPOSE: Final = "field insertion"
_NO_SINK: Final = f"Only SinkRecord supported for [{_PURPOSE}], found: org.apache.kafka.connect.source.SourceRecord"
_TYPES: Final = {
    "topic": STRING,
    "partition": Schema(SchemaType.INT32),
    "offset": Schema(SchemaType.INT64),
    "timestamp": Schema(SchemaType.INT64, name=TIMESTAMP, version=1),
    "static": STRING,
}
"""Values to insert, in Connect's order, and their schemas."""


class _Insertion(NamedTuple):
    """A field to add."""

    name: str
    required: bool

    @classmethod
    def of(cls, text: str) -> _Insertion:
        return cls(text.removesuffix("!"), True) if text.endswith("!") else cls(text.removesuffix("?"), False)


def _setting(name: str, text: str) -> Setting:
    return Setting(name, Type.STRING, None, None, Importance.MEDIUM, text)


_SUFFIX: Final = "; a name that ends in ! makes a required field, one that ends in ? or in neither an optional one."


class InsertField(KeyOrValue):
    """Appends fields to a struct, or adds members to a schemaless object, where they overwrite those of the same name.

    A record without partition or timestamp gets no value for it. Errors of records: a timestamp outside an int64 of
    microseconds, which Spark cannot hold.
    """

    settings: ClassVar[Settings] = Settings(
        _setting("topic.field", f"Field for the record's topic{_SUFFIX}"),
        _setting("partition.field", f"Field for the record's partition{_SUFFIX}"),
        _setting("offset.field", f"Field for the record's offset, of sinks only{_SUFFIX}"),
        _setting("timestamp.field", f"Field for the record's timestamp{_SUFFIX}"),
        _setting("static.field", f"Field for static.value{_SUFFIX}"),
        _setting("static.value", "The text of static.field."),
        REPLACE_NULLS,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._added = {what: _Insertion.of(text) for what in _TYPES if (text := parsed[f"{what}.field"]) is not None}
        self._static: str | None = parsed["static.value"]
        self._replace_nulls: bool = parsed["replace.null.with.default"]
        if not self._added:
            remedy = "Set topic.field, partition.field, offset.field, timestamp.field or static.field."
            raise ConfigError(Problem("topic.field", None, "No field insertion configured", remedy))
        if "static" in self._added and self._static is None:
            text = f"No value specified for static field: {self._added['static'].name}"
            remedy = "Set static.value, or remove static.field."
            raise ConfigError(Problem("static.value", None, invalid("static.value", None, text), remedy))

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return a struct with the fields added; its schema is required and has no default, as Connect's."""
        if schema.type is not SchemaType.STRUCT:
            return refused(_PURPOSE, value, schema)
        new = [Field(one.name, replace(_TYPES[what], optional=not one.required)) for what, one in self._added.items()]
        fields = [*schema.fields, *new]
        if (message := self._impossible(records) or twice(fields)) is not None:
            return fails(F.when(value.isNotNull(), F.lit(message)))
        values = [field_value(value, field, self._replace_nulls) for field in schema.fields]
        values += [self._value(what) for what in self._added]
        made = struct_of(zip(fields, values, strict=True))
        return Became(made, struct_schema(schema, fields), self._late(), present(value, schema))

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return an object with the members added; a timestamp becomes a number."""
        if (message := self._impossible(records)) is not None:
            other = no_object(_PURPOSE, value)
            return fails(F.when(value.isNotNull(), F.coalesce(other, F.lit(message))))
        new = {one.name: self._json(what) for what, one in self._added.items()}
        return Became(set_members(value, new), None, no_object(_PURPOSE, value))

    def _impossible(self, records: Records) -> str | None:
        return _NO_SINK if "offset" in self._added and "offset" not in records.frame.columns else None

    def _value(self, what: str) -> Column:
        if what == "static":
            # A constant can never be null, which makes another struct type, and Spark would copy each struct to the
            # declared one. A record always has a topic, but its column does not say so.
            return F.when(F.col("topic").isNotNull(), F.lit(self._static))
        return of_ms(F.col(what)).timestamp if what == "timestamp" else F.col(what)

    def _json(self, what: str) -> Column:
        if what == "static":
            return F.lit(json_string(self._static or ""))
        return quoted(F.col(what)) if what == "topic" else F.col(what).cast("string")

    def _late(self) -> Column | None:
        """Return why a row's timestamp fails; None if no timestamp is inserted."""
        return of_ms(F.col("timestamp")).beyond() if "timestamp" in self._added else None


class InsertFieldKey(InsertField):
    """InsertField of keys."""

    is_key = True


class InsertFieldValue(InsertField):
    """InsertField of values."""

    is_key = False
