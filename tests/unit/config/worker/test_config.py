from __future__ import annotations

import logging

import pytest

from headrace.config.settings import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.settings import header_rules

MINIMAL = {
    "bootstrap.servers": "a:1, b:2",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
STANDALONE = {**MINIMAL, "offset.storage.file.filename": "/tmp/offsets"}
DISTRIBUTED = {
    **MINIMAL,
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def problems(props: dict[str, str], distributed: bool = False) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        (WorkerConfig.distributed if distributed else WorkerConfig.standalone)(props)
    return {problem.key: problem.message for problem in caught.value.problems}


def test_defaults_are_those_of_connect() -> None:
    config = WorkerConfig.standalone(STANDALONE)
    assert config["bootstrap.servers"] == ["a:1", "b:2"]
    assert config["offset.flush.interval.ms"] == 60_000
    assert config["task.shutdown.graceful.timeout.ms"] == 5000
    assert config["plugin.path"] is None
    assert config["header.converter"] == "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    assert config["file.allowed.paths"] == []
    assert config["cluster.id.accept"] is None
    assert [str(listener) for listener in config.listeners()] == ["http://:8083"]
    assert config.admin_listeners() is None
    assert not config.is_distributed


def test_distributed_defaults() -> None:
    config = WorkerConfig.distributed(DISTRIBUTED)
    assert config.is_distributed
    assert (config["request.timeout.ms"], config["receive.buffer.bytes"]) == (40_000, 32_768)
    assert (config["offset.storage.partitions"], config["status.storage.partitions"]) == (25, 5)
    assert config["connect.protocol"] == "sessioned"
    assert config["inter.worker.verification.algorithms"] == ["HmacSHA256"]


def test_everything_wrong_is_told_at_once() -> None:
    found = problems({"listeners": "ftp://a:1", "offset.flush.interval.ms": "soon", "plugin.path": "a,a"})
    assert set(found) == {
        "bootstrap.servers",
        "key.converter",
        "value.converter",
        "offset.storage.file.filename",
        "listeners",
        "offset.flush.interval.ms",
        "plugin.path",
    }


# The messages are those of Connect 4.3.1 to the same values.
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "listeners",
            "",
            "Invalid value for listeners, at least one URL is expected, ex: http://localhost:8080,https://localhost:8443.",
        ),
        ("listeners", "http://a:1, ", "Empty URL found when parsing listeners list."),
        (
            "offset.storage.partitions",
            "0",
            "Invalid value 0 for configuration offset.storage.partitions: Number of partitions must be positive, or -1 "
            "to use the broker's default",
        ),
        (
            "config.storage.replication.factor",
            "0",
            "Invalid value 0 for configuration config.storage.replication.factor: Replication factor must be positive "
            "and not larger than the number of brokers in the Kafka cluster, or -1 to use the broker's default",
        ),
        (
            "connect.protocol",
            "x",
            "Invalid value x for configuration connect.protocol: Invalid Connect protocol compatibility",
        ),
        (
            "inter.worker.verification.algorithms",
            "",
            "Invalid value [] for configuration inter.worker.verification.algorithms: At least one signature "
            "verification algorithm must be provided",
        ),
        (
            "response.http.headers.config",
            "set X-A:1,foo X-B:2",
            "Invalid header config action: 'foo'. Expected one of [set, add, setDate, addDate]",
        ),
        (
            "response.http.headers.config",
            "set X-A",
            "Invalid format of header name and header value pair 'X-A'. Expected: '[header name]:[header value]'",
        ),
        (
            "response.http.headers.config",
            "set",
            "Invalid format of header config 'set'. Expected: '[action] [header name]:[header value]'",
        ),
        (
            "response.http.headers.config",
            "set X A:1",
            "Invalid header name 'X A'. The '[header name]' cannot contain whitespace",
        ),
        (
            "response.http.headers.config",
            "setDate Expires: soon",
            "Invalid header value 'soon'. setDate expects milliseconds from now, an integer",
        ),
        (
            "security.protocol",
            "plain",
            "Invalid value plain for configuration security.protocol: String must be one of (case insensitive): "
            "SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT",
        ),
        (
            "plugin.discovery",
            "x",
            "Invalid value x for configuration plugin.discovery: String must be one of (case insensitive): "
            "ONLY_SCAN, SERVICE_LOAD, HYBRID_WARN, HYBRID_FAIL",
        ),
        ("bootstrap.servers", "a:1,a:1", "Configuration 'bootstrap.servers' values must not be duplicated."),
        ("admin.listeners", "ftp://a:1", 'Listener protocol must be either "http" or "https".'),
        ("rest.advertised.listener", "ftp", 'Listener protocol must be either "http" or "https".'),
        (
            "inter.worker.signature.algorithm",
            "HmacSHA512",
            "Signature algorithm must be present in inter.worker.verification.algorithms list",
        ),
        (
            "connector.client.config.override.policy",
            "my.Policy",
            "This policy is not known; policies cannot be plugged in.",
        ),
    ],
)
def test_wrong_values_are_refused_as_connect_does(key: str, value: str, message: str) -> None:
    assert problems({**DISTRIBUTED, key: value}, distributed=True) == {key: message}


def test_partitions_may_be_left_to_the_broker() -> None:
    assert (
        WorkerConfig.distributed({**DISTRIBUTED, "offset.storage.partitions": "-1"})["offset.storage.partitions"] == -1
    )


def test_prefixes_reach_those_they_are_for() -> None:
    config = WorkerConfig.distributed(
        {
            **DISTRIBUTED,
            "producer.acks": "1",
            "spark.master": "local[2]",
            "spark.sql.x": "y",
            "config.storage.min.insync.replicas": "2",
            "config.storage.cleanup.policy": "delete",
        }
    )
    assert config.with_prefix("producer.") == {"acks": "1"}
    assert config.spark_conf() == {"spark.master": "local[2]", "spark.sql.x": "y"}
    assert config.storage_topic_config("config") == {"min.insync.replicas": "2"}


def test_unknown_keys_are_reported_each_and_known_ones_not(caplog: pytest.LogCaptureFixture) -> None:
    known = {
        "producer.linger.ms": "1",
        "consumer.client.rack": "r",
        "admin.retries": "1",
        "security.protocol": "SSL",
        "value.converter.schemas.enable": "false",
        "metrics.context.a": "b",
        "spark.x": "y",
    }
    with caplog.at_level(logging.WARNING, "headrace.config.worker.config"):
        WorkerConfig.standalone({**STANDALONE, **known, "rest.port": "8083", "producer.lingerms": "1"})
    assert [record.getMessage() for record in caplog.records] == [
        "The setting 'rest.port' has no effect: it was removed in version 3.0: set listeners",
        "The configuration 'producer.lingerms' was supplied but isn't a known config.",
    ]


def test_a_removed_setting_that_kept_the_api_to_one_address_is_refused_without_its_successor() -> None:
    old = {**STANDALONE, "rest.host.name": "localhost"}
    with pytest.raises(ConfigError, match=r"rest\.host\.name .*every address would be served.* set listeners"):
        WorkerConfig.standalone(old)
    WorkerConfig.standalone({**old, "listeners": "http://localhost:8083"})


def test_a_disabled_admin_listener_is_none_at_all() -> None:
    assert WorkerConfig.standalone({**STANDALONE, "admin.listeners": ""}).admin_listeners() == []


def test_header_rules_are_split_outside_quotes() -> None:
    assert header_rules('set A:1, "add B:x, y"') == ["set A:1", "add B:x, y"]
    assert header_rules("") == []


@pytest.mark.parametrize("other", ["config.storage.topic", "offset.storage.topic", "status.storage.topic"])
def test_the_history_has_a_topic_of_its_own(other: str) -> None:
    found = problems({**DISTRIBUTED, "config.history.topic": DISTRIBUTED[other]}, distributed=True)
    assert found == {"config.history.topic": f"It is the topic of {other}, too."}
    assert WorkerConfig.distributed({**DISTRIBUTED, "config.history.topic": "h"})["config.history.topic"] == "h"
    assert WorkerConfig.distributed(DISTRIBUTED)["config.history.topic"] is None
