from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from headrace.config.connector.clients import (
    admin,
    dead_letter_admin,
    dead_letter_producer,
    group_member,
    override_problems,
    shared_admin,
    sink_consumer,
    source_producer,
)
from headrace.config.connector.sink_members import with_topics
from headrace.config.kafka.client_config import SETTINGS, reset_age_ms, without_counterpart
from headrace.config.kafka.client_keys import CLASS_KEYS, HARMLESS, KEPT, PASSED, STATED
from headrace.config.settings import ConfigError, Type
from headrace.config.worker.config import WorkerConfig

BASE = {
    "bootstrap.servers": "127.0.0.1:1",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
    "offset.storage.file.filename": "/tmp/offsets",
}
NAME = {"name": "c"}
SCRAM = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
    'username="al\\"ice" password="geheim";',
}


def worker(**props: str) -> WorkerConfig:
    return WorkerConfig.standalone({**BASE, **props})


def with_prefix(prefix: str, props: dict[str, str]) -> dict[str, str]:
    return {prefix + key: value for key, value in props.items()}


def accepted(kind: str, config: dict[str, Any]) -> None:
    """librdkafka itself refuses what it does not know or what does not go together."""
    if kind == "producer":
        Producer(config)
    elif kind == "consumer":
        Consumer(config).close()
    else:
        AdminClient(config)


def test_the_layers_of_a_source_producer() -> None:
    java = source_producer(worker(), NAME, 3).java
    assert java == {
        "bootstrap.servers": "127.0.0.1:1",
        "client.id": "connector-producer-c-3",
        "acks": "all",
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": "5",
        "delivery.timeout.ms": "2147483647",
        "max.block.ms": "9223372036854775807",
    }
    layered = worker(**{"producer.linger.ms": "20", "producer.acks": "1", "linger.ms": "9", "producer.client.id": "w"})
    config = source_producer(layered, {**NAME, "producer.override.acks": "all"}, 0)
    assert (config["linger.ms"], config["acks"], config["client.id"]) == (20, "all", "w")


@pytest.mark.parametrize(
    ("props", "idempotent", "in_flight"),
    [
        ({}, True, 5),
        ({"enable.idempotence": "false"}, False, 1),
        ({"acks": "1"}, False, 1),
        ({"retries": "0"}, False, 1),
        ({"max.in.flight.requests.per.connection": "3"}, True, 3),
        ({"max.in.flight.requests.per.connection": "9"}, False, 9),
    ],
)
def test_a_source_producer_is_idempotent_unless_told_otherwise_and_keeps_order(
    props: dict[str, str], idempotent: bool, in_flight: int
) -> None:
    config = source_producer(worker(**with_prefix("producer.", props)), NAME, 0)
    assert config["enable.idempotence"] is idempotent
    assert config["max.in.flight.requests.per.connection"] == in_flight
    accepted("producer", config.librdkafka())


def test_a_transactional_producer() -> None:
    topics = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    cluster = WorkerConfig.distributed({**BASE, **topics, "group.id": "g"})
    java = {**NAME, "producer.override.enable.idempotence": "false", "producer.override.transactional.id": "mine"}
    config = source_producer(cluster, java, 0, in_transactions=True)
    rdkafka = config.librdkafka()
    assert (rdkafka["transactional.id"], rdkafka["enable.idempotence"]) == ("g-c-0", True)
    assert rdkafka["delivery.timeout.ms"] <= config["transaction.timeout.ms"]
    accepted("producer", rdkafka)


def test_the_layers_of_a_sink_consumer() -> None:
    config = sink_consumer(worker(**{"consumer.max.poll.records": "7", "sink.static.membership": "false"}), NAME, 2)
    assert config.java == {
        "group.id": "connect-c",
        "client.id": "connector-consumer-c-2",
        "bootstrap.servers": "127.0.0.1:1",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "max.poll.records": "7",
    }
    assert config["max.poll.records"] == 7
    rdkafka = config.librdkafka()
    # Java's defaults, where librdkafka's are others that would change what is delivered.
    assert rdkafka["isolation.level"] == "read_uncommitted"
    assert rdkafka["partition.assignment.strategy"] == "range"
    assert rdkafka["allow.auto.create.topics"] is True
    assert rdkafka["enable.auto.offset.store"] is False
    own = sink_consumer(worker(), {**NAME, "consumer.override.group.id": "g"}, 0)
    assert own["group.id"] == "g"


def test_a_sink_task_is_a_static_member_of_its_group() -> None:
    def instance(owner: str | None, name: str = "c", task: int = 0, **own: str) -> Any:
        overrides = {f"consumer.override.{key.replace('_', '.')}": value for key, value in own.items()}
        return sink_consumer(worker(), {**NAME, "name": name, **overrides}, task, owner)["group.instance.id"]

    names = ["c", "a-c", "ä", "ö", "n" * 400, "n" * 401]
    ids = [instance(owner, name, task) for owner in ("g", "g-a") for name in names for task in (0, 1)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", with_topics(each, "t")) for each in ids)
    assert instance("g").startswith("g-c-0-"), "an operator sees in the group which task it is"
    assert instance("g", group_instance_id="mine") == "mine"
    for protocol in ("consumer", " Consumer "):
        assert instance("g", group_protocol=protocol) is None, "a member of the new protocol leaves otherwise"
    assert instance("g", group_protocol=" Classic ") == instance("g")


def test_the_layers_of_admin_clients() -> None:
    plain = worker(**{"request.timeout.ms": "7", "admin.retries": "3", "producer.acks": "1"})
    config = admin(plain, {**NAME, "admin.override.retries": "4"}, 1)
    assert (config["request.timeout.ms"], config["retries"]) == (7, 4)
    assert set(config.java) == {"bootstrap.servers", "client.id", "request.timeout.ms", "retries"}
    ids = [
        one["client.id"] for one in (config, admin(plain, NAME), dead_letter_admin(plain, NAME), shared_admin(plain))
    ]
    assert ids == [
        "connector-adminclient-c-1",
        "connector-worker-adminclient-c",
        "connector-dlq-adminclient-c",
        "connect-shared-admin",
    ]
    assert dead_letter_producer(plain, NAME, 0)["client.id"] == "connector-dlq-producer-c-0"


EVERYTHING = {
    "producer": {
        "acks": "-1",
        "batch.size": "0",
        "linger.ms": "20",
        "buffer.memory": "1000",
        "compression.type": "zstd",
        "compression.zstd.level": "22",
        "max.request.size": "20971520",
        "delivery.timeout.ms": "120000",
        "retries": "5",
        "request.timeout.ms": "400000",
        "send.buffer.bytes": "-1",
        "receive.buffer.bytes": "65536",
        "metadata.max.age.ms": "0",
        "metadata.recovery.strategy": "NONE",
        "enable.metrics.push": "false",
        "reconnect.backoff.ms": "5000",
        "retry.backoff.ms": "5000",
        "connections.max.idle.ms": "-1",
        "socket.connection.setup.timeout.ms": "5",
        "transaction.timeout.ms": "5000",
        "partitioner.ignore.keys": "true",
    },
    "consumer": {
        "group.instance.id": "Upper",
        "session.timeout.ms": "45000",
        "heartbeat.interval.ms": "1000",
        "max.poll.interval.ms": "300000",
        "isolation.level": "read_committed",
        "fetch.min.bytes": "0",
        "fetch.max.bytes": "2147483647",
        "fetch.max.wait.ms": "50",
        "max.partition.fetch.bytes": "1000",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "auto.offset.reset": "none",
        "client.rack": "r",
        "check.crcs": "false",
        "auto.commit.interval.ms": "1",
    },
    "admin": {"request.timeout.ms": "1", "client.dns.lookup": "use_all_dns_ips"},
}


@pytest.mark.parametrize("kind", EVERYTHING)
def test_librdkafka_takes_every_translated_setting(kind: str) -> None:
    make = {"producer": source_producer, "consumer": sink_consumer, "admin": admin}[kind]
    rdkafka = make(worker(**with_prefix(f"{kind}.", EVERYTHING[kind])), NAME, 0).librdkafka(1 << 20)
    accepted(kind, rdkafka)
    if kind == "producer":
        assert (rdkafka["partitioner"], rdkafka["compression.level"]) == ("random", 12)
        assert rdkafka["message.max.bytes"] == 20_971_520
        assert rdkafka["request.timeout.ms"] == 400_000
    if kind == "consumer":
        assert rdkafka["partition.assignment.strategy"] == "cooperative-sticky"
        assert (rdkafka["auto.offset.reset"], rdkafka["group.instance.id"]) == ("error", "Upper")


def test_eager_assignors_win_where_both_are_offered() -> None:
    names = "RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    given = worker(**{"consumer.partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{names}"})
    assert sink_consumer(given, NAME, 0).librdkafka()["partition.assignment.strategy"] == "range"


def test_keys_go_where_java_puts_them() -> None:
    assert source_producer(worker(), NAME, 0).librdkafka()["partitioner"] == "murmur2_random"


def test_buffers_are_bounded_from_the_budget() -> None:
    producer = source_producer(worker(), NAME, 0)
    assert producer.librdkafka(8 << 20)["queue.buffering.max.kbytes"] == 8192
    assert producer.librdkafka()["queue.buffering.max.kbytes"] == 32_768
    consumer = sink_consumer(worker(), NAME, 0).librdkafka(4 << 20)
    assert (consumer["queued.max.messages.kbytes"], consumer["fetch.max.bytes"]) == (4096, 4 << 20)


def test_an_answer_is_small_unless_the_settings_say_how_large_it_is() -> None:
    keys = ("max.partition.fetch.bytes", "fetch.max.bytes")
    small = sink_consumer(worker(), NAME, 0).librdkafka(4 << 20, 32 << 10)
    assert [small[key] for key in keys] == [32 << 10, 32 << 10]
    Consumer(small).close()
    for key, size in zip(keys, (2 << 20, 3 << 20), strict=True):
        given = sink_consumer(worker(**{f"consumer.{key}": str(size)}), NAME, 0).librdkafka(4 << 20, 32 << 10)
        assert (given[key], given["fetch.max.bytes"]) == (size, min(4 << 20, given["fetch.max.bytes"]))
        assert given.get("max.partition.fetch.bytes") in (size, None)


def test_spark_gets_javas_names_and_no_class() -> None:
    props = {
        "fetch.max.wait.ms": "50",
        "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
        "unknown.key": "x",
        **SCRAM,
    }
    options = sink_consumer(worker(**with_prefix("consumer.", props)), NAME, 0).spark()
    assert options == {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.fetch.max.wait.ms": "50",
        "kafka.max.poll.records": "5000",
        "kafka.receive.buffer.bytes": "-1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="al\\"ice" password="geheim";',
    }


def test_spark_hardly_waits_at_the_end_of_a_partition() -> None:
    assert sink_consumer(worker(), NAME, 0).spark()["kafka.fetch.max.wait.ms"] == "10"


def test_kafka_python_gets_its_own_names() -> None:
    config = admin(worker(**with_prefix("admin.", {**SCRAM, "metadata.max.age.ms": "5"})), NAME, 0)
    assert config.kafka_python() == {
        "bootstrap_servers": "127.0.0.1:1",
        "client_id": "connector-adminclient-c-0",
        "metadata_max_age_ms": 5,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": 'al"ice',
        "sasl_plain_password": "geheim",
    }


def test_a_group_member_logs_in_as_the_worker_and_notices_a_brokers_return_soon() -> None:
    config = group_member(worker(**SCRAM, **{"retry.backoff.ms": "7", "admin.client.id": "x"}), "http://h:8083/")
    assert config.kafka_python() == {
        "bootstrap_servers": "127.0.0.1:1",
        "client_id": "connect-h:8083",
        "request_timeout_ms": 40_000,
        "retry_backoff_ms": 7,
        "reconnect_backoff_ms": 50,
        "reconnect_backoff_max_ms": 1_000,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": 'al"ice',
        "sasl_plain_password": "geheim",
    }
    assert group_member(worker(**{"client.id": "mine"}), "http://h:8083/").kafka_python()["client_id"] == "mine"


@pytest.mark.parametrize("protocol", ["consumer", " Consumer "])
def test_the_new_protocols_members_may_poll_more_often_than_a_session_lasts(protocol: str) -> None:
    given = {"consumer.group.protocol": protocol, "consumer.max.poll.interval.ms": "30000"}
    rdkafka = sink_consumer(worker(**given), NAME, 0, "g").librdkafka()
    assert (rdkafka["group.protocol"], rdkafka["max.poll.interval.ms"]) == ("consumer", 30_000)
    accepted("consumer", rdkafka)


def test_secrets_do_not_show() -> None:
    config = sink_consumer(worker(**with_prefix("consumer.", SCRAM)), NAME, 0)
    assert config.librdkafka()["sasl.password"] == "geheim"
    assert "geheim" not in repr(config)


@pytest.mark.parametrize("key", CLASS_KEYS)
def test_keys_that_load_classes_are_refused_with_the_reason(key: str) -> None:
    kind = next(kind for kind, settings in SETTINGS.items() if key in settings)
    make = {"producer": source_producer, "consumer": sink_consumer, "admin": admin}[kind]
    with pytest.raises(ConfigError) as caught:
        make(worker(), {**NAME, f"{kind}.override.{key}": "evil.Class"}, 0)
    assert [problem.key for problem in caught.value.problems] == [key]
    assert "would load code that a configuration names" in caught.value.problems[0].message
    for harmless in CLASS_KEYS[key]:
        make(worker(), {**NAME, f"{kind}.override.{key}": harmless}, 0)


@pytest.mark.parametrize(
    ("props", "key"),
    [
        ({"fetch.min.bytes": "q"}, "fetch.min.bytes"),
        (
            {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor"},
            "partition.assignment.strategy",
        ),
        ({"auto.offset.reset": "by_duration:1h"}, "auto.offset.reset"),
        ({"group.remote.assignor": "range"}, "group.remote.assignor"),
        *(
            ({"group.protocol": "CONSUMER", key: value}, key)
            for key, value in (
                ("session.timeout.ms", "9000"),
                ("heartbeat.interval.ms", "900"),
                ("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor"),
            )
        ),
        ({**SCRAM, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
    ],
)
def test_what_cannot_be_served_is_refused(props: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sink_consumer(worker(**with_prefix("consumer.", props)), NAME, 0)
    assert [problem.key for problem in caught.value.problems] == [key]
    assert all(problem.remedy for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("prefix", "props", "key"),
    [
        ("consumer.", {"max.poll.interval.ms": "100"}, "max.poll.interval.ms"),
        ("consumer.", {"session.timeout.ms": "400000"}, "session.timeout.ms"),
        ("producer.", {"enable.idempotence": "true", "retries": "0"}, "retries"),
        ("producer.", {"enable.idempotence": "true", "acks": "1"}, "acks"),
        (
            "producer.",
            {"enable.idempotence": "true", "max.in.flight.requests.per.connection": "6"},
            "max.in.flight.requests.per.connection",
        ),
    ],
)
def test_settings_that_librdkafka_does_not_take_together_are_refused(
    prefix: str, props: dict[str, str], key: str
) -> None:
    made = sink_consumer if prefix == "consumer." else source_producer
    with pytest.raises(ConfigError) as caught:
        made(worker(**with_prefix(prefix, props)), NAME, 0)
    assert [problem.key for problem in caught.value.problems] == [key]


@pytest.mark.parametrize(
    ("reset", "age_ms"),
    [
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
        ("by_duration:PT0S", 0),
        ("by_duration:P", None),
        ("by_duration:PT", None),
        ("by_duration:-PT1H", None),
        ("earliest", None),
    ],
)
def test_the_age_by_which_a_group_begins(reset: str, age_ms: int | None) -> None:
    assert reset_age_ms(reset) == age_ms


def test_settings_without_counterpart_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    given = worker(**{"producer.metrics.num.samples": "3", "producer.socket.connection.setup.timeout.max.ms": "7"})
    with caplog.at_level(logging.WARNING, "headrace.config.kafka.client_config"):
        for task in range(3):
            source_producer(given, NAME, task)
    said = [r.getMessage() for r in caplog.records if "socket.connection.setup.timeout.max.ms" in r.getMessage()]
    assert len(said) == 1
    assert "no counterpart" in said[0]


@pytest.mark.parametrize("kind", SETTINGS)
def test_no_setting_of_java_is_dropped_silently(kind: str) -> None:
    """Every one is translated, kept, refused as code, known harmless, or reported."""
    other = {Type.BOOLEAN: "maybe", Type.LIST: "zz"}
    reported = without_counterpart(kind, {s.name: other.get(s.type, "77") for s in SETTINGS[kind]})
    quiet = {s.name for s in SETTINGS[kind]} - set(reported)
    translated_elsewhere = {
        key
        for key in quiet
        if key.startswith(("ssl.keystore", "ssl.truststore", "ssl.key.", "sasl.oauthbearer."))
        or key
        in (
            "ssl.endpoint.identification.algorithm",
            "sasl.login.connect.timeout.ms",
            "sasl.login.read.timeout.ms",
            "auto.offset.reset",
            "partition.assignment.strategy",
            "partitioner.ignore.keys",
        )
        or (kind == "producer" and key.startswith("compression."))
    }
    assert quiet - translated_elsewhere <= {*PASSED[kind], *KEPT[kind], *HARMLESS, *CLASS_KEYS}
    assert {*PASSED[kind], *KEPT[kind], *STATED[kind]} <= {s.name for s in SETTINGS[kind]}
    assert "ssl.cipher.suites" in reported


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("All", []),
        ("None", ["sasl.mechanism", "linger.ms"]),
        ("Principal", ["linger.ms"]),
        ("org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy", ["linger.ms"]),
        ("Allowlist", ["sasl.mechanism"]),
    ],
)
def test_override_policies(policy: str, refused: list[str]) -> None:
    rules = {
        "connector.client.config.override.policy": policy,
        "connector.client.config.override.allowlist": "linger.ms, acks",
    }
    connector = {**NAME, "producer.override.sasl.mechanism": "PLAIN", "producer.override.linger.ms": "1"}
    problems = override_problems("producer", connector, worker(**rules))
    assert [problem.key for problem in problems] == [f"producer.override.{key}" for key in refused]
    name = policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    for problem, key in zip(problems, refused, strict=True):
        assert problem.message == (
            f"The '{name}' policy does not allow '{key}' to be overridden in the connector configuration."
        )


def test_a_login_module_is_refused_when_overrides_meet_the_workers_settings() -> None:
    secure = worker(**with_prefix("consumer.", SCRAM))
    jndi = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://x";'
    problems = override_problems("consumer", {**NAME, "consumer.override.sasl.jaas.config": jndi}, secure)
    assert [problem.key for problem in problems] == ["consumer.override.sasl.jaas.config"]
    assert "ldap" not in str(problems[0])


@pytest.mark.parametrize(("tasks", "refused"), [({}, False), ({"tasks.max": "1"}, False), ({"tasks.max": "2"}, True)])
def test_one_name_of_a_static_member_is_refused_for_several_tasks(tasks: dict[str, str], refused: bool) -> None:
    own = {**NAME, "consumer.override.group.instance.id": "mine", **tasks}
    problems = override_problems("consumer", {**own, "topics": "t"}, None)
    assert [problem.key for problem in problems] == ["consumer.override.group.instance.id"] * refused
    assert override_problems("consumer", own, None) == [], "a source is in no group"
