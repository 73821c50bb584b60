"""The settings of spool folders: those of each format, with the original connector's names and defaults."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Offer, Setting, Settings, Type
from headrace.config.validators import All, Check, ListOf, NonEmpty, OneOf, Range, Regex
from headrace.connectors.spool.cleanup import Policy
from headrace.connectors.spool.date_patterns import DatePattern
from headrace.connectors.spool.listing import SORTS


class Kind(StrEnum):
    """A format of files."""

    CSV = "csv"
    JSON = "json"
    LINES = "lines"
    JSON_TEXT = "json.schemaless"
    BINARY = "binary"
    AVRO = "avro"
    PARQUET = "parquet"


KIND: Final = "input.format"
PROCESS_TIME, FILE_TIME, FIELD = "PROCESS_TIME", "FILE_TIME", "FIELD"
_MODEL: Final = "com.github.jcustenborder.kafka.connect.model"


def _folders(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group("topic", Type.STRING, REQUIRED, HIGH, MID, "Topic", "The topic that records go to.", NonEmpty()),
        group(
            "input.path",
            Type.STRING,
            REQUIRED,
            HIGH,
            LONG,
            "Input path",
            "The folder whose files are read, on the worker's machine.",
            NonEmpty(),
        ),
        group(
            "input.file.pattern",
            Type.STRING,
            REQUIRED,
            HIGH,
            MID,
            "File pattern",
            "The regular expression that names of files match as a whole, without their folders.",
            All(NonEmpty(), Regex()),
        ),
        group(
            "error.path",
            Type.STRING,
            REQUIRED,
            HIGH,
            LONG,
            "Error path",
            "The folder that files are moved to that cannot be read to their end.",
            NonEmpty(),
        ),
        group(
            "finished.path",
            Type.STRING,
            "",
            HIGH,
            LONG,
            "Finished path",
            "The folder that files are moved to once the offset of their last record is stored; needed by MOVE and "
            "MOVEBYDATE.",
        ),
        group(
            "cleanup.policy",
            Type.STRING,
            "MOVE",
            MEDIUM,
            SHORT,
            "Cleanup policy",
            "What becomes of files that were read: NONE leaves them, DELETE deletes, MOVE moves them to finished.path, "
            "MOVEBYDATE to a folder in it for the day of their last change.",
            OneOf(*Policy),
            recommender=Offer(tuple(map(str, Policy))),
        ),
        group(
            "cleanup.policy.maintain.relative.path",
            Type.BOOLEAN,
            False,
            LOW,
            SHORT,
            "Keep relative paths",
            "Files of folders below input.path are moved to the same folders below finished.path and error.path.",
        ),
        group(
            "halt.on.error",
            Type.BOOLEAN,
            True,
            HIGH,
            SHORT,
            "Halt on error",
            "The task fails at a file that cannot be read, after it was moved to error.path; false: it goes on with "
            "the next.",
        ),
        *_choice(group),
        *_pace(group),
    )


def _choice(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "input.path.walk.recursively",
            Type.BOOLEAN,
            False,
            LOW,
            SHORT,
            "Read folders below",
            "Files of all folders below input.path are read, too.",
        ),
        group(
            "files.sort.attributes",
            Type.LIST,
            ["NameAsc"],
            LOW,
            MID,
            "Order of files",
            "The order in which files that were found together are read.",
            ListOf(SORTS, empty=False),
        ),
        group(
            "task.partitioner",
            Type.STRING,
            "ByName",
            LOW,
            SHORT,
            "Partitioner",
            "How several tasks share files: by the Adler-32 of their names.",
            OneOf("ByName"),
        ),
        group(
            "processing.file.extension",
            Type.STRING,
            ".PROCESSING",
            LOW,
            SHORT,
            "Extension of flags",
            "Names that end so are never read: they are flags of the original connector. Headrace writes none, and a "
            "flag that was left behind hides no file.",
            NonEmpty(),
        ),
        group(
            "file.minimum.age.ms",
            Type.LONG,
            0,
            LOW,
            SHORT,
            "Minimum age of files (ms)",
            "How long a file must not have changed before it is read.",
            Range(0),
        ),
    )


def _pace(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "empty.poll.wait.ms",
            Type.LONG,
            500,
            LOW,
            SHORT,
            "Pause between looks (ms)",
            "How often new files are looked for once all have been read.",
            Range(0),
        ),
        group(
            "batch.size",
            Type.INT,
            1000,
            LOW,
            SHORT,
            "Batch size",
            "Accepted and without effect: the worker bounds batches by rows and by bytes.",
            Range(1),
        ),
        group(
            "timestamp.mode",
            Type.STRING,
            PROCESS_TIME,
            MEDIUM,
            SHORT,
            "Timestamp mode",
            "The timestamp of records: PROCESS_TIME is when they are sent, FILE_TIME the file's last change, FIELD the "
            "value's timestamp.field.",
            OneOf(PROCESS_TIME, FILE_TIME, FIELD),
        ),
        group(
            "metadata.location",
            Type.STRING,
            "HEADERS",
            LOW,
            SHORT,
            "Facts of files",
            "HEADERS: each record has headers with the name, place, size and age of its file, and its number in it; "
            "NONE: none has.",
            OneOf("HEADERS", "NONE"),
        ),
    )


def _schemas(group: SettingGroup, generates: bool) -> tuple[Setting, ...]:
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


def _csv(group: SettingGroup) -> tuple[Setting, ...]:
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
        _charset(group, "csv.file.charset"),
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


def _charset(group: SettingGroup, name: str) -> Setting:
    text = "The encoding of files, such as UTF-8, ISO-8859-1 or UTF-16."
    wanted = Check(_charset_objection, "the name of an encoding")
    return group(name, Type.STRING, "UTF-8", LOW, SHORT, "Encoding", text, wanted)


def _charset_objection(name: str, value: Any) -> str | None:
    try:
        codecs.lookup(value or "")
    except LookupError:
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


def _of_kind(*kinds: Kind) -> Settings:
    folders, contents = SettingGroup("Folders"), SettingGroup("Contents")
    made = list(_folders(folders))
    if Kind.CSV in kinds or Kind.JSON in kinds:
        made += _schemas(contents, generates=len(kinds) > 1)
    if Kind.CSV in kinds:
        made += _csv(SettingGroup("CSV"))
    if set(kinds) != {Kind.CSV} and not set(kinds) <= {Kind.BINARY, Kind.AVRO, Kind.PARQUET}:
        made.append(_charset(contents, "file.charset"))
    if len(kinds) > 1:
        text = "The format of the files; each is read as a whole, by its rows, objects, lines or values."
        offer = Offer(tuple(map(str, kinds)))
        made.append(folders(KIND, Type.STRING, REQUIRED, HIGH, SHORT, "Format", text, OneOf(*kinds), (), offer))
    return Settings(*made)


SETTINGS: Final[Mapping[Kind, Settings]] = {kind: _of_kind(kind) for kind in Kind}
ALL: Final = _of_kind(*Kind)
"""Those of the connector that takes any format."""
