"""The pinned jars are data that can be trusted: complete, unambiguous, without versions that are known to be bad."""

from __future__ import annotations

import re

import pytest

from headrace.config.jars import KAFKA_SETS, KAFKA_VERSION, SETS, Jar, pinned

ALL = {jar for jar_set in SETS for jar in pinned(jar_set)}


@pytest.mark.parametrize("jar_set", SETS)
def test_every_jar_has_a_version_and_a_sha256(jar_set: str) -> None:
    jars = pinned(jar_set)
    assert jars
    for jar in jars:
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256), jar
        assert re.match(r"\d", jar.version), jar
        assert re.fullmatch(r"[\w.-]+", jar.group), jar


def test_one_file_name_is_one_jar() -> None:
    assert len({jar.file_name for jar in ALL}) == len(ALL)


@pytest.mark.parametrize("jar_set", SETS)
def test_no_artifact_is_there_twice_in_a_set(jar_set: str) -> None:
    names = [(jar.group, jar.artifact) for jar in pinned(jar_set)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("jar_set", "artifacts"),
    [
        ("kafka", {"kafka_2.13", "kafka-clients", "log4j-slf4j-impl", "snappy-java"}),
        (
            "spark",
            {"spark-sql-kafka-0-10_2.13", "commons-pool2", "kafka-clients"},
        ),
        ("connect", {"connect-runtime", "connect-file", "connect-json", "connect-mirror", "jakarta.ws.rs-api"}),
    ],
)
def test_sets_hold_what_their_users_start(jar_set: str, artifacts: set[str]) -> None:
    assert artifacts <= {jar.artifact for jar in pinned(jar_set)}


def test_all_of_kafka_is_one_version_without_the_known_corruption() -> None:
    other = {name for sets in list(KAFKA_SETS.values())[1:] for name in sets}
    usual = {jar for name in SETS.keys() - other for jar in pinned(name) if jar.group == "org.apache.kafka"}
    assert {jar.version for jar in usual} == {KAFKA_VERSION}
    assert {jar.version for jar in pinned("kafka-4.4") if jar.group == "org.apache.kafka"} == {"4.4.0"}
    assert tuple(map(int, KAFKA_VERSION.split("."))) >= (3, 9, 2)  # CVE-2026-35554


def test_an_unknown_set_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'flink'.*kafka, spark, connect"):
        pinned("flink")


def test_what_is_no_plain_jar_is_named_with_classifier_and_extension() -> None:
    (archive,) = pinned("registry")
    assert archive.coordinates == "io.apicurio:apicurio-registry-app:3.3.3:all@tar.gz"
    assert archive.file_name == "apicurio-registry-app-3.3.3-all.tar.gz"
    assert Jar("g", "a", "1", "0").file_name == "a-1.jar"
    assert Jar("g", "a", "1", "0").coordinates == "g:a:1"
