"""Problems of sinks' configs beyond single settings."""

from __future__ import annotations

import pytest

from headrace.connectors.hdfs.sink.validation import sink_problems, warnings

HDFS = {"connector.class": "HdfsSink", "flush.size": "3", "store.url": "hdfs://nn:8020", "topics": "a,b"}
S3 = {"connector.class": "S3Sink", "flush.size": "3", "s3.bucket.name": "b", "format.class": "json", "topics": "a"}
HIVE = {"hive.integration": "true", "schema.compatibility": "BACKWARD", "hive.metastore.uris": "thrift://h:9083"}


@pytest.mark.parametrize("config", [HDFS, S3, HDFS | HIVE, {**S3, "flush.size": "none"}])
def test_nothing_to_add(config: dict[str, str]) -> None:
    assert sink_problems(config, {}) == []


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"store.url": ""}, "store.url", "Configuration store.url cannot be empty."),
        (
            {"rotate.schedule.interval.ms": "60000"},
            "timezone",
            "timezone configuration must be set when using scheduled rotation",
        ),
        (
            {**HIVE, "schema.compatibility": "NONE"},
            "schema.compatibility",
            "Hive Integration requires schema compatibility to be BACKWARD, FORWARD or FULL",
        ),
        ({**HIVE, "hive.metastore.uris": ""}, "hive.metastore.uris", "Nothing says where the metastore is"),
        ({**HIVE, "format.class": "json"}, "format.class", "Hive tables are made for Avro and Parquet"),
        (
            {"format.class": "json", "schema.compatibility": "forward"},
            "schema.compatibility",
            "Files of json keep no schema that records could be brought to",
        ),
        ({"store.url": "ftp://host/x"}, "store.url", "No store is known"),
        ({"hive.table.name": "t"}, "hive.table.name", "The name must contain ${topic}"),
        ({"topic.capture.groups.regex": "(a)"}, "topic.capture.groups.regex", "Topic b does not fully match"),
        ({"topics.dir": "${1}"}, "topics.dir", "${1} is neither ${topic} nor one of the 0 groups"),
        (
            {"store.url": "s3://bucket", "compact.files": "10"},
            "compact.files",
            "In S3 a second try of records overwrites",
        ),
        ({"partitioner.class": "Field"}, "partition.field.name", "FieldPartitioner needs the names of fields"),
    ],
)
def test_problems(changes: dict[str, str], key: str, message: str) -> None:
    (problem,) = sink_problems(HDFS | changes, {})
    assert (problem.key, problem.message[: len(message)]) == (key, message)


def test_what_costs_exactly_once_in_s3_is_told() -> None:
    by_clock = {"partitioner.class": "Daily", "locale": "en", "timezone": "UTC"}
    assert [one.key for one in warnings({**S3, **by_clock, "rotate.schedule.interval.ms": "60000"})] == [
        "rotate.schedule.interval.ms",
        "timestamp.extractor",
    ]
    assert [*warnings(S3), *warnings(HDFS | by_clock)] == []
    by_record = {**S3, **by_clock, "timestamp.extractor": "Record", "rotate.interval.ms": "60000"}
    assert list(warnings(by_record)) == []
    kept = {"format.class": "avro", "schema.compatibility": "BACKWARD"}
    for changes, named in [
        ({"rotate.interval.ms": "60000"}, "rotate.interval.ms"),
        ({"rotate.bytes": "60000"}, "rotate.bytes"),
        (kept, "schema.compatibility"),
    ]:
        (problem,) = warnings(S3 | changes)
        assert problem.key == named
    in_s3 = HDFS | by_clock | {"store.url": "s3://bucket", "rotate.bytes": "1000"}
    assert [one.key for one in warnings(in_s3)] == ["rotate.bytes", "timestamp.extractor"]
