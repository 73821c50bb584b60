"""Problems of a sink's config beyond single settings, found before it is created.

Source: the conditions and messages of Confluent's connectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.hdfs.compact_settings import NOT_IN_S3
from headrace.connectors.hdfs.format_choice import format_of
from headrace.connectors.hdfs.partitioners.partitioner import Partitioner, partitioner_of
from headrace.connectors.hdfs.partitioners.topic_folders import TopicFolders
from headrace.connectors.hdfs.settings import SinkSettings, is_s3, parse, sink_settings, store_values
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import StoreSettings


def sink_problems(config: Mapping[str, str], worker: Mapping[str, Any]) -> list[Problem]:
    """The problems of a sink's config; none if a single setting is wrong, which is reported elsewhere."""
    try:
        values = parse(config)
    except ConfigError:
        return []
    problems = [*_rotation(values), *_hive(values)]
    settings: SinkSettings | None = None
    try:
        settings = sink_settings(config)
        store = store_of(StoreSettings.of(store_values(config), worker))
        if settings.compact is not None and not store.renames:
            files, remedy = str(settings.compact.files), "Remove it, or let flush.size be larger."
            problems.append(Problem("compact.files", files, NOT_IN_S3, remedy))
    except ConfigError as error:
        problems += error.problems
    try:
        partitioner_of(config)
    except ConfigError as error:
        problems += error.problems
    if settings is not None:
        problems += _format(settings)
        problems += _topics(config, settings)
    return problems


def warnings(config: Mapping[str, str]) -> Iterator[Problem]:
    """The settings of a config without problems that cost exactly once."""
    for key, why in _costly(config):
        text = f"It {why}: after a failure records may be in two objects."
        yield Problem(key, config.get(key), text, "Remove it if no record may be there twice.")


def _costly(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    values = parse(config)
    url = values.get("store.url") or ""
    if not is_s3(config) and not url.startswith(("s3:", "s3a:")):
        return
    if values["rotate.bytes"] > 0:
        yield "rotate.bytes", "ends files by their size, which depends on how many records come at once"
    if values["rotate.schedule.interval.ms"] > 0:
        yield "rotate.schedule.interval.ms", "ends files by the clock"
    partitioner = partitioner_of(config)
    has_times = type(partitioner).time is not Partitioner.time and partitioner.is_deterministic
    if values["rotate.interval.ms"] > 0 and not has_times:
        yield "rotate.interval.ms", "ends files by the clock with this partitioner"
    if values["schema.compatibility"].upper() != "NONE":
        why = "ends files by the schema before them, which a second try may not find again"
        yield "schema.compatibility", why
    if not partitioner.is_deterministic:
        yield "timestamp.extractor", "chooses directories by the clock"


def _rotation(values: Mapping[str, Any]) -> Iterator[Problem]:
    if values["rotate.schedule.interval.ms"] > 0 and not values["timezone"]:
        text = "timezone configuration must be set when using scheduled rotation"
        yield Problem("timezone", "", text, "Set it to a time zone such as UTC, or remove rotate.schedule.interval.ms.")


def _hive(values: Mapping[str, Any]) -> Iterator[Problem]:
    if "${topic}" not in values["hive.table.name"]:
        text = "The name must contain ${topic}, or all topics would share a table"
        yield Problem("hive.table.name", values["hive.table.name"], text, "Add ${topic} to it.")
    if not values["hive.integration"]:
        return
    mode = values["schema.compatibility"]
    if mode.upper() == "NONE":
        text = "Hive Integration requires schema compatibility to be BACKWARD, FORWARD or FULL"
        yield Problem("schema.compatibility", mode, text, "Set schema.compatibility, or hive.integration=false.")
    if not values["hive.metastore.uris"] and not values["hive.conf.dir"]:
        text = "Nothing says where the metastore is"
        yield Problem("hive.metastore.uris", "", text, "Set it to thrift://host:9083, or hive.conf.dir to a directory.")


def _format(settings: SinkSettings) -> Iterator[Problem]:
    if format_of(settings.format).keeps_schemas:
        return
    if settings.hive is not None:
        text = "Hive tables are made for Avro and Parquet"
        yield Problem("format.class", settings.format.format, text, "Set format.class, or hive.integration=false.")
    elif settings.compatibility != "NONE":
        text = f"Files of {settings.format.format} keep no schema that records could be brought to"
        remedy = "Set it to NONE, or format.class to avro or parquet."
        yield Problem("schema.compatibility", settings.compatibility, text, remedy)


def _topics(config: Mapping[str, str], settings: SinkSettings) -> Iterator[Problem]:
    try:
        folders = TopicFolders(settings.naming)
        for topic in filter(None, map(str.strip, config.get("topics", "").split(","))):
            folders.of(topic)
    except ConfigError as error:
        yield from error.problems
