"""Apache's TimestampConverter: converts timestamps between text, numbers and Connect's logical types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import OneOf
from headrace.config.values import trimmed
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.interop.java.dates import formatted, parsed_ms, pattern_problem
from headrace.plugins.interop.java.json_members import long_of, member, string_of
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.records import Records
from headrace.plugins.schema import DATE, TIME, TIMESTAMP, Field, Schema, SchemaType, logical, spark_type
from headrace.plugins.transforms.key_or_value import Became, KeyOrValue
from headrace.plugins.transforms.struct_fields import (
    REPLACE_NULLS,
    fails,
    field_value,
    no_object,
    present,
    refused,
    struct_of,
    struct_schema,
    with_members,
)
from headrace.plugins.transforms.timestamps import DAY_MS, Instant, as_unix, of_date, of_ms, of_timestamp, of_unix

_PURPOSE: Final = "converting timestamp formats"
_JSON_NULL: Final = "null"
_NO_FORMAT: Final = "TimestampConverter requires format option to be specified when using string timestamps"
_TARGETS: Final = {
    "string": Schema(SchemaType.STRING),
    "unix": Schema(SchemaType.INT64),
    "Date": Schema(SchemaType.INT32, name=DATE, version=1),
    "Time": Schema(SchemaType.INT32, name=TIME, version=1),
    "Timestamp": Schema(SchemaType.INT64, name=TIMESTAMP, version=1),
}


class TimestampConverter(KeyOrValue):
    """Converts the key or value, or one field of it, to the target type.

    Decided: without schema, Date, Time and Timestamp become milliseconds since the epoch, because JSON text has no
    dates, and Apache's JsonConverter refuses such records; loses: a sink sees a number. A text without a `format` to
    parse it is an error, because Apache crashes there. So is a time that Spark's timestamps cannot hold (the year
    294247), if the target is Date or Timestamp. A struct loses its own default if its field is converted, because
    Apache would convert that too; loses: the default.
    """

    settings: ClassVar[Settings] = Settings(
        Setting("field", Type.STRING, "", None, Importance.HIGH, "The field to convert; empty: the whole."),
        Setting(
            "target.type", Type.STRING, REQUIRED, OneOf(*_TARGETS), Importance.HIGH, "What timestamps are converted to."
        ),
        Setting(
            "format",
            Type.STRING,
            "",
            None,
            Importance.MEDIUM,
            "The pattern, as for Java's SimpleDateFormat, by which texts are written (target string) or read.",
        ),
        Setting(
            "unix.precision",
            Type.STRING,
            "milliseconds",
            OneOf("nanoseconds", "microseconds", "milliseconds", "seconds"),
            Importance.LOW,
            "What numbers count since the epoch.",
        ),
        REPLACE_NULLS,
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._field: str = parsed["field"]
        self._target: str = parsed["target.type"]
        self._format: str = parsed["format"]
        self._precision: str = parsed["unix.precision"]
        self._replace_nulls: bool = parsed["replace.null.with.default"]
        self._has_format = bool(trimmed(self._format))
        if not self._has_format and self._target == "string":
            remedy = "Set it to a pattern such as yyyy-MM-dd."
            raise ConfigError(Problem("format", self._format, _NO_FORMAT, remedy))
        if (wrong := pattern_problem(self._format)) is not None:
            message = "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: "
            raise ConfigError(Problem("format", self._format, f"{message}{self._format}", f"{wrong}."))

    def with_schema(self, value: Column, schema: Schema, records: Records) -> Became | None:
        """Return the converted whole, or a struct with the field converted."""
        if not self._field:
            return self._converted(value, schema)
        if schema.type is not SchemaType.STRUCT:
            return refused(_PURPOSE, value, schema)
        fields, values, default, message = [], [], schema.default, None
        for field in schema.fields:
            column, new = field_value(value, field, self._replace_nulls), field.schema
            if field.name == self._field:
                became, default = self._converted(column, field.schema), None
                new = replace(_TARGETS[self._target], optional=field.schema.optional)
                column, message = F.lit(None) if became.value is None else became.value, became.message
            fields.append(Field(field.name, new))
            values.append(column.cast(spark_type(new)))
        made = struct_of(zip(fields, values, strict=True))
        changed = replace(struct_schema(schema, fields), optional=schema.optional, default=default)
        if present(value, schema) is None:
            return Became(made, changed, message)
        message = None if message is None else F.when(value.isNotNull(), message)
        return Became(F.when(value.isNotNull(), made), changed, message)

    def schemaless(self, value: Column, records: Records) -> Became | None:
        """Return the converted JSON, or an object with the member converted; a missing member becomes null."""
        if not self._field:
            return Became(let(value, self._json), None, let(value, self._trouble_of_json))
        changed = with_members(
            value,
            lambda name, json: F.when(name == self._field, F.coalesce(self._json(json), F.lit(_JSON_NULL))).otherwise(
                json
            ),
            {self._field: F.lit(_JSON_NULL)},
        )
        trouble = let(member(value, self._field), self._trouble_of_json)
        return Became(changed, None, F.coalesce(no_object(_PURPOSE, value), trouble))

    def _converted(self, value: Column, schema: Schema) -> Became:
        """Convert a value whose schema tells its type."""
        kind = schema.name if schema.name in (DATE, TIME, TIMESTAMP) else None
        if kind is not None and logical(schema) != kind:
            expected = kind.rpartition(".")[2]
            message = f"Expected {expected} to be a java.util.Date, but found class {class_of(schema)}"
            return fails(F.when(value.isNotNull(), F.lit(message)))
        if kind is None and schema.type not in (SchemaType.STRING, SchemaType.INT64):
            named = f"{schema.name}:{schema.type.name}" if schema.name else schema.type.name
            return fails(F.lit(f"Schema Schema{{{named}}} does not correspond to a known timestamp type format"))
        target = replace(_TARGETS[self._target], optional=schema.optional)
        moment = self._moment(value, schema, kind)
        return Became(self._as_target(moment), target, self._trouble(value, moment))

    def _moment(self, value: Column, schema: Schema, kind: str | None) -> Instant:
        if kind == TIMESTAMP:
            return of_timestamp(value)
        if kind == DATE:
            return of_date(value)
        if kind == TIME:
            return of_ms(value.cast("long"), bounded=True)
        return self._of_text(value) if schema.type is SchemaType.STRING else of_unix(value, self._precision)

    def _of_text(self, text: Column) -> Instant:
        ms = parsed_ms(text, self._format) if self._has_format else F.lit(None).cast("long")
        return of_ms(ms)._replace(unread=F.when(ms.isNull(), self._unreadable(text)))

    def _unreadable(self, text: Column) -> Column:
        if not self._has_format:
            return F.lit(f"{_NO_FORMAT}: there is none to read a text by")
        return F.concat(
            F.lit("Could not parse timestamp: value ("), text, F.lit(f") does not match pattern ({self._format})")
        )

    def _as_target(self, moment: Instant) -> Column:
        match self._target:
            case "string":
                return formatted(moment.ms, self._format)
            case "unix":
                return as_unix(moment.ms, self._precision)
            case "Date":
                return moment.timestamp.cast("date")
            case "Time":
                return F.pmod(moment.ms, F.lit(DAY_MS)).cast("int")
        return moment.timestamp

    def _json(self, json: Column) -> Column:
        """Return the JSON of the target type; null for a null."""
        return let(self._ms(json), lambda ms: self._json_of(of_ms(ms)))

    def _json_of(self, moment: Instant) -> Column:
        if self._target == "string":
            return quoted(self._as_target(moment))
        whole_days = F.unix_date(moment.timestamp.cast("date")).cast("long") * DAY_MS
        number = {"Date": whole_days, "Timestamp": moment.ms}.get(self._target)
        return (self._as_target(moment) if number is None else number).cast("string")

    def _ms(self, json: Column) -> Column:
        text = let(string_of(json), lambda text: self._of_text(text).ms)
        return F.when(json.startswith('"'), text).otherwise(of_unix(long_of(json), self._precision).ms)

    def _trouble_of_json(self, json: Column) -> Column:
        """Return why JSON cannot be converted; null for null."""
        other = F.concat(
            F.lit("TimestampConverter does not support class "), class_of_json(json), F.lit(" objects as timestamps")
        )
        unread = F.when(json.startswith('"'), self._unreadable(string_of(json))).otherwise(other)

        def trouble(ms: Column) -> Column:
            beyond = self._beyond(of_ms(ms))
            return F.when(ms.isNull(), unread) if beyond is None else F.when(ms.isNull(), unread).otherwise(beyond)

        return F.when(json != _JSON_NULL, let(self._ms(json), trouble))

    def _trouble(self, value: Column, moment: Instant) -> Column | None:
        """Return why a value cannot be converted; null for null."""
        found = [one for one in (moment.unread, self._beyond(moment)) if one is not None]
        return F.when(value.isNotNull(), F.coalesce(*found)) if found else None

    def _beyond(self, moment: Instant) -> Column | None:
        return None if moment.bounded or self._target not in ("Date", "Timestamp") else moment.beyond()


class TimestampConverterKey(TimestampConverter):
    """TimestampConverter of keys."""

    is_key = True


class TimestampConverterValue(TimestampConverter):
    """TimestampConverter of values."""

    is_key = False
