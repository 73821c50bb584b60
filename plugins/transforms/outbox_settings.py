"""The settings of Debezium's outbox EventRouter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Setting, Settings, Type, Width
from headrace.config.validators import Check
from headrace.config.values import invalid, trimmed
from headrace.plugins.interop.java.regex import regex_problem
from headrace.plugins.transforms.replace_field import split_pair

HEADER: Final = "header"
ENVELOPE: Final = "envelope"
PARTITION: Final = "partition"
FATAL: Final = "fatal"
KEEPS_NULLS: Final = "optional_bytes"
REGEX: Final = "route.topic.regex"

_PLACES: Final = (HEADER, ENVELOPE, PARTITION)
_PLACEMENT: Final = "table.fields.additional.placement"
_VERSION: Final = "table.field.event.schema.version"
_LOW, _MEDIUM, _HIGH = Importance.LOW, Importance.MEDIUM, Importance.HIGH


class Placed(NamedTuple):
    """A column of the outbox table besides the usual ones."""

    field: str
    place: str
    alias: str

    @classmethod
    def of(cls, text: str) -> Placed:
        """Parse `column:place` or `column:place:alias`. Errors: ValueError."""
        parts = [trimmed(part) for part in split_pair(text)]
        if len(parts) not in (2, 3):
            raise ValueError(f"Expected column:place or column:place:alias, got {text}")
        if parts[1].lower() not in _PLACES:
            raise ValueError(f"The place of {text} has to be one of {', '.join(_PLACES)}")
        return cls(parts[0], parts[1].lower(), parts[-1] if len(parts) == 3 else parts[0])


class Outbox(NamedTuple):
    """Settings of the outbox table and its events, as a config has them."""

    id: str
    key: str
    payload: str
    timestamp: str | None
    route: str
    regex: str
    replacement: str
    placed: tuple[Placed, ...]
    lacks_fail: bool
    updates_fail: bool
    tombstones: bool
    expands: bool
    keeps_nulls: bool

    @property
    def envelope(self) -> tuple[Placed, ...]:
        """The columns that stand beside the payload."""
        return tuple(one for one in self.placed if one.place == ENVELOPE)


def _no_placement(name: str, value: Any) -> str | None:
    try:
        [Placed.of(one) for one in value or ()]
    except ValueError as error:
        return invalid(name, value, str(error))
    return None


def _one_of(*choices: str) -> Check:
    def wrong(name: str, value: Any) -> str | None:
        known = value is None or trimmed(value).lower() in choices
        return None if known else invalid(name, value, f"Value must be one of {', '.join(choices)}")

    return Check(wrong, "one of " + ", ".join(choices))


def _group(group: str, *settings: tuple[str, Type, Any, Importance, str, Check | None]) -> list[Setting]:
    return [
        Setting(name, kind, default, check, importance, text, group, order, Width.MEDIUM)
        for order, (name, kind, default, importance, text, check) in enumerate(settings, 1)
    ]


_S, _B = Type.STRING, Type.BOOLEAN
SETTINGS: Final = Settings(
    *_group(
        "Table",
        ("table.field.event.id", _S, "id", _LOW, "The column that becomes the header id.", None),
        ("table.field.event.key", _S, "aggregateid", _LOW, "The column that becomes the key.", None),
        ("table.field.event.type", _S, "type", _LOW, "The column of the event's type; has no effect.", None),
        ("table.field.event.payload", _S, "payload", _LOW, "The column that becomes the value.", None),
        (
            "table.field.event.timestamp",
            _S,
            None,
            _MEDIUM,
            "The column that becomes the timestamp, of Debezium's types Timestamp, MicroTimestamp or NanoTimestamp; "
            "without it, or for null, the time at which Debezium saw the event.",
            None,
        ),
        (
            _PLACEMENT,
            Type.LIST,
            None,
            _HIGH,
            "More columns, each as column:place or column:place:alias. The place is header, envelope (the value is a "
            "struct of payload and these columns) or partition.",
            Check(_no_placement, "a list of column:place or column:place:alias"),
        ),
        (
            "table.fields.additional.error.on.missing",
            _B,
            True,
            _MEDIUM,
            "If true, events fail if a table has not all of these columns.",
            None,
        ),
        (
            _VERSION,
            _S,
            None,
            _LOW,
            "The column of the schema's version. Refused with columns in the envelope; has no effect without.",
            None,
        ),
        (
            "table.op.invalid.behavior",
            _S,
            "warn",
            _MEDIUM,
            "What becomes of an update of the table: warn and error leave it out, fatal fails it.",
            _one_of("warn", "error", FATAL),
        ),
        (
            "table.expand.json.payload",
            _B,
            False,
            _MEDIUM,
            "If true, a payload that is the text of a JSON object or array becomes that, without a schema.",
            None,
        ),
        (
            "table.json.payload.null.behavior",
            _S,
            "ignore",
            _MEDIUM,
            "Null members of an expanded payload: ignore leaves them out, optional_bytes keeps them.",
            _one_of("ignore", KEEPS_NULLS),
        ),
    ),
    *_group(
        "Router",
        ("route.by.field", _S, "aggregatetype", _HIGH, "The column that the topic is made of.", None),
        (
            REGEX,
            _S,
            "(?<routedByValue>.*)",
            _LOW,
            "What that column has to match as a whole; else it is the topic as it is.",
            Check(regex_problem, "a regular expression of Java"),
        ),
        (
            "route.topic.replacement",
            _S,
            "outbox.event.${routedByValue}",
            _HIGH,
            "The topic, in which $1 and ${name} stand for groups of the regular expression.",
            None,
        ),
        (
            "route.tombstone.on.empty.payload",
            _B,
            False,
            _HIGH,
            "If true, an event without payload, or with a blank one, becomes a tombstone.",
            None,
        ),
    ),
    *_group(
        "Tracing",
        ("tracing.span.context.field", _S, "tracingspancontext", _HIGH, "Has no effect: nothing is traced.", None),
        ("tracing.operation.name", _S, "debezium-read", _HIGH, "Has no effect: nothing is traced.", None),
        ("tracing.with.context.field.only", _B, False, _HIGH, "Has no effect: nothing is traced.", None),
    ),
)


def outbox_of(config: Mapping[str, str]) -> Outbox:
    """Parse a config. Errors: ConfigError."""
    parsed = SETTINGS.parse(config)
    made = Outbox(
        id=parsed["table.field.event.id"],
        key=parsed["table.field.event.key"],
        payload=parsed["table.field.event.payload"],
        timestamp=parsed["table.field.event.timestamp"],
        route=parsed["route.by.field"],
        regex=parsed[REGEX],
        replacement=parsed["route.topic.replacement"],
        placed=tuple(Placed.of(one) for one in parsed[_PLACEMENT] or ()),
        lacks_fail=parsed["table.fields.additional.error.on.missing"],
        updates_fail=trimmed(parsed["table.op.invalid.behavior"]).lower() == FATAL,
        tombstones=parsed["route.tombstone.on.empty.payload"],
        expands=parsed["table.expand.json.payload"],
        keeps_nulls=trimmed(parsed["table.json.payload.null.behavior"]).lower() == KEEPS_NULLS,
    )
    if made.envelope and (version := parsed[_VERSION]) is not None:
        why = "A schema's version that a column says would give each record a schema of its own"
        raise ConfigError(Problem(_VERSION, version, invalid(_VERSION, version, why), f"Remove it, or {ENVELOPE}."))
    return made
