"""The settings of what files hold: schemas, times, CSV's signs, encodings."""

from __future__ import annotations

from typing import Any, Final
from zoneinfo import ZoneInfo

from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Setting, Type
from headrace.config.validators import Check, ListOf, NonEmpty, OneOf, Range
from headrace.connectors.spool.date_patterns import DatePattern

_MODEL: Final = "com.github.jcustenborder.kafka.connect.model"


def schema_settings(group: SettingGroup, generates: bool) -> tuple[Setting, ...]:
    """Declare the schemas of formats that keep none; `generates` is the default of schema.generation.enabled."""
    return (
        _schema(group, "key.schema", "Key schema", "keys; without it keys are null."),
        _schema(group, "value.schema", "Value schema", "values."),
        group(
            "schema.generation.enabled",
            Type.BOOLEAN,
            generates,
            MEDIUM,
            SHORT,
            "Generate schemas",
            "Without value.schema, all fields are optional strings, named by the first files that are there when the "
            "connector starts: by their headers, or by the members of their first objects.",
        ),
        group(
            "schema.generation.key.fields",
            Type.LIST,
            [],
            LOW,
            MID,
            "Key fields",
            "The fields of generated keys; none: keys are null.",
            ListOf(),
        ),
        group(
            "schema.generation.key.name",
            Type.STRING,
            f"{_MODEL}.Key",
            LOW,
            MID,
            "Name of keys",
            "The name of the generated schema of keys.",
            NonEmpty(),
        ),
        group(
            "schema.generation.value.name",
            Type.STRING,
            f"{_MODEL}.Value",
            LOW,
            MID,
            "Name of values",
            "The name of the generated schema of values.",
            NonEmpty(),
        ),
        *_times(group),
    )


def _schema(group: SettingGroup, name: str, display: str, text: str) -> Setting:
    return group(name, Type.STRING, "", HIGH, LONG, display, f"The schema, as a JSON text, of {text}")


def _times(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "timestamp.field",
            Type.STRING,
            "",
            MEDIUM,
            MID,
            "Timestamp field",
            "With timestamp.mode=FIELD: a field of the value, of the type Timestamp and not optional.",
        ),
        group(
            "parser.timestamp.timezone",
            Type.STRING,
            "UTC",
            LOW,
            SHORT,
            "Time zone",
            "The time zone of times that name none, such as Europe/Berlin.",
            Check(_zone_objection, "a time zone such as UTC or Europe/Berlin"),
        ),
        group(
            "parser.timestamp.date.formats",
            Type.LIST,
            ["yyyy-MM-dd'T'HH:mm:ss", "yyyy-MM-dd' 'HH:mm:ss"],
            LOW,
            MID,
            "Date formats",
            "The patterns, in the letters of Java's SimpleDateFormat, that dates, times and timestamps are read by; "
            "the first that a text matches counts.",
            Check(_patterns_objection, "a list of date patterns"),
        ),
    )


def csv_settings(group: SettingGroup) -> tuple[Setting, ...]:
    """Declare the settings of CSV."""
    return (
        group(
            "csv.first.row.as.header",
            Type.BOOLEAN,
            False,
            MEDIUM,
            SHORT,
            "First row is a header",
            "The first row names the columns; else columns are the fields of value.schema, in its order.",
        ),
        _sign(
            group, "csv.separator.char", 44, "Separator", "The number of the ASCII sign between cells.", Range(1, 127)
        ),
        _sign(
            group,
            "csv.quote.char",
            34,
            "Quote",
            "The number of the ASCII sign around cells; 0: there is none.",
            Range(0, 127),
        ),
        _sign(
            group,
            "csv.escape.char",
            92,
            "Escape",
            "The number of the ASCII sign that takes its meaning from the next one; 0: there is none.",
            Range(0, 127),
        ),
        _sign(
            group,
            "csv.skip.lines",
            0,
            "Lines to skip",
            "The number of lines before the header or the first row.",
            Range(0),
        ),
        group(
            "csv.null.field.indicator",
            Type.STRING,
            "NEITHER",
            MEDIUM,
            SHORT,
            "Null cells",
            "Which empty cells are null: those without quotes (EMPTY_SEPARATORS), those in quotes (EMPTY_QUOTES), BOTH "
            "or NEITHER.",
            OneOf("EMPTY_SEPARATORS", "EMPTY_QUOTES", "BOTH", "NEITHER"),
        ),
        charset_setting(group, "csv.file.charset"),
        _flag(group, "csv.rfc.4180.parser.enabled", False, "RFC 4180", "There is no escape sign, as RFC 4180 has it."),
        _flag(
            group,
            "csv.ignore.leading.whitespace",
            True,
            "Blanks before quotes",
            "Blanks before a quote that begins a cell are left out.",
        ),
        _flag(group, "csv.strict.quotes", False, "Strict quotes", "Only false is served."),
        _flag(
            group,
            "csv.ignore.quotations",
            False,
            "Ignore quotes",
            "Only false is served: set csv.quote.char to 0 if quotes mean nothing.",
        ),
        _flag(
            group,
            "csv.keep.carriage.return",
            False,
            "Keep carriage returns",
            "Only false is served: those in quotes are kept anyway.",
        ),
        _flag(group, "csv.verify.reader", True, "Verify reader", "Accepted and without effect."),
        _flag(group, "csv.case.sensitive.field.names", False, "Case of names", "Accepted and without effect."),
    )


def _sign(group: SettingGroup, name: str, default: int, display: str, text: str, wanted: Range) -> Setting:
    return group(name, Type.INT, default, LOW, SHORT, display, text, wanted)


def _flag(group: SettingGroup, name: str, default: bool, display: str, text: str) -> Setting:
    return group(name, Type.BOOLEAN, default, LOW, SHORT, display, text)


def charset_setting(group: SettingGroup, name: str) -> Setting:
    """Declare the encoding of files, under this name."""
    text = "The encoding of files, such as UTF-8, ISO-8859-1 or UTF-16."
    wanted = Check(_charset_objection, "the name of an encoding")
    return group(name, Type.STRING, "UTF-8", LOW, SHORT, "Encoding", text, wanted)


def _charset_objection(name: str, value: Any) -> str | None:
    try:
        "".encode(value or "")
    except (LookupError, ValueError):
        return f"Invalid value {value} for configuration {name}: there is no such encoding"
    return None


def _zone_objection(name: str, value: Any) -> str | None:
    try:
        ZoneInfo(value or "")
    except (ValueError, OSError, LookupError):
        return f"Invalid value {value} for configuration {name}: there is no such time zone"
    return None


def _patterns_objection(name: str, value: Any) -> str | None:
    try:
        for pattern in value or ():
            DatePattern.of(pattern)
    except ValueError as error:
        return f"Invalid value for configuration {name}: {error}"
    return None
