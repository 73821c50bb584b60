"""The settings of the file sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Offer, Setting, Settings, Type
from headrace.config.validators import Range
from headrace.connectors.hdfs.format_settings import FORMAT, FileFormat, FormatSettings, file_format
from headrace.connectors.hdfs.s3_settings import bucket_settings, endpoint_setting, s3_settings
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
    return theirs + Settings(*_files(SettingGroup("Files")))


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
    return FileSourceSettings(
        path="/".join(part for part in values["path"].split("/") if part),
        files=values["files"].strip().strip("/") or "**",
        topic=(values["topic"] or "").strip() or None,
        format=None if values["format.class"] is None else file_format(values["format.class"]),
        separator=config.get("format.bytearray.separator", "\n").encode(),
        min_age_ms=values["file.min.age.ms"],
        poll_interval_ms=values["poll.interval.ms"],
        split_bytes=values["split.bytes"],
    )
