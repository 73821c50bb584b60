"""The settings of the sinks: Confluent's names for HDFS (2 and 3) and S3, and a few of our own.

A setting of Confluent's connectors that is not served here is refused if files would differ from the request, and
otherwise accepted; `unused` names those without effect, for the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.setting_group import LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Offer, Settings, Type
from headrace.config.validators import Check, Range
from headrace.config.values import invalid
from headrace.connectors.hdfs.compact_settings import NOT_IN_S3, CompactSettings, compact_of, compact_settings
from headrace.connectors.hdfs.file_settings import (
    NamingSettings,
    RotationSettings,
    naming_of,
    naming_settings,
    rotation_of,
    rotation_settings,
    storage_setting,
)
from headrace.connectors.hdfs.format_settings import (
    SIDE_FORMAT,
    FileFormat,
    FormatSettings,
    format_settings,
    formats_of,
)
from headrace.connectors.hdfs.hive_settings import HiveSettings, hive_of, hive_settings
from headrace.connectors.hdfs.partition_settings import partition_settings
from headrace.connectors.hdfs.s3_settings import bucket_settings, endpoint_setting, s3_settings
from headrace.connectors.hdfs.store_settings import hdfs_settings, split_url

__all__ = [
    "HDFS",
    "HDFS3",
    "S3",
    "CompactSettings",
    "FileFormat",
    "FormatSettings",
    "HiveSettings",
    "NamingSettings",
    "RotationSettings",
    "SinkSettings",
    "is_s3",
    "parse",
    "sink_settings",
    "store_values",
    "unused",
]

_WITHOUT_EFFECT: Final = (
    "hadoop.home",
    "hive.home",
    "logs.dir",
    "storage.class",
    "schemas.cache.config",
    "shutdown.timeout.ms",
    "retry.backoff.ms",
    "partitioner.max.open.files",
    "max.write.duration.ms",
    "s3.retry.backoff.ms",
    "s3.http.send.expect.continue",
    "s3.elastic.buffer.enable",
    "s3.elastic.buffer.init.capacity",
    "s3.object.behavior.on.tagging.error",
    "report.null.values.to.dlq",
    "tombstone.encoded.partition",
    "max.files.scan.limit",
)
"""Accepted for configs of Confluent's connectors."""


@dataclass(frozen=True)
class SinkSettings:
    """A parsed sink config, without the store (`store_values`) and the partitioner, which reads the config itself."""

    connector: str
    naming: NamingSettings
    rotation: RotationSettings
    format: FormatSettings
    compatibility: str
    """`NONE`, `BACKWARD`, `FORWARD` or `FULL`."""
    ignores_nulls: bool
    """True if records without value are skipped; else they fail."""
    hive: HiveSettings | None
    compact: CompactSettings | None
    keys: FormatSettings | None = None
    """The format of the keys' files, if there are any."""
    headers: FormatSettings | None = None


def _only(value: Any, why: str) -> Check:
    def rule(name: str, found: Any) -> str | None:
        return None if found is None or str(found).lower() == str(value).lower() else invalid(name, found, why)

    return Check(rule, str(value).lower())


def _hdfs(package: str) -> Settings:
    store, kinds, files = SettingGroup("Storage"), SettingGroup("Format"), SettingGroup("Files")
    objects = SettingGroup("S3")
    return Settings(
        *hdfs_settings(store),
        storage_setting(store, f"{package}.storage.HdfsStorage"),
        *naming_settings(files, is_s3=False),
        *rotation_settings(files, is_s3=False),
        *compact_settings(files),
        *format_settings(kinds, is_s3=False, default=f"{package}.avro.AvroFormat"),
        *partition_settings(SettingGroup("Partitioner")),
        *hive_settings(SettingGroup("Hive")),
        *_timing(SettingGroup("Timing")),
        endpoint_setting(objects),
        *s3_settings(objects),
    )


def _timing(group: SettingGroup) -> tuple[Any, ...]:
    text = "Accepted for configs of Confluent's connector. "
    return (
        group(
            "retry.backoff.ms",
            Type.LONG,
            5000,
            LOW,
            SHORT,
            "Retry Backoff (ms)",
            f"{text}The worker waits for 0.1 s before the second try, and twice as long before each next one, up to "
            "10 s.",
            Range(0),
        ),
        group(
            "shutdown.timeout.ms",
            Type.LONG,
            3000,
            MEDIUM,
            SHORT,
            "Shutdown Timeout (ms)",
            f"{text}The worker's task.shutdown.graceful.timeout.ms counts.",
            Range(0),
        ),
    )


def _s3() -> Settings:
    store, kinds, files = SettingGroup("S3"), SettingGroup("Format"), SettingGroup("Files")
    return Settings(
        *bucket_settings(store),
        *s3_settings(store),
        storage_setting(store, "io.confluent.connect.s3.storage.S3Storage"),
        *naming_settings(files, is_s3=True),
        *rotation_settings(files, is_s3=True),
        *format_settings(kinds, is_s3=True, default=REQUIRED),
        *partition_settings(SettingGroup("Partitioner")),
        *hive_settings(SettingGroup("Hive")),
        *_timing(SettingGroup("Timing")),
        *_beside(SettingGroup("Keys and headers")),
        *_not_served(SettingGroup("Not served")),
    )


def _beside(group: SettingGroup) -> tuple[Any, ...]:
    """The settings of the files beside those of values, by the names of Confluent's S3 connector."""
    made = []
    for one in ("keys", "headers"):
        made += [
            group(
                f"store.kafka.{one}",
                Type.BOOLEAN,
                False,
                LOW,
                SHORT,
                f"Store Kafka {one.title()}",
                f"True: a file of {one} is written beside each file of values; its name ends with .{one} and the "
                "format's extension. The S3 source reads both.",
            ),
            group(
                f"{one}.format.class",
                Type.CLASS,
                "io.confluent.connect.s3.format.avro.AvroFormat",
                LOW,
                LONG,
                f"{one.title()} format class",
                f"The format of the files of {one}: avro, json or parquet, or Confluent's class of one of these.",
                SIDE_FORMAT,
                recommender=Offer(("avro", "json", "parquet")),
                is_plugin=False,
            ),
        ]
    return tuple(made)


def _not_served(group: SettingGroup) -> tuple[Any, ...]:
    """The settings of Confluent's S3 connector that have one value here, or no effect."""

    def one(name: str, type_: Type, value: Any, why: str) -> Any:
        text = f"Only {str(value).lower()} is served: {why[0].lower()}{why[1:]}."
        return group(name, type_, value, LOW, SHORT, "", text, _only(value, why))

    def idle(name: str, type_: Type, value: Any, why: str = "") -> Any:
        text = f"Accepted for configs of Confluent's connector{f': {why}' if why else ''}."
        return group(name, type_, value, LOW, MID, "", text)

    return (
        one("s3.object.tagging", Type.STRING, "false", "Objects get no tags; their names have topic and offset"),
        idle("s3.object.behavior.on.tagging.error", Type.STRING, "ignore"),
        one("s3.schema.partition.affix.type", Type.STRING, "NONE", "The schema's name is no part of a path"),
        one("compact.files", Type.INT, 0, NOT_IN_S3),
        idle("s3.elastic.buffer.enable", Type.BOOLEAN, False, "files are written to the local disk first"),
        idle("s3.elastic.buffer.init.capacity", Type.INT, 131_072),
        idle("report.null.values.to.dlq", Type.BOOLEAN, True, "errors.tolerance says where failed records go"),
        idle("tombstone.encoded.partition", Type.STRING, "tombstone"),
        idle("enable.conditional.writes", Type.BOOLEAN, True),
        idle("max.files.scan.limit", Type.INT, 100),
    )


HDFS: Final = _hdfs("io.confluent.connect.hdfs")
HDFS3: Final = _hdfs("io.confluent.connect.hdfs3")
S3: Final = _s3()


def is_s3(config: Mapping[str, str]) -> bool:
    """True if the config names the S3 connector's class."""
    return _simple_name(config).startswith("S3")


def _simple_name(config: Mapping[str, str]) -> str:
    return config.get("connector.class", "").strip().rpartition(".")[2]


def _declared(config: Mapping[str, str]) -> Settings:
    if is_s3(config):
        return S3
    return HDFS3 if _simple_name(config).startswith("Hdfs3") else HDFS


def parse(config: Mapping[str, str]) -> dict[str, Any]:
    """Every setting's value, by the connector's class. Errors: ConfigError with all problems."""
    return _declared(config).parse(config)


def sink_settings(config: Mapping[str, str]) -> SinkSettings:
    """Parses the config. Errors: ConfigError."""
    values = parse(config)
    s3 = is_s3(config)
    # White space counts in a separator, and parsing trims it.
    separator = config.get("format.bytearray.separator", "\n")
    return SinkSettings(
        connector=config.get("name", "hdfs-sink"),
        naming=naming_of(values, s3),
        rotation=rotation_of(values),
        format=formats_of(values, separator, s3),
        compatibility=values["schema.compatibility"].upper(),
        ignores_nulls=values["behavior.on.null.values"].lower() == "ignore",
        hive=hive_of(values),
        compact=compact_of(values),
        keys=_side_format(values, "keys"),
        headers=_side_format(values, "headers"),
    )


def _side_format(values: Mapping[str, Any], which: str) -> FormatSettings | None:
    if not values.get(f"store.kafka.{which}"):
        return None
    return formats_of({**values, "format.class": values[f"{which}.format.class"]}, "\n", is_s3=True)


def store_values(config: Mapping[str, str]) -> dict[str, Any]:
    """Every setting's value, with `store.url` cut before its first variable; empty if only a bucket is named.

    Errors: ConfigError.
    """
    values = parse(config)
    return values if is_s3(config) else {**values, "store.url": split_url(values)[0]}


def unused(config: Mapping[str, str]) -> list[str]:
    """The given settings that have no effect."""
    declared = _declared(config)
    return [name for name in _WITHOUT_EFFECT if name in config and name in declared]
