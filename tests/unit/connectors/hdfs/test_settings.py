"""The settings of the sinks: names and defaults of Confluent's, and what is refused."""

from __future__ import annotations

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.hdfs.settings import (
    HDFS,
    HDFS3,
    S3,
    CompactSettings,
    FileFormat,
    FormatSettings,
    NamingSettings,
    RotationSettings,
    parse,
    sink_settings,
    store_values,
    unused,
)

_HDFS = {
    "connector.class": "io.confluent.connect.hdfs.HdfsSinkConnector",
    "name": "files",
    "flush.size": "3",
    "store.url": "hdfs://nn:8020",
}
_S3 = {"connector.class": "S3Sink", "flush.size": "3", "s3.bucket.name": "b", "format.class": "json"}


def test_defaults_of_hdfs() -> None:
    found = sink_settings(_HDFS)
    assert found.naming == NamingSettings("topics")
    assert found.rotation == RotationSettings(3)
    assert found.format == FormatSettings(FileFormat.AVRO)
    assert (found.connector, found.compatibility, found.ignores_nulls, found.hive) == ("files", "NONE", False, None)


def test_defaults_of_s3() -> None:
    found = sink_settings(_S3)
    assert found.naming == NamingSettings("topics", is_s3=True)
    assert found.rotation == RotationSettings(3, on_partition_change=True)
    assert found.format == FormatSettings(FileFormat.JSON, codec_in_name=True)
    assert parse(_S3)["s3.region"] == "us-west-2"


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("io.confluent.connect.hdfs.avro.AvroFormat", FileFormat.AVRO),
        ("io.confluent.connect.hdfs.parquet.ParquetFormat", FileFormat.PARQUET),
        ("io.confluent.connect.hdfs.string.StringFormat", FileFormat.TEXT),
        ("io.confluent.connect.s3.format.bytearray.ByteArrayFormat", FileFormat.BYTES),
        ("JsonFormat", FileFormat.JSON),
        ("parquet", FileFormat.PARQUET),
    ],
)
def test_formats_by_class_or_short_name(name: str, format_: FileFormat) -> None:
    assert sink_settings({**_HDFS, "format.class": name}).format.format is format_


def test_the_path_after_a_variable_belongs_to_the_names() -> None:
    config = {**_HDFS, "store.url": "hdfs://nn:8020/data/${topic}/raw", "topics.dir": "/in/"}
    assert store_values(config)["store.url"] == "hdfs://nn:8020/data/"
    assert sink_settings(config).naming.topics_dir == "${topic}/raw/in"
    assert store_values({**_HDFS, "hdfs.url": "hdfs://old"})["store.url"] == "hdfs://nn:8020"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "Configuration store.url cannot be empty."),
        ("hdfs://${topic}/data", "A variable stands where the host or the bucket does"),
        ("/data", "This is no URL"),
    ],
)
def test_urls_that_name_no_store(url: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        store_values({**_HDFS, "store.url": url})
    assert refused.value.problems[0].message == message


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"flush.size": "0"}, "flush.size"),
        ({"format.class": "io.confluent.connect.hdfs.orc.OrcFormat"}, "format.class"),
        ({"storage.class": "org.example.MyStorage"}, "storage.class"),
        ({"directory.delim": "-"}, "directory.delim"),
        ({"s3.part.size": "1000000"}, "s3.part.size"),
        ({"s3.wan.mode": "true"}, "s3.wan.mode"),
        ({"s3.ssea.name": "DES"}, "s3.ssea.name"),
        ({"store.kafka.keys": "true", "keys.format.class": "text"}, "keys.format.class"),
        ({"s3.object.tagging": "true"}, "s3.object.tagging"),
        ({"compact.files": "10"}, "compact.files"),
        ({"s3.credentials.provider.class": "org.example.Mine"}, "s3.credentials.provider.class"),
        ({"behavior.on.null.values": "write"}, "behavior.on.null.values"),
        ({"timezone": "Europe/Nowhere"}, "timezone"),
    ],
)
def test_values_that_are_not_served_are_refused(changes: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(_S3 | changes)
    assert [problem.key for problem in refused.value.problems] == [key]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({}, None),
        ({"compact.files": "0"}, None),
        ({"compact.files": "10"}, CompactSettings(10, 128 << 20)),
        ({"compact.files": "2", "compact.size.bytes": "1000"}, CompactSettings(2, 1000)),
    ],
)
def test_files_are_merged_only_where_that_is_asked_for(given: dict[str, str], meant: CompactSettings | None) -> None:
    assert sink_settings(_HDFS | given).compact == meant


@pytest.mark.parametrize("given", [{"compact.files": "1"}, {"compact.files": "-1"}, {"compact.size.bytes": "0"}])
def test_one_file_cannot_be_merged(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(_HDFS | given)
    assert [problem.key for problem in refused.value.problems] == [*given]


def test_settings_without_effect_are_named() -> None:
    assert unused({**_HDFS, "logs.dir": "wal", "max.write.duration.ms": "5"}) == ["logs.dir"]
    assert unused({**_S3, "max.write.duration.ms": "5"}) == ["max.write.duration.ms"]


def test_white_space_counts_in_separators() -> None:
    assert sink_settings({**_S3, "format.bytearray.separator": "\t\n"}).format.bytes_separator == b"\t\n"


def test_secrets_are_hidden() -> None:
    given = {"aws.secret.access.key": "abc", "s3.sse.customer.key": "def", "s3.proxy.password": "ghi"}
    for settings in (HDFS, HDFS3, S3):
        assert set(settings.mask(given).values()) == {"[hidden]"}


@pytest.mark.parametrize("settings", [HDFS, HDFS3, S3], ids=["hdfs", "hdfs3", "s3"])
def test_each_setting_says_what_it_means(settings: object) -> None:
    assert isinstance(settings, type(HDFS))
    assert [one.name for one in settings if not one.documentation or not one.group] == []
