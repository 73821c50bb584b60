"""The settings of the file sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.name_regex import name_regex
from headrace.config.problems import ConfigError, Problem
from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Offer, Setting, Settings, Type
from headrace.config.validators import Check, OneOfIgnoringCase, OrNull, Range
from headrace.config.values import invalid
from headrace.connectors.hdfs.format_settings import FORMAT, FileFormat, FormatSettings, file_format
from headrace.connectors.hdfs.s3_settings import bucket_settings, endpoint_setting, s3_settings
from headrace.connectors.hdfs.source.backup import GENERIC, RESTORE, Backup
from headrace.connectors.hdfs.store_settings import hdfs_settings, split_url


@dataclass(frozen=True)
class FileSourceSettings:
    """The files to read, and their topics."""

    path: str
    files: str
    topic: str | None
    format: FileFormat | None
    separator: bytes
    min_age_ms: int
    poll_interval_ms: int
    split_bytes: int
    backup: Backup | None = None
    """The mode of Confluent's S3 source; None: the files by `files` and `topic`."""

    @property
    def restores(self) -> bool:
        """True if records go to their partitions, with keys and headers."""
        return self.backup is not None and self.backup.file_name is not None

    def formats(self, kind: FileFormat) -> FormatSettings:
        """The settings for reading files of this format."""
        return FormatSettings(kind, bytes_separator=self.separator)


def _files(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "path",
            Type.STRING,
            "topics",
            HIGH,
            LONG,
            "Path",
            "The directory whose files are read, with all below it: a path below that of store.url; empty: all of it.",
        ),
        group(
            "files",
            Type.STRING,
            "**",
            HIGH,
            MID,
            "Files",
            "Which of them: * stands for any signs but a slash, ** for any directories. A pattern without slash is "
            "about names in any directory. Names that begin with . _ or + and those of unfinished copies (.tmp, .part, "
            "._COPYING_) are left out.",
        ),
        group(
            "topic",
            Type.STRING,
            None,
            HIGH,
            MID,
            "Topic",
            "The topic that their records go to; without it, the name of the directory right below path, as the sinks "
            "have it.",
        ),
        group(
            "format.class",
            Type.CLASS,
            None,
            HIGH,
            MID,
            "Format class",
            "The format of all files: avro, parquet, json (a text a line), text or bytes; without it, by the end of "
            "each name (.avro, .parquet, .json, .txt, .bin, also with .gz), and others are left out.",
            FORMAT,
            recommender=Offer(tuple(map(str, FileFormat))),
            is_plugin=False,
        ),
        group(
            "format.bytearray.separator",
            Type.STRING,
            None,
            LOW,
            SHORT,
            "Separator of bytes",
            "What stands between records in files of bytes; without it, a line end.",
        ),
        *_pace(group),
    )


def _pace(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "file.min.age.ms",
            Type.LONG,
            5_000,
            MEDIUM,
            SHORT,
            "Minimum age of files (ms)",
            "How long a file must not have changed before it is read, by the clocks of store and worker. A file that "
            "is written under its final name for longer would be read before it is complete.",
            Range(0),
        ),
        group(
            "poll.interval.ms",
            Type.LONG,
            5_000,
            MEDIUM,
            SHORT,
            "Poll Interval (ms)",
            "How often new files are looked for once all have been read.",
            Range(0),
        ),
        group(
            "split.bytes",
            Type.LONG,
            134_217_728,
            LOW,
            SHORT,
            "Split size",
            "Larger Parquet files are read in pieces of about this size, side by side: their records then come in no "
            "order.",
            Range(1_048_576),
        ),
    )


def _hdfs() -> Settings:
    store, objects = SettingGroup("Storage"), SettingGroup("S3")
    theirs = Settings(*hdfs_settings(store), endpoint_setting(objects), *s3_settings(objects))
    return theirs + Settings(*_files(SettingGroup("Files")))


def _s3() -> Settings:
    store = SettingGroup("S3")
    theirs = Settings(*bucket_settings(store), *s3_settings(store))
    return theirs + Settings(*_files(SettingGroup("Files")), *_backup(SettingGroup("Confluent's S3 source")))


def _backup(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "mode",
            Type.STRING,
            None,
            MEDIUM,
            SHORT,
            "Mode",
            "RESTORE_BACKUP: files of the S3 sink go back to the topics and partitions that their names tell, in "
            "order, with the keys and headers that stand in files beside them. GENERIC: by topic.regex.list. Without "
            "it, path, files and topic count; under Confluent's class name it is RESTORE_BACKUP.",
            OrNull(OneOfIgnoringCase(RESTORE, GENERIC)),
            recommender=Offer((RESTORE, GENERIC)),
        ),
        group(
            "topics.dir",
            Type.STRING,
            "topics",
            MEDIUM,
            LONG,
            "Topics directory",
            "With a mode: the directory whose files are read, with all below it.",
        ),
        group(
            "filename.regex",
            Type.STRING,
            r"(.+)\+(\d+)\+.+$",
            MEDIUM,
            MID,
            "File name expression",
            "For RESTORE_BACKUP: its first group is a name's topic, the second one the partition.",
            Check(_objection_to_names, "an expression with two groups"),
        ),
        group(
            "topic.regex.list",
            Type.LIST,
            "",
            MEDIUM,
            LONG,
            "Topic expressions",
            "For GENERIC: topic:expression, …; the first one that matches a file's whole path gives its topic, and a "
            "file that matches none is left out.",
            Check(_objection_to_routes, "topic:expression, …"),
        ),
        group(
            "behavior.on.error",
            Type.STRING,
            "fail",
            LOW,
            SHORT,
            "Behavior on error",
            "Only fail is served; errors.tolerance=all passes over what cannot be read.",
            Check(_objection_to_error_behavior, "fail"),
        ),
        *(
            group(name, Type.STRING, None, LOW, MID, "", f"Accepted for configs of Confluent's connector: {why}.")
            for name, why in _WITHOUT_EFFECT.items()
        ),
    )


def _objection_to_names(name: str, value: Any) -> str | None:
    try:
        found = name_regex(value).groups
    except ValueError as error:
        return invalid(name, value, str(error))
    return None if found >= 2 else invalid(name, value, "It needs two groups: the topic and the partition")


def _objection_to_routes(name: str, value: Any) -> str | None:
    for one in value or ():
        topic, colon, expression = one.partition(":")
        try:
            name_regex(expression.strip())
        except ValueError as error:
            return invalid(name, one, str(error))
        if not (colon and topic.strip() and expression.strip()):
            return invalid(name, one, "Each item is topic:expression")
    return None


def _objection_to_error_behavior(name: str, value: Any) -> str | None:
    why = "set errors.tolerance=all to pass over what cannot be read; errors.deadletterqueue and the log name it"
    return None if str(value).lower() == "fail" else invalid(name, value, why)


_CONFLUENT: Final = "io.confluent."
_WITHOUT_EFFECT: Final = {
    "directory.delim": "directories are told apart by /",
    "partitioner.class": "all directories below topics.dir are read",
    "partition.field.name": "all directories below topics.dir are read",
    "path.format": "all directories below topics.dir are read",
    "parse.error.topic.prefix": "errors.tolerance says what becomes of records that cannot be read",
    "s3.poll.interval.ms": "poll.interval.ms counts",
    "record.batch.max.size": "the worker chooses the size of batches",
}


HDFS: Final = _hdfs()
S3: Final = _s3()


def parse(config: Mapping[str, str]) -> dict[str, Any]:
    """Every setting's value, by the connector's class; `store.url` without variables. Errors: ConfigError."""
    if config.get("connector.class", "").strip().rpartition(".")[2].startswith("S3"):
        return S3.parse(config)
    values = HDFS.parse(config)
    url, rest = split_url(values)
    if rest:
        text = "A source's URL has no variables"
        raise ConfigError(Problem("store.url", values["store.url"], text, "Read all topics below path instead."))
    return {**values, "store.url": url}


def source_settings(config: Mapping[str, str]) -> FileSourceSettings:
    """Parses the config, without the store. Errors: ConfigError."""
    values = parse(config)
    backup = _backup_of(config, values)
    if backup is not None and values["format.class"] is None:
        text = 'Missing required configuration "format.class" which has no default value.'
        raise ConfigError(Problem("format.class", None, text, "Name the format of the files, such as avro or json."))
    path = values["path"] if backup is None else values["topics.dir"]
    return FileSourceSettings(
        path="/".join(part for part in path.split("/") if part),
        files=values["files"].strip().strip("/") or "**",
        topic=(values["topic"] or "").strip() or None,
        format=None if values["format.class"] is None else file_format(values["format.class"]),
        separator=config.get("format.bytearray.separator", "\n").encode(),
        min_age_ms=values["file.min.age.ms"],
        poll_interval_ms=values["poll.interval.ms"],
        split_bytes=values["split.bytes"],
        backup=backup,
    )


def _backup_of(config: Mapping[str, str], values: Mapping[str, Any]) -> Backup | None:
    given = values.get("mode") or (RESTORE if config.get("connector.class", "").startswith(_CONFLUENT) else None)
    if given is None:
        return None
    if given.upper() == RESTORE:
        return Backup(values["filename.regex"])
    routes = (route.partition(":") for route in values["topic.regex.list"])
    made = tuple((topic.strip(), expression.strip()) for topic, _, expression in routes)
    if not made:
        text = "mode=GENERIC needs topic.regex.list, which tells the topic of each file"
        raise ConfigError(Problem("topic.regex.list", "", text, "Set it to topic:expression, such as orders:.*[.]json"))
    return Backup(None, made)
