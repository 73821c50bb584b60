"""The classes, hosts and files that the settings of a catalog may name; its errors and their secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings

HADOOP = {"type": "hadoop", "warehouse": "hdfs://nn:8020/lake"}
REST = {"type": "rest", "uri": "https://rest.example.com/api", "warehouse": "w"}
JDBC = {"type": "jdbc", "uri": "jdbc:postgresql://db:5432/lake", "warehouse": "s3://b/w"}


def read(properties: Mapping[str, str], worker: Mapping[str, Any] | None = None, **more: str) -> CatalogSettings:
    config = {f"iceberg.catalog.{key}": value for key, value in properties.items()}
    return CatalogSettings.of(config | {key.replace("__", "."): value for key, value in more.items()}, worker or {})


@pytest.mark.parametrize(
    "properties",
    [
        HADOOP,
        REST | {"credential": "id:secret", "oauth2-server-uri": "https://auth/x", "rest.auth.type": "oauth2"},
        JDBC | {"jdbc.user": "u", "jdbc.password": "p", "jdbc.schema-version": "V1"},
        JDBC | {"uri": "jdbc:mysql://a:3306,b:3306/lake?useSSL=true&user=x"},
        JDBC | {"uri": "jdbc:sqlite:/tmp/x.db"},
        {"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"},
        {"type": "hive", "uri": "thrift://a:9083,thrift://b:9083", "clients": "2", "cache-enabled": "false"},
        {"type": "hive", "client.credentials-provider": "software.amazon.awssdk.auth.credentials.ProfileX"},
        {"type": "nessie", "uri": "http://n:19120/api/v2", "ref": "main"},
    ],
)
def test_catalogs_that_people_have_are_taken(properties: dict[str, str]) -> None:
    given = read(properties).opening()["properties"]
    assert given | properties == given
    assert ("rest.client.socket-timeout-ms" in given) is (properties.get("type") == "rest")


@pytest.mark.parametrize(
    ("properties", "socket_timeout"),
    [
        (JDBC, {"jdbc.socketTimeout": "60"}),
        (JDBC | {"uri": "jdbc:mariadb://a/lake"}, {"jdbc.socketTimeout": "60000"}),
        (JDBC | {"uri": "jdbc:mysql://a/lake"}, {"jdbc.socketTimeout": "60000"}),
        (JDBC | {"jdbc.sockettimeout": "7"}, {"jdbc.sockettimeout": "7"}),
        (JDBC | {"uri": "jdbc:sqlite:/tmp/x.db"}, {}),
        (HADOOP, {}),
    ],
)
def test_a_database_that_has_gone_in_silence_is_given_up(
    properties: dict[str, str], socket_timeout: dict[str, str]
) -> None:
    given = read(properties).opening()["properties"]
    assert {key: value for key, value in given.items() if key.lower() == "jdbc.sockettimeout"} == socket_timeout


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("type", "bigquery"),
        ("catalog-impl", "com.example.Catalog"),
        ("catalog-impl", "org.apache.iceberg.inmemory.InMemoryCatalog"),
        ("io-impl", "org.apache.iceberg.gcp.gcs.GCSFileIO"),
        ("rest.auth.type", "com.example.Auth"),
        ("rest.auth.type", "lowercase"),
        ("metrics-reporter-impl", "com.example.Reporter"),
        ("client.factory", "com.example.Factory"),
        ("client.credentials-provider", "org.codehaus.Any"),
        ("some.unknown.key", "org.springframework.context.support.FileSystemXmlApplicationContext"),
        ("some.unknown.key", "org.apache.iceberg.Ok,com.example.Outer$Inner"),
        ("uri", "jdbc:postgresql://db/lake?socketFactory=x"),
        ("uri", "jdbc:postgresql://db/lake?user=a&loggerFile=/etc/x"),
        ("uri", "jdbc:postgresql://db/lake?%73ocketFactory=x"),
        ("uri", "jdbc:mysql:loadbalance://a,b/lake"),
        ("uri", "jdbc:mysql://address=(host=a)(allowLoadLocalInfile=true)/lake"),
        ("uri", "jdbc:mariadb://db/lake?allowLocalInfile=true"),
        ("uri", "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://x'"),
        ("uri", "jdbc:sqlite::resource:http://x/y.db"),
        ("uri", "jdbc:sqlite:/tmp/x.db?enable_load_extension=true"),
        ("uri", "jdbc:sqlite:file:/tmp/x.db?vfs=unix"),
        ("jdbc.socketFactory", "org.springframework.X"),
        ("jdbc.enable_load_extension", "true"),
    ],
)
def test_foreign_classes_and_parameters_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read({"type": "jdbc", key: value} if key != "catalog-impl" else {key: value})
    assert {problem.key for problem in refused.value.problems} == {f"iceberg.catalog.{key}"}


@pytest.mark.parametrize("key", ["net.topology.script.file.name", "hadoop.kerberos.kinit.command"])
def test_no_program_is_run(key: str) -> None:
    with pytest.raises(ConfigError, match="names a program"):
        read(HADOOP, **{f"iceberg.hadoop.{key}": "run.sh"})


def test_hadoops_classes_are_hadoops() -> None:
    read(HADOOP, iceberg__hadoop__fs__hdfs__impl="org.apache.hadoop.hdfs.DistributedFileSystem")
    with pytest.raises(ConfigError, match=r"iceberg\.hadoop\.fs\.x\.impl"):
        read(HADOOP, iceberg__hadoop__fs__x__impl="com.example.FileSystem")


def test_a_catalog_needs_properties() -> None:
    with pytest.raises(ConfigError, match=r"iceberg\.catalog\.type"):
        read({})


@pytest.mark.parametrize(
    ("properties", "is_allowed"),
    [
        ({"type": "hadoop", "warehouse": "{allowed}/lake"}, True),
        ({"type": "hadoop", "warehouse": "file://{allowed}/lake"}, True),
        ({"type": "hadoop", "warehouse": "/etc"}, False),
        ({"type": "hadoop", "warehouse": "file:/etc"}, False),
        ({"type": "hadoop", "warehouse": "FILE:///etc"}, False),
        ({"type": "hadoop", "warehouse": "{allowed}/../x"}, False),
        ({"type": "jdbc", "uri": "jdbc:sqlite:/etc/x.db"}, False),
        ({"type": "rest", "uri": "http://h", "rest.client.keystore": "/etc/x"}, False),
        (HADOOP, True),
    ],
)
def test_files_lie_within_the_allowed_paths(tmp_path: Path, properties: dict[str, str], is_allowed: bool) -> None:
    given = {key: value.format(allowed=tmp_path) for key, value in properties.items()}
    worker = {"file.allowed.paths": [str(tmp_path)]}
    if is_allowed:
        read(given, worker)
    else:
        with pytest.raises(ConfigError, match=r"file\.allowed\.paths"):
            read(given, worker)


def test_the_folder_of_hadoops_files_is_allowed_and_has_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none of Hadoop's"):
        read(HADOOP, {}, **{"iceberg.hadoop-conf-dir": str(tmp_path)})
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    made = read(HADOOP, {"file.allowed.paths": [str(tmp_path)]}, **{"iceberg.hadoop-conf-dir": str(tmp_path)})
    assert made.opening()["hadoop_files"] == [str(tmp_path / "core-site.xml")]
    assert made.opening()["allowed_paths"] == [str(tmp_path)]
    with pytest.raises(ConfigError, match=r"file\.allowed\.paths"):
        read(HADOOP, {"file.allowed.paths": ["/nowhere"]}, **{"iceberg.hadoop-conf-dir": str(tmp_path)})


def told(**more: Any) -> dict[str, Any]:
    return {"location": "s3://b/t", "properties": {}, "reached": {}, **more}


@pytest.mark.parametrize(
    "table",
    [
        told(location="file:/etc/t"),
        told(properties={"write.data.path": "file:///etc"}),
        told(properties={"write.location-provider.impl": "com.example.Provider"}),
        told(location="hdfs://other:8020/t"),
        told(reached={"s3.endpoint": "http://169.254.169.254/"}),
    ],
)
def test_a_table_leads_nowhere_else(tmp_path: Path, table: dict[str, Any]) -> None:
    worker = {"file.allowed.paths": [str(tmp_path)], "connector.allowed.hosts": ["rest.example.com"]}
    made = read(REST, worker)
    made.check_table("db.t", told())
    with pytest.raises(LakeError, match=r"Table db\.t"):
        made.check_table("db.t", table)


def test_errors_and_texts_show_no_secret() -> None:
    made = read(
        REST | {"uri": "https://u:s3cr3t1@h/x?a=s3cr3t2", "credential": "id:s3cr3t3", "header.X-Key": "s3cr3t4"},
        {},
        **{"iceberg.hadoop.fs.s3a.secret.key": "s3cr3t5"},
    )
    text = made.without_secrets("id:s3cr3t3 s3cr3t4 s3cr3t5 https://u:s3cr3t1@h/x?a=s3cr3t2")
    assert "s3cr3t" not in text + made.about + repr(made) + str(made)


@pytest.mark.parametrize(
    ("properties", "needs"),
    [
        (HADOOP, False),
        ({"type": "hive", "uri": "thrift://h:1"}, False),
        (REST, True),
        (JDBC, True),
        ({"catalog-impl": "org.apache.iceberg.rest.RESTCatalog"}, True),
        ({"type": "hive", "uri": "thrift://h:1", "s3.endpoint": "http://m:9000"}, True),
    ],
)
def test_amazons_clients_are_fetched_if_they_are_needed(properties: dict[str, str], needs: bool) -> None:
    assert read(properties).needs_aws is needs
