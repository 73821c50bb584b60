"""The settings of LogFiles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Settings, Type
from headrace.config.validators import All, Check, NonEmpty, OneOf, OrNull, Range
from headrace.config.values import invalid
from headrace.connectors.logs.files.envelopes import Format
from headrace.connectors.logs.files.events import Joining
from headrace.connectors.logs.files.reader import Reading
from headrace.connectors.logs.lines import Encoding

TASKS: Final = "tasks.count"
"""The number of tasks among which logs are spread; the connector writes it into the configs of its tasks."""
_MOST_LINE: Final = 64 << 20


def _paths_problem(name: str, value: Any) -> str | None:
    if not value:
        return invalid(name, value, "List must name at least one file or pattern")
    if relative := [one for one in value if not os.path.isabs(one)]:
        return invalid(name, ",".join(relative), "Patterns must be absolute paths")
    return None


def _encoding_problem(name: str, value: Any) -> str | None:
    try:
        Encoding.of(value)
    except ValueError as error:
        return invalid(name, value, str(error))
    return None


def _pattern_problem(name: str, value: Any) -> str | None:
    try:
        pc.match_substring_regex(pa.array([""]), value)
    except pa.ArrowInvalid as error:
        return invalid(name, value, f"It is no regular expression of RE2 ({error})")
    return None


_files = SettingGroup("Files")
_lines = SettingGroup("Lines")
_multiline = SettingGroup("Several lines")
_records = SettingGroup("Records")

SETTINGS: Final = Settings(
    _files(
        "paths",
        Type.LIST,
        [],
        HIGH,
        LONG,
        "Paths",
        "The live log files, as absolute paths; * stands for any signs but a slash, ** for any directories. The "
        "rotated files of a log are found beside it and need no pattern.",
        Check(_paths_problem, "a list of absolute paths"),
    ),
    _files(
        "exclude",
        Type.LIST,
        [],
        MEDIUM,
        LONG,
        "Exclude",
        "Patterns of files that are left out; one without slash is about names in any directory.",
    ),
    _files(
        "start.at",
        Type.STRING,
        "beginning",
        MEDIUM,
        SHORT,
        "Start at",
        "Where a log without an offset begins: beginning, of its oldest rotated file that is there; live, at the start "
        "of its live file; end, for logs that the connector's first look finds. With end there is one task.",
        OneOf("beginning", "live", "end"),
    ),
    _files(
        "scan.interval.ms",
        Type.LONG,
        1_000,
        LOW,
        SHORT,
        "Scan interval (ms)",
        "How often all files are looked at if the operating system does not tell of changes.",
        Range(10),
    ),
    _files(
        "open.files.max",
        Type.INT,
        256,
        LOW,
        SHORT,
        "Most open files",
        "How many files a task keeps open. Of a file that is removed while it is not open, the rest is lost.",
        Range(1),
    ),
    _lines(
        "format",
        Type.STRING,
        "plain",
        HIGH,
        SHORT,
        "Format",
        "What a line is: plain text; json, a value without schema; docker or cri, as container engines write it.",
        OneOf(*Format),
    ),
    _lines(
        "encoding",
        Type.STRING,
        "UTF-8",
        LOW,
        SHORT,
        "Encoding",
        "The encoding of the files. What is malformed becomes U+FFFD.",
        Check(_encoding_problem, "an encoding such as UTF-8, ISO-8859-1, windows-1252 or UTF-16LE"),
    ),
    _lines(
        "line.max.bytes",
        Type.INT,
        1 << 20,
        LOW,
        SHORT,
        "Longest line",
        "A longer line becomes several records, in order.",
        Range(64, _MOST_LINE),
    ),
    _multiline(
        "multiline.pattern",
        Type.STRING,
        None,
        MEDIUM,
        LONG,
        "Pattern",
        "A regular expression of RE2 for lines that belong to the line before, or to the next one.",
        OrNull(All(NonEmpty(), Check(_pattern_problem, "a regular expression of RE2"))),
    ),
    _multiline(
        "multiline.negate", Type.BOOLEAN, False, MEDIUM, SHORT, "Negate", "If true, lines that do not match count."
    ),
    _multiline(
        "multiline.match",
        Type.STRING,
        "after",
        MEDIUM,
        SHORT,
        "Match",
        "after: such lines belong to the line before them; before: to the line after them.",
        OneOf("after", "before"),
    ),
    _multiline(
        "multiline.timeout.ms",
        Type.LONG,
        5_000,
        LOW,
        SHORT,
        "Timeout (ms)",
        "An event at the end of a file is complete once nothing followed for so long. It also ends partial lines of "
        "containers.",
        Range(0),
    ),
    _multiline(
        "multiline.max.lines",
        Type.INT,
        500,
        LOW,
        SHORT,
        "Most lines",
        "An event of more lines becomes several records.",
        Range(1),
    ),
    _multiline(
        "multiline.max.bytes",
        Type.INT,
        1 << 20,
        LOW,
        SHORT,
        "Most bytes",
        "An event that reaches so many bytes ends with the line that does.",
        Range(1, _MOST_LINE),
    ),
    _records(
        "topic",
        Type.STRING,
        None,
        HIGH,
        MID,
        "Topic",
        "The topic of all records.",
        Check(lambda name, value: None if value else invalid(name, value, "A topic is needed"), "the name of a topic"),
    ),
    _records(
        "record.value",
        Type.STRING,
        "text",
        MEDIUM,
        SHORT,
        "Value",
        "text: the event; struct: message, timestamp, stream, path, position and host.",
        OneOf("text", "struct"),
    ),
    _records(
        "record.key",
        Type.STRING,
        "path",
        MEDIUM,
        SHORT,
        "Key",
        "path: the log's, so that its lines keep their order in one partition; host: the name of the machine; none.",
        OneOf("path", "host", "none"),
    ),
    _records(
        "record.headers",
        Type.BOOLEAN,
        True,
        LOW,
        SHORT,
        "Headers",
        "If true, records have the headers log.path, log.position and log.host.",
    ),
)


@dataclass(frozen=True)
class LogFilesSettings:
    """The parsed settings of a task."""

    paths: tuple[str, ...]
    exclude: tuple[str, ...]
    start_at: str
    scan_s: float
    most_open: int
    reading: Reading
    timeout_s: float
    topic: str
    value: str
    key: str
    has_headers: bool
    tasks: int

    @classmethod
    def of(cls, config: Mapping[str, str]) -> LogFilesSettings:
        """The settings of this config. Errors: ConfigError."""
        values = SETTINGS.parse(config)
        joining = Joining(
            values["multiline.pattern"],
            values["multiline.negate"],
            values["multiline.match"] == "before",
            values["multiline.max.lines"],
            values["multiline.max.bytes"],
            values["multiline.timeout.ms"],
        )
        encoding = Encoding.of(values["encoding"])
        return cls(
            tuple(values["paths"]),
            tuple(values["exclude"]),
            values["start.at"],
            values["scan.interval.ms"] / 1_000,
            values["open.files.max"],
            Reading(Format(values["format"]), encoding, values["line.max.bytes"], joining),
            values["multiline.timeout.ms"] / 1_000,
            values["topic"],
            values["record.value"],
            values["record.key"],
            values["record.headers"],
            int(config.get(TASKS, "1")),
        )
