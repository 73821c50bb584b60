"""Replicator's configs as the mirror's: published ones, clients, topics, refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.filters import topic_filter
from headrace.connectors.mirror.policy import policy_of
from headrace.connectors.mirror.replicator.connector import ReplicatorSourceConnector
from headrace.connectors.mirror.replicator.translation import mirror_config, problems_of

BYTES = "io.confluent.connect.replicator.util.ByteArrayConverter"
LEAST = {
    "name": "r",
    "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
    "src.kafka.bootstrap.servers": "a:9092",
    "dest.kafka.bootstrap.servers": "b:9092",
    "topic.whitelist": "orders",
}
PUBLISHED: dict[str, Mapping[str, Any]] = {
    "rail data": {
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
        "topic.whitelist": "TRAIN_MOVEMENTS_ACTIVATIONS_SCHEDULE_00",
        "topic.rename.format": "${topic}",
        "confluent.license": "",
        "confluent.topic.bootstrap.servers": "b:29092",
        "confluent.topic.replication.factor": 1,
        "consumer.override.auto.offset.reset": "earliest",
    },
    "two data centres": {
        "key.converter": BYTES,
        "value.converter": BYTES,
        "topic.whitelist": "topic1,_schemas",
        "dest.kafka.replication.factor": 1,
        "src.consumer.group.id": "replicator-dc1-to-dc2",
        "src.consumer.interceptor.classes": "io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor",
        "src.consumer.confluent.monitoring.interceptor.bootstrap.servers": "c:9092",
        "src.kafka.timestamps.topic.replication.factor": 1,
        "src.kafka.timestamps.producer.interceptor.classes": "io.confluent.monitoring.clients.interceptor.X",
        "provenance.header.enable": "true",
        "tasks.max": "1",
    },
    "by SASL": {
        "key.converter": BYTES,
        "value.converter": BYTES,
        "topic.whitelist": "testTopic",
        "topic.rename.format": "${topic}.replica",
        "src.kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="connect" password="connect-secret";',
        "src.kafka.sasl.mechanism": "PLAIN",
        "src.kafka.security.protocol": "SASL_PLAINTEXT",
        "src.consumer.max.poll.records": "500",
        "offset.timestamps.commit": "false",
        "offset.translator.batch.period.ms": "5000",
        "topic.config.sync": "false",
        "topic.auto.create": "true",
        "offset.start": "consumer",
    },
}


def with_more(**more: str) -> dict[str, str]:
    return {**LEAST, **{name.replace("__", "."): value for name, value in more.items()}}


def keys(config: Mapping[str, str]) -> set[str]:
    return {one.key for one in problems_of(config)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_are_accepted(name: str) -> None:
    config = {**LEAST, **{key: str(value) for key, value in PUBLISHED[name].items()}}
    assert problems_of(config) == []
    assert ReplicatorSourceConnector().validate(config) == []


def test_settings_of_clients() -> None:
    config = with_more(
        src__kafka__security__protocol="SSL",
        src__kafka__ssl__truststore__certificates="pem",
        src__kafka__request__timeout__ms="7000",
        src__consumer__fetch__max__bytes="1000",
        src__consumer__request__timeout__ms="9000",
        dest__kafka__retries="3",
        src__consumer__group__id="g",
    )
    clients = MirrorClients(mirror_config(config).config)
    consumer, admin, target = clients.source_consumer("x"), clients.source_admin("x"), clients.target_admin("x")
    assert consumer.java["bootstrap.servers"] == admin.java["bootstrap.servers"] == "a:9092"
    assert target.java["bootstrap.servers"] == "b:9092"
    assert consumer.java["security.protocol"] == admin.java["security.protocol"] == "SSL"
    assert "security.protocol" not in target.java
    assert (consumer.java["request.timeout.ms"], admin.java["request.timeout.ms"]) == ("9000", "7000")
    assert (consumer.java["fetch.max.bytes"], consumer.java["group.id"]) == ("1000", "g")
    assert target.java["retries"] == "3"


def test_the_group_is_named_after_the_connector() -> None:
    assert MirrorClients(mirror_config(LEAST).config).source_consumer("x").java["group.id"] == "r"


def test_topics_are_names_or_match_a_whole_expression_and_the_blacklist_wins() -> None:
    config = with_more(topic__whitelist="a.b,c,d", topic__regex="e-[0-9]+", topic__blacklist="d,e-7")
    chosen = topic_filter(mirror_config(config).config)
    names = ("a.b", "axb", "c", "cc", "d", "e-1", "e-", "e-7", "xe-1")
    assert [name for name in names if chosen.passes(name)] == ["a.b", "c", "e-1"]
    alone = topic_filter(mirror_config({**LEAST, "topic.whitelist": "", "topic.regex": ".*"}).config)
    assert alone.passes("anything")


@pytest.mark.parametrize(
    ("given", "copy"), [("${topic}", "t"), ("${topic}.replica", "t.replica"), ("dc1-${topic}", "dc1-t")]
)
def test_names_of_copies(given: str, copy: str) -> None:
    policy = policy_of(mirror_config(with_more(topic__rename__format=given)).config)
    assert policy.format_remote_topic("source", "t") == copy
    assert policy.topic_source(copy) is None


def test_intervals_and_factors() -> None:
    made = mirror_config(LEAST).config
    assert made["refresh.topics.interval.seconds"] == made["sync.topic.configs.interval.seconds"] == "120"
    assert (made["replication.factor"], made["sync.topic.configs.enabled"]) == ("-1", "true")
    made = mirror_config(with_more(topic__poll__interval__ms="500", dest__topic__replication__factor="3")).config
    assert (made["refresh.topics.interval.seconds"], made["replication.factor"]) == ("1", "3")


def test_provenance_needs_no_word_about_the_opposite_flow() -> None:
    assert "opposite.flow.topics" not in mirror_config(LEAST).config
    assert mirror_config(with_more(provenance__header__enable="true")).config["opposite.flow.topics"] == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topic.whitelist", ""),
        ("topic.whitelist", "orders,__consumer_offsets"),
        ("topic.regex", "a{1,2}"),
        ("topic.regex", "(a"),
        ("topic.rename.format", "all"),
        ("topic.rename.format", "${topic}-${topic}"),
        ("topic.preserve.partitions", "false"),
        ("topic.timestamp.type", "LogAppendTime"),
        ("src.value.converter", "io.confluent.connect.avro.AvroConverter"),
        ("src.header.converter", "org.apache.kafka.connect.json.JsonConverter"),
        ("provenance.header.filter.overrides", "a,b,0-1"),
        ("schema.registry.topic", "_schemas"),
        ("schema.subject.translator.class", "x.Y"),
        ("offset.start", "beginning"),
        ("src.kafka.security.protocol", "NONE"),
        ("src.consumer.fetch.max.bytes", "many"),
        ("src.consumer.auto.offset.reset", "by_duration:PT1H"),
        ("dest.kafka.sasl.mechanism", "MAGIC"),
    ],
)
def test_what_is_not_served_is_refused_at_its_own_key(key: str, value: str) -> None:
    config = {**LEAST, key: value}
    if key == "dest.kafka.sasl.mechanism":
        config["dest.kafka.security.protocol"] = "SASL_PLAINTEXT"
    if key == "schema.registry.topic":
        config["schema.registry.url"] = "http://a"
    assert key in keys(config)
    assert not {one for one in keys(config) if one.startswith(("source.", "target.", "topics"))}


@pytest.mark.parametrize("key", ["src.kafka.bootstrap.servers", "dest.kafka.bootstrap.servers"])
def test_both_clusters_are_needed(key: str) -> None:
    assert keys({name: value for name, value in LEAST.items() if name != key}) == {key}


def test_a_start_with_a_refused_config_fails() -> None:
    context: Any = None
    with pytest.raises(ConfigError, match="Only true is served"):
        ReplicatorSourceConnector().start(with_more(topic__preserve__partitions="false"), context)


def test_no_secret_is_shown() -> None:
    config = with_more(
        src__kafka__sasl__jaas__config='x required username="u" password="hidden-word";',
        src__kafka__security__protocol="SASL_SSL",
        src__kafka__sasl__mechanism="PLAIN",
    )
    assert "hidden-word" not in json.dumps([str(one) for one in problems_of(config)])


def test_exactly_once() -> None:
    connector = ReplicatorSourceConnector()
    assert connector.exactly_once_support(LEAST)
    assert problems_of(with_more(exactly__once__support="required")) == []
    for clients in ("src.consumer", "src.kafka"):
        dirty = {**LEAST, "exactly.once.support": "required", f"{clients}.isolation.level": "read_uncommitted"}
        assert not connector.exactly_once_support(dirty)
        assert keys(dirty) == {"exactly.once.support"}
    assert connector.exactly_once_support({**dirty, "src.consumer.isolation.level": "read_committed"})
    assert not connector.exactly_once_support(with_more(offset__start="consumer"))  # the group may lag behind


def test_offsets_that_an_operator_sets() -> None:
    check = ReplicatorSourceConnector().check_offsets
    good = {"partition": {"topic": "t", "partition": 0}, "offset": {"offset": 5}}
    assert check(LEAST, {"offsets": [good, {"partition": {"topic": "t", "partition": 1}, "offset": None}]})
    for bad in ({"topic": "t"}, {"partition": 0}, {"topic": 5, "partition": 0}):
        with pytest.raises(ValueError, match="Source partition"):
            check(LEAST, {"offsets": [{"partition": bad, "offset": {"offset": 5}}]})
