"""Refused configs of partitioners, their names, and the directories of topics; without Spark."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql import Column

from headrace.config.problems import ConfigError
from headrace.connectors.hdfs.file_settings import NamingSettings
from headrace.connectors.hdfs.partitioners import partitioner as contract
from headrace.connectors.hdfs.partitioners.by_field import FieldPartitioner
from headrace.connectors.hdfs.partitioners.by_partition import DefaultPartitioner
from headrace.connectors.hdfs.partitioners.by_time import DailyPartitioner, HourlyPartitioner, TimeBasedPartitioner
from headrace.connectors.hdfs.partitioners.partitioner import Partitioner, partitioner_of
from headrace.connectors.hdfs.partitioners.topic_folders import TopicFolders
from headrace.plugins.records import Records

DAILY = {"partitioner.class": "Daily", "locale": "en-US", "timezone": "UTC"}
SPANS = {**DAILY, "partitioner.class": "TimeBased", "partition.duration.ms": "3600000"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", DefaultPartitioner),
        ("io.confluent.connect.storage.partitioner.DefaultPartitioner", DefaultPartitioner),
        ("io.confluent.connect.hdfs.partitioner.FieldPartitioner", FieldPartitioner),
        ("HourlyPartitioner", HourlyPartitioner),
        ("Daily", DailyPartitioner),
    ],
)
def test_partitioners_by_their_names(name: str, expected: type[Partitioner]) -> None:
    config = {**DAILY, "partitioner.class": name, "partition.field.name": "a"}
    assert type(partitioner_of(config)) is expected


def test_a_name_of_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"No partitioner has this name.*DefaultPartitioner, FieldPartitioner"):
        partitioner_of({"partitioner.class": "org.example.Mine"})


class ByTopic(Partitioner):
    def configure(self, config: object) -> None:
        self.configured = config

    def column(self, records: Records) -> Column:
        raise NotImplementedError


def test_ones_own_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "partitioners", lambda: {"org.example.ByTopicPartitioner": ByTopic})
    config = {"partitioner.class": "ByTopic"}
    found = partitioner_of(config)
    assert isinstance(found, ByTopic)
    assert found.configured == config
    assert found.paths(pa.array(["x=1"])).to_pylist() == ["x=1"]


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({"partitioner.class": "Field"}, ["partition.field.name"]),
        ({"partitioner.class": "Daily"}, ["locale", "timezone"]),
        (
            {"partitioner.class": "TimeBased", "locale": "de", "timezone": "UTC"},
            ["path.format", "partition.duration.ms"],
        ),
        ({**SPANS, "path.format": "'year'=YYYY/Bad"}, ["path.format"]),
        ({**DAILY, "timezone": "Europe/Nowhere"}, ["timezone"]),
        ({**DAILY, "timestamp.extractor": "org.example.Mine"}, ["timestamp.extractor"]),
        ({**SPANS, "path.format": "YYYY-MM-dd", "hive.integration": "true"}, ["path.format"]),
    ],
)
def test_configs_that_are_refused(config: dict[str, str], keys: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        partitioner_of(config)
    assert [problem.key for problem in refused.value.problems] == keys


def test_an_unknown_letter_is_refused_in_jodas_words() -> None:
    with pytest.raises(ConfigError, match="Illegal pattern component: B"):
        partitioner_of({**SPANS, "path.format": "'year'=YYYY/Bad"})


@pytest.mark.parametrize(
    ("config", "fields", "deterministic"),
    [
        (DAILY, ["year", "month", "day"], False),
        (
            {**DAILY, "partitioner.class": "Hourly", "timestamp.extractor": "Record"},
            ["year", "month", "day", "hour"],
            True,
        ),
        ({**SPANS, "path.format": "'dt='YYYYMMdd/'h'=HH/"}, ["dt", "h"], False),
        ({**SPANS, "path.format": "YYYYMMdd"}, [], False),
        ({"partitioner.class": "Field", "partition.field.name": "a, b.c"}, ["a", "b.c"], True),
        ({}, ["partition"], True),
    ],
)
def test_the_columns_of_hive_and_whether_a_record_stays_in_its_place(
    config: dict[str, str], fields: list[str], deterministic: bool
) -> None:
    found = partitioner_of(config)
    assert (list(found.fields), found.is_deterministic) == (fields, deterministic)


def test_paths_of_distinct_times_also_elsewhere() -> None:
    found = pickle.loads(pickle.dumps(partitioner_of({**DAILY, "partitioner.class": "Hourly"})))
    assert isinstance(found, TimeBasedPartitioner)
    paths = found.paths(pa.array([0, None, 1_789_999_200_000], pa.int64()))
    assert paths.to_pylist() == [
        "year=1970/month=01/day=01/hour=00",
        None,
        "year=2026/month=09/day=21/hour=14",
    ]


@pytest.mark.parametrize(
    ("topics_dir", "groups", "topic", "expected"),
    [
        ("topics", None, "a.b", "topics/a.b"),
        ("raw/${topic}/x", None, "a.b", "raw/a.b/x/a.b"),
        ("${2}/${1}", r"(\w+)\.(\w+)", "a.b", "b/a/a.b"),
        ("t/${1}/x", r"a(-.*)?", "a", "t/x/a"),
    ],
)
def test_directories_of_topics(topics_dir: str, groups: str | None, topic: str, expected: str) -> None:
    assert TopicFolders(NamingSettings(topics_dir, groups)).of(topic) == expected


def test_a_topic_that_does_not_match_is_refused() -> None:
    with pytest.raises(ConfigError, match="Topic abc does not fully match the specified regex"):
        TopicFolders(NamingSettings("${1}", "(a)b")).of("abc")


@pytest.mark.parametrize("name", ["2", "0", "day"])
def test_variables_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is neither"):
        TopicFolders(NamingSettings(f"${{{name}}}", "(a)"))
