"""Settings of the Singer connectors, and the config of the tap or target that they carry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from headrace.config.problems import ConfigError, Problem
from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Settings, Type
from headrace.config.validators import NonEmpty, OneOf, Range
from headrace.config.values import looks_secret
from headrace.config.worker.allowed_files import check_files
from headrace.config.worker.allowed_hosts import check_hosts

DISCOVER: Final = "discover"
NO_CATALOG: Final = "none"

_tap = SettingGroup("Tap")
_streams = SettingGroup("Streams")
_target = SettingGroup("Target")

SOURCE: Final = Settings(
    _tap(
        "tap.command",
        Type.STRING,
        REQUIRED,
        HIGH,
        MID,
        "Tap",
        "The tap: its name as `headrace plugins install` was given it, or an executable on `plugin.path`. Settings "
        "`tap.config.<name>` are its own config.",
        NonEmpty(),
    ),
    _tap(
        "tap.catalog",
        Type.STRING,
        DISCOVER,
        MEDIUM,
        LONG,
        "Catalog",
        "`discover` asks the tap at each start of the task; `none` gives the tap no catalog; else the catalog itself, "
        "as JSON, with its own selection.",
        NonEmpty(),
    ),
    _tap(
        "tap.metadata",
        Type.STRING,
        "{}",
        MEDIUM,
        LONG,
        "Metadata",
        "Metadata of streams in the discovered catalog, as JSON by pattern of their names: "
        '`{"public-*": {"replication-method": "INCREMENTAL", "replication-key": "id"}}`.',
    ),
    _tap(
        "tap.stall.timeout.ms",
        Type.LONG,
        600_000,
        LOW,
        SHORT,
        "Stall timeout",
        "The task fails if a tap that runs neither prints a message nor logs anything for so long.",
        Range(1_000),
    ),
    _streams(
        "streams",
        Type.LIST,
        ["*"],
        HIGH,
        LONG,
        "Streams",
        "The streams of the discovered catalog to select, by name or pattern such as `public-*`.",
    ),
    _streams(
        "topic.prefix",
        Type.STRING,
        "",
        MEDIUM,
        MID,
        "Topic prefix",
        "A stream's records go to the topic of its name, with this before it.",
    ),
    _streams(
        "sync.interval.ms",
        Type.LONG,
        60_000,
        MEDIUM,
        SHORT,
        "Sync interval",
        "The pause from the end of one run of the tap to the next.",
        Range(0),
    ),
    _streams(
        "numbers.as",
        Type.STRING,
        "double",
        LOW,
        SHORT,
        "Numbers",
        "How a `number` of a JSON Schema is sent: as a `double`, and a record fails whose number has more digits than "
        "that, or as a `string` with all of its digits. An `integer` is a long.",
        OneOf("double", "string"),
    ),
)
SINK: Final = Settings(
    _target(
        "target.command",
        Type.STRING,
        REQUIRED,
        HIGH,
        MID,
        "Target",
        "The target: its name as `headrace plugins install` was given it, or an executable on `plugin.path`. Settings "
        "`target.config.<name>` are its own config.",
        NonEmpty(),
    ),
    _target(
        "target.stall.timeout.ms",
        Type.LONG,
        180_000,
        LOW,
        SHORT,
        "Stall timeout",
        "The task fails if the target neither takes a message, nor confirms or logs anything for so long.",
        Range(1_000),
    ),
    _target(
        "behavior.on.null.values",
        Type.STRING,
        "fail",
        LOW,
        SHORT,
        "Null values",
        "Records without a value, which Singer cannot express, `fail` or are passed over (`ignore`).",
        OneOf("fail", "ignore"),
    ),
)


def process_config(prefix: str, config: Mapping[str, str], worker: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of the tap or target: the settings below `prefix`, where a dot in a name makes an object.

    A value that is JSON is what the JSON says, such as a number or a list; every other, and each of a name like a
    secret's, is a text.

    Errors: ConfigError for files and hosts that the worker does not allow, and for a name that is also an object.
    """
    made: dict[str, Any] = {}
    for key, text in sorted(config.items()):
        if key.startswith(prefix):
            *parents, name = key.removeprefix(prefix).split(".")
            place = made
            for parent in parents:
                place = place.setdefault(parent, {})
                if not isinstance(place, dict):
                    problem = f"{parent} has a value of its own, and cannot hold others."
                    raise ConfigError(Problem(key, text, problem, "Remove one of the two settings."))
            place[name] = text if looks_secret(key) else _value(text)
    named = {f"{prefix}{key}": value for key, value in _flat(made)}
    check_files(named, worker)
    check_hosts(named, worker)
    return made


def _value(text: str) -> Any:
    """Read JSON, or else text; a number that would be written otherwise, such as the version 1.10, is a text."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    is_number = isinstance(value, int | float)
    return text if is_number and json.dumps(value) != text.strip() else value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a config by their dotted names, those of lists by the list's."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(inner, key)
    elif isinstance(value, str):
        yield key, value


def json_setting(name: str, text: str) -> dict[str, Any]:
    """Return the object that is a setting's value. Errors: ConfigError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(Problem(name, text, f"It is not JSON: {error}.", "Write a JSON object.")) from error
    if not isinstance(value, dict):
        raise ConfigError(Problem(name, text, "It is no JSON object.", 'Write one, such as {"name": {}}.'))
    return value
