"""Debezium's TimezoneConverter: times in the rows of change events are moved to another time zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError
from headrace.config.settings import REQUIRED, Importance, Problem, Setting, Settings, Type, Width
from headrace.config.time_zones import ZONE
from headrace.config.validators import All, Check, NonEmpty
from headrace.config.values import invalid, trimmed
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.java.class_names import class_of
from headrace.plugins.interop.java.time_zones import Zone
from headrace.plugins.records import Case, Records
from headrace.plugins.schema import TIMESTAMP, Schema, SchemaType, logical
from headrace.plugins.transforms.change_events import DEBEZIUM_VERSION, Events, events_of
from headrace.plugins.transforms.key_or_value import only_struct
from headrace.plugins.transforms.struct_fields import field_value, struct_of

_ZONED_TIMESTAMP: Final = "io.debezium.time.ZonedTimestamp"
_ZONED_TIME: Final = "io.debezium.time.ZonedTime"
_PER_SECOND: Final = {
    "io.debezium.time.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
}
_EPOCHS: Final = {"ts_ms": 1_000, "ts_us": 1_000_000, "ts_ns": 1_000_000_000}
"""Fields of `source` that are times without a logical type."""
_SOURCE: Final = "source"
_PARTS: Final = ("before", "after", _SOURCE)


class _Rule(NamedTuple):
    """Events by the topic or the table, and their fields; no fields: all."""

    prefix: str
    """`topic`, `source`, or empty: either."""
    name: str
    fields: frozenset[str]

    @classmethod
    def of(cls, text: str) -> _Rule:
        """Parse `source:table[:field]`, `topic:name[:field]` or `name[:field]`. Errors: ValueError."""
        parts = [trimmed(part) for part in text.split(":")]
        prefix = parts[0].lower() if len(parts) > 1 and parts[0].lower() in ("topic", _SOURCE) else ""
        rest = parts[1:] if prefix else parts
        if len(rest) > 2 or not all(rest):
            raise ValueError(f"Expected source:table, topic:name or a name, with :field or without, got {text}")
        return cls(prefix, rest[0], frozenset(rest[1:]))


class _Choice(NamedTuple):
    """Fields that are converted in some events."""

    fields: frozenset[str]
    named: bool
    """True: these fields; False: all others."""

    def has(self, part: str, name: str) -> bool:
        """True if this field of before, after or source is converted."""
        own = {field[len(part) + 1 :] for field in self.fields if field.startswith(f"{part}.")}
        others = {field for field in self.fields if not field.startswith(tuple(f"{one}." for one in _PARTS))}
        if part == _SOURCE and not own:
            return False
        chosen = own if part == _SOURCE else own | others
        return (name in chosen) == self.named


_EVERY: Final = _Choice(frozenset(), False)


def _no_rules(name: str, value: Any) -> str | None:
    try:
        [_Rule.of(one) for one in value or ()]
    except ValueError as error:
        return invalid(name, value, str(error))
    return None


def _rules(name: str, text: str) -> Setting:
    form = Check(_no_rules, "a list of source:table[:field], topic:name[:field], name[:field]")
    return Setting(name, Type.LIST, None, form, Importance.HIGH, text, None, 1, Width.MEDIUM)


def _not_both(config: Mapping[str, Any]) -> None:
    if config["include.list"] and config["exclude.list"]:
        raise ConfigError(
            Problem(
                "exclude.list",
                config["exclude.list"],
                "Both include and exclude lists are specified. Please specify only one.",
                "Remove include.list or exclude.list.",
            )
        )


class TimezoneConverter(Transform):
    """Moves times in the rows of change events to a time zone; what is no event stays as it is.

    Texts with an offset get the zone's. Numbers and timestamps, which are UTC's clock, become the instant at which the
    zone's clock shows the same; `source.ts_ms` and its like what the zone's clock shows then.

    Decided: a ZonedTime in a zone whose offset changes fails its record, because Debezium takes the offset of the
    moment at which it looks; loses: such times.
    """

    settings: ClassVar[Settings] = Settings(
        Setting(
            "converted.timezone",
            Type.STRING,
            REQUIRED,
            All(NonEmpty(), ZONE),
            Importance.HIGH,
            "The time zone, as Europe/Berlin, or its offset, as +02:00.",
            None,
            1,
            Width.MEDIUM,
        ),
        _rules(
            "include.list",
            "The tables and topics whose times are converted: source:table, topic:name or name (either), each with "
            ":field for one field. Without it all are.",
        ),
        _rules("exclude.list", "The tables and topics, or fields of them, whose times stay; as include.list."),
    )
    version: ClassVar[str] = DEBEZIUM_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        _not_both(parsed)
        self._zone: str = parsed["converted.timezone"]
        self._includes = bool(parsed["include.list"])
        found: dict[tuple[str, str], frozenset[str]] = {}
        prefix = ""
        for text in parsed["include.list"] or parsed["exclude.list"] or ():
            rule = _Rule.of(text)
            prefix = rule.prefix or prefix  # as Debezium, which takes the last one for what follows
            key = prefix, rule.name
            found[key] = found.get(key, frozenset()) | rule.fields
        self._rules = tuple(_Rule(*key, fields) for key, fields in found.items())

    def apply(self, records: Records) -> Records:
        """Return the records with their times in the zone."""
        zone, cases, messages = Zone(self._zone), [], list[Column]()
        for events in events_of(records):
            if events.schema.type is not SchemaType.STRUCT:
                why = only_struct("time zone conversion", F.lit(class_of(events.schema)))
                messages.append(F.when(events.rows, why))
                continue
            choices, chosen = self._choices(events)
            made = _Conversion(zone, self._zone, choices, chosen, messages)
            fields = []
            for field in events.schema.fields:
                column = events.value.getField(field.name)
                if field.name in _PARTS and field.schema.type is SchemaType.STRUCT:
                    column = made.struct(field.name, column, field.schema)
                fields.append((field, column))
            cases.append(Case(struct_of(fields), events.schema, events.number, events.rows))
        return records.changed(values=cases, message=F.coalesce(*messages) if messages else None)

    def _choices(self, events: Events) -> tuple[list[_Choice], Column]:
        """Return choices of fields, and the number of each event's own; null: nothing is converted."""
        source = events.schema.field(_SOURCE)
        inner = None if source is None or source.schema.type is not SchemaType.STRUCT else source.schema.field("table")
        has_table = inner is not None and inner.schema.type is SchemaType.STRING
        table = events.value.getField(_SOURCE).getField("table") if has_table else F.lit(None).cast("string")
        places = ("topic", F.col("topic")), (_SOURCE, table), ("", F.col("topic")), ("", table)
        choices, number = [_EVERY], F.lit(None).cast("int") if self._includes else F.lit(0)
        for prefix, name in reversed(places):
            for rule in (one for one in self._rules if one.prefix == prefix):
                own: int | None = len(choices)
                if rule.fields:
                    choices.append(_Choice(rule.fields, self._includes))
                else:
                    own = 0 if self._includes else None
                holds = F.coalesce(name == F.lit(rule.name), F.lit(False))
                number = F.when(holds, F.lit(own).cast("int")).otherwise(number)
        return choices, number


class _Conversion(NamedTuple):
    """Converts the fields of the events of one schema."""

    zone: Zone
    name: str
    choices: list[_Choice]
    chosen: Column
    messages: list[Column]

    def struct(self, part: str, value: Column, schema: Schema) -> Column:
        """Return a struct with its times converted, null if it is null."""
        fields = []
        for field in schema.fields:
            column, given = value.getField(field.name), field_value(value, field, True)
            numbers = [number for number, choice in enumerate(self.choices) if choice.has(part, field.name)]
            made = self._converted(part, field.name, given, field.schema) if numbers else None
            if made is not None:
                holds = self.chosen.isin(*numbers) & given.isNotNull() & value.isNotNull()
                why = F.lit(f"{part}.{field.name} cannot be moved to the time zone {self.name}")
                self.messages.append(F.when(holds & made.isNull(), why))
                column = F.when(holds, made).otherwise(column)
            fields.append((field, column))
        return F.when(value.isNotNull(), struct_of(fields))

    def _converted(self, part: str, name: str, value: Column, schema: Schema) -> Column | None:
        """Return the value in the zone, null if it cannot be; None for what is no such time."""
        of = schema.name
        if of is None and part == _SOURCE and name in _EPOCHS:
            is_long = schema.type is SchemaType.INT64
            return self._moved(value, _EPOCHS[name], back=False) if is_long else F.lit(None)
        if of == _ZONED_TIMESTAMP and schema.type is SchemaType.STRING:
            return self.zone.same_instant(value)
        if of == _ZONED_TIME and schema.type is SchemaType.STRING:
            return self.zone.same_time(value) if self.zone.is_fixed else F.lit(None).cast("string")
        if of in _PER_SECOND and schema.type is SchemaType.INT64:
            return self._moved(value, _PER_SECOND[of], back=True)
        if logical(schema) == TIMESTAMP:
            return F.timestamp_micros(self._moved(F.unix_micros(value), 1_000_000, back=True))
        return None

    def _moved(self, value: Column, per_second: int, *, back: bool) -> Column:
        # Rounded down, as a clock shows it also before 1970.
        seconds = F.call_function("div", value - F.pmod(value, F.lit(per_second)), F.lit(per_second))
        offset = self.zone.offset_s_of_local(seconds) if back else self.zone.offset_s_at(seconds)
        by = offset.cast("long") * per_second
        return value - by if back else value + by
