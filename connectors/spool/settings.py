"""The settings of spool folders: those of each format, with the original connector's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Offer, Setting, Settings, Type
from headrace.config.validators import All, ListOf, NonEmpty, OneOf, Range, Regex
from headrace.connectors.spool.cleanup import Policy
from headrace.connectors.spool.content_settings import charset_setting, csv_settings, schema_settings
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
            "How often new files are looked for once all have been read; less often in a folder so large that a look "
            "takes long. 0: always.",
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


def _of_kind(*kinds: Kind) -> Settings:
    folders, contents = SettingGroup("Folders"), SettingGroup("Contents")
    made = list(_folders(folders))
    if Kind.CSV in kinds or Kind.JSON in kinds:
        made += schema_settings(contents, generates=len(kinds) > 1)
    if Kind.CSV in kinds:
        made += csv_settings(SettingGroup("CSV"))
    if set(kinds) != {Kind.CSV} and not set(kinds) <= {Kind.BINARY, Kind.AVRO, Kind.PARQUET}:
        made.append(charset_setting(contents, "file.charset"))
    if len(kinds) > 1:
        text = "The format of the files; each is read as a whole, by its rows, objects, lines or values."
        offer = Offer(tuple(map(str, kinds)))
        made.append(folders(KIND, Type.STRING, REQUIRED, HIGH, SHORT, "Format", text, OneOf(*kinds), (), offer))
    return Settings(*made)


SETTINGS: Final[Mapping[Kind, Settings]] = {kind: _of_kind(kind) for kind in Kind}
ALL: Final = _of_kind(*Kind)
"""The settings of the connector that takes any format."""
