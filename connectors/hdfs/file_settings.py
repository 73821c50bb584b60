"""The settings of a sink's file names and file ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Setting, Type
from headrace.config.validators import Check, OneOf, Range, Regex
from headrace.config.values import invalid
from headrace.connectors.hdfs.store_settings import split_url

_STORAGES: Final = ("HdfsStorage", "S3Storage")


@dataclass(frozen=True)
class RotationSettings:
    """The limits that end the files of a topic's partition; None: no limit."""

    flush_size: int
    """Records of a partition, over all its open files."""
    rotate_interval_ms: int | None = None
    rotate_schedule_interval_ms: int | None = None
    timezone: str = ""
    rotate_bytes: int | None = None
    """Bytes of one file."""
    on_partition_change: bool = False
    """S3's, with `rotate_interval_ms` and a partitioner by time: a record of another directory ends the files."""


@dataclass(frozen=True)
class NamingSettings:
    """The names of files and of the directories above them."""

    topics_dir: str
    """With the part of the URL that has variables; may contain `${topic}` and `${1}` …."""
    capture_groups: str | None = None
    """The expression whose groups the variables stand for."""
    zero_pad_width: int = 10
    directory_delimiter: str = "/"
    file_delimiter: str = "+"
    is_s3: bool = False
    """True if names have the first offset only."""


def _objection_to_storage(name: str, value: Any) -> str | None:
    if value is None or value.rpartition(".")[2] in _STORAGES:
        return None
    return invalid(name, value, "A Java class cannot be run here; store.url says which store it is")


def _objection_to_topics_dir(name: str, value: Any) -> str | None:
    return None if value and value.strip("/") else invalid(name, value, "String must be non-empty")


def rotation_settings(group: SettingGroup, is_s3: bool) -> tuple[Setting, ...]:
    """The settings that end files."""
    settings = (
        group(
            "flush.size",
            Type.INT,
            REQUIRED,
            HIGH,
            SHORT,
            "Flush Size",
            "How many records of a partition of a topic, over all directories, are written before its files become "
            "visible.",
            Range(1),
        ),
        group(
            "rotate.interval.ms",
            Type.LONG,
            -1,
            HIGH,
            SHORT,
            "Rotate Interval (ms)",
            "The span of time that the files of a partition hold at most, in ms; -1: any. With a partitioner by time "
            "whose extractor is not Wallclock it is that of the records' timestamps, else that of the clock.",
        ),
        group(
            "rotate.schedule.interval.ms",
            Type.LONG,
            -1,
            MEDIUM,
            SHORT,
            "Rotate Schedule Interval (ms)",
            "Files also end whenever the clock passes a multiple of this many ms since midnight in timezone; -1: no.",
        ),
        group(
            "rotate.bytes",
            Type.LONG,
            -1,
            MEDIUM,
            SHORT,
            "Rotate Size",
            "Headrace's: the files of a partition also end once one of them has about this many bytes; -1: any size.",
        ),
    )
    if not is_s3:
        return settings
    return (
        *settings,
        group(
            "rotate.file.on.partition.change",
            Type.BOOLEAN,
            True,
            LOW,
            SHORT,
            "Rotate File On Partition Change",
            "With rotate.interval.ms and a partitioner by time: whether a record of another directory than the one "
            "before it ends the files. False: one file stays open for each directory.",
        ),
        group(
            "partitioner.max.open.files",
            Type.INT,
            -1,
            LOW,
            SHORT,
            "Maximum Open Files",
            "Accepted for configs of Confluent's connector. An open file holds little memory here.",
        ),
        group(
            "max.write.duration.ms",
            Type.LONG,
            2**63 - 1,
            LOW,
            SHORT,
            "Maximum Write Duration",
            "Accepted for configs of Confluent's connector. Writing does not keep the consumer from its group here.",
            Range(1),
        ),
    )


def naming_settings(group: SettingGroup, is_s3: bool) -> tuple[Setting, ...]:
    """The settings of names and directories."""
    variables = "" if is_s3 else " It may contain ${topic} and groups of topic.capture.groups.regex as ${1}, ${2} ….."
    shared = (
        group(
            "topics.dir",
            Type.STRING,
            "topics",
            HIGH,
            LONG,
            "Topics directory",
            f"The directory that the topics' directories are in.{variables}",
            Check(_objection_to_topics_dir, "a path that is not empty"),
        ),
        group(
            "filename.offset.zero.pad.width",
            Type.INT,
            10,
            LOW,
            SHORT,
            "Filename Offset Zero Pad Width",
            "How many digits the offsets in names have at least.",
            Range(0),
        ),
        group(
            "directory.delim",
            Type.STRING,
            "/",
            MEDIUM,
            SHORT,
            "Directory Delimiter",
            "The sign between directories; only / is served.",
            OneOf("/"),
        ),
        group(
            "file.delim",
            Type.STRING,
            "+",
            MEDIUM,
            SHORT,
            "File Delimiter",
            "The sign between the parts of a name" + ("." if is_s3 else "; HDFS names always have +."),
        ),
    )
    return shared if is_s3 else (*shared, *_hdfs_naming(group))


def _hdfs_naming(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "topic.capture.groups.regex",
            Type.STRING,
            None,
            LOW,
            LONG,
            "Topic Capture Groups Regex",
            "An expression that the whole name of each topic must match, for its groups in topics.dir and store.url.",
            Check(lambda name, value: None if value is None else Regex()(name, value), "a regular expression"),
        ),
        group(
            "logs.dir",
            Type.STRING,
            "logs",
            HIGH,
            LONG,
            "Logs directory",
            "Accepted for configs of Confluent's connector. There is no write-ahead log: the files' names say how far "
            "a topic was written.",
        ),
    )


def storage_setting(group: SettingGroup, default: str) -> Setting:
    """`storage.class`."""
    return group(
        "storage.class",
        Type.CLASS,
        default,
        HIGH,
        LONG,
        "Storage Class",
        "Accepted for configs of Confluent's connector. The URL says which store it is.",
        Check(_objection_to_storage, "Confluent's class"),
        is_plugin=False,
    )


def rotation_of(values: Mapping[str, Any]) -> RotationSettings:
    """The rotation of parsed settings."""

    def positive(name: str) -> int | None:
        value: int = values[name]
        return value if value > 0 else None

    return RotationSettings(
        flush_size=values["flush.size"],
        rotate_interval_ms=positive("rotate.interval.ms"),
        rotate_schedule_interval_ms=positive("rotate.schedule.interval.ms"),
        timezone=values["timezone"],
        rotate_bytes=positive("rotate.bytes"),
        on_partition_change=values.get("rotate.file.on.partition.change", False),
    )


def naming_of(values: Mapping[str, Any], is_s3: bool) -> NamingSettings:
    """The naming of parsed settings. Errors: ConfigError."""
    above = "" if is_s3 else split_url(values)[1].strip("/")
    topics_dir = values["topics.dir"].strip("/")
    return NamingSettings(
        topics_dir=f"{above}/{topics_dir}" if above else topics_dir,
        capture_groups=values.get("topic.capture.groups.regex"),
        zero_pad_width=values["filename.offset.zero.pad.width"],
        directory_delimiter=values["directory.delim"],
        file_delimiter=values["file.delim"] if is_s3 else "+",
        is_s3=is_s3,
    )
