"""Each rule finds what it is for, and leaves alone what only looks like it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from headrace.config.lint.file_rules import FILE_RULES
from headrace.config.lint.finding import Finding, Severity
from headrace.config.lint.linter import Linter
from headrace.config.lint.rules import RULES
from headrace.config.lint.view import ClusterFacts, Surroundings
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.discovery import Plugins
from tests.unit.test_docs import ROOT

PLUGINS: Final = Plugins.shipped()
WORKER: Final = {
    "bootstrap.servers": "localhost:1",
    "offset.storage.file.filename": "unused",
    "key.converter": "StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "connector.client.config.override.policy": "Principal",
}
CLUSTER: Final = ClusterFacts(2, {"orders": 3, "orders-dlq": 1, "users": 1})
SOURCE: Final = {"name": "c", "connector.class": "FileStreamSource", "topic": "t", "file": "f"}
SINK: Final = {"name": "c", "connector.class": "FileStreamSink", "topics": "orders", "file": "f"}
JDBC: Final = {"name": "c", "connector.class": "JdbcSource", "connection.url": "jdbc:sqlite:x", "topic.prefix": "p"}
JDBC_SINK: Final = {"name": "c", "connector.class": "JdbcSink", "topics": "orders", "connection.url": "jdbc:sqlite:x"}
FILES: Final = {"name": "c", "connector.class": "HdfsSink", "topics": "orders", "store.url": "file:///x"}
FILES_OF: Final = {**FILES, "flush.size": "9"}
SINGER: Final = {"name": "c", "connector.class": "SingerSink", "topics": "orders", "target.command": "t"}
DLQ: Final = "errors.deadletterqueue.topic.name"
ALL: Final = {"errors.tolerance": "all"}
LETTERS: Final = {**ALL, DLQ: "dlq", "errors.deadletterqueue.context.headers.enable": "true"}
REPLICAS: Final = "errors.deadletterqueue.topic.replication.factor"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
SCHEMALESS: Final = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
REGEX: Final = {"name": "c", "connector.class": "FileStreamSink", "topics.regex": "orders.*", "file": "f"}
PASSWORD: Final = {**JDBC, "connection.password": "hunter2-and-more"}
UNNAMED: Final = "topic.creation.big.include"
GROUP: Final = "consumer.override.group.id"
JAAS: Final = "producer.override.sasl.jaas.config"
TOMBSTONE: Final = {"predicates": "p", "predicates.p.type": "RecordIsTombstone"}
FILTER: Final = {"transforms": "f", "transforms.f.type": "Filter"}
SQL: Final = {"transforms": "s", "transforms.s.type": "headrace.transforms.Sql", "transforms.s.sql": "SELECT 1"}
CREATION: Final = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
UNWRAP: Final = {"transforms": "u", "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState"}


@dataclass(frozen=True)
class With:
    """A config and what is around it."""

    config: Mapping[str, str | None]
    cluster: ClusterFacts | None = None
    others: Mapping[str, Mapping[str, str | None]] | None = None
    tasks: int | None = None
    worker: Mapping[str, str] | None = None
    not_asked: str = ""

    def findings(self) -> list[Finding]:
        worker = None if self.worker is None else WorkerConfig.standalone({**WORKER, **self.worker})
        around = Surroundings(None, self.cluster, self.not_asked, self.others or {}, self.tasks)
        return Linter(PLUGINS, worker)(self.config, around)

    def of(self, rule: str) -> list[str | None]:
        return [one.setting for one in self.findings() if one.rule == rule]


HITS: Final[list[tuple[str, With, str | None]]] = [
    ("unknown-plugin", With({**SOURCE, "connector.class": "FileStreamSauce"}), "connector.class"),
    ("unknown-plugin", With({"name": "c"}), "connector.class"),
    ("invalid-setting", With({**SOURCE, "tasks.max": "none"}), "tasks.max"),
    ("invalid-setting", With({**SOURCE, "errors.tolerance": None}), "errors.tolerance"),
    ("invalid-setting", With({"name": "c", "connector.class": "FileStreamSource"}), "topic"),
    ("invalid-setting", With({**SINK, DLQ: "orders"}), "topics"),
    (
        "invalid-setting",
        With({**SINK, "consumer.override.max.poll.records": "5"}, worker={}),
        "consumer.override.max.poll.records",
    ),
    ("unknown-setting", With({**SOURCE, "fiel": "f"}), "fiel"),
    ("unknown-setting", With({**SOURCE, "transforms.x.type": "Cast$Value"}), "transforms.x.type"),
    ("unknown-setting", With({**SOURCE, "value.converter.schemas.enable": "false"}), "value.converter.schemas.enable"),
    ("unknown-setting", With({**SOURCE, "topics": "orders"}), "topics"),
    ("unknown-setting", With({**SOURCE, "producer.override.linger": "5"}), "producer.override.linger"),
    ("removed-setting", With({**SOURCE, **UNWRAP, "transforms.u.operation.header": "true"}), None),
    ("deprecated-setting", With({**SOURCE, "tasks.max.enforce": "false"}), "tasks.max.enforce"),
    ("useless-setting", With({**SINK, "errors.log.include.messages": "true"}), "errors.log.include.messages"),
    ("useless-setting", With({**SINK, "errors.retry.delay.max.ms": "5"}), "errors.retry.delay.max.ms"),
    ("useless-setting", With({**SINK, REPLICAS: "1"}), REPLICAS),
    ("useless-setting", With({**SOURCE, REPLICAS: "1"}), REPLICAS),
    ("useless-setting", With({**SINK, "topic.creation.default.partitions": "1"}), "topic.creation.default.partitions"),
    (
        "useless-setting",
        With({**SOURCE, **CREATION, "topic.creation.big.include": "b.*"}),
        "topic.creation.big.include",
    ),
    (
        "useless-setting",
        With({**SOURCE, "transaction.boundary.interval.ms": "5"}),
        "transaction.boundary.interval.ms",
    ),
    ("useless-setting", With({**SINK, "producer.override.linger.ms": "5"}), "producer.override.linger.ms"),
    (
        "useless-setting",
        With({**SOURCE, "consumer.override.sasl.mechanism": "PLAIN"}, worker={}),
        "consumer.override.sasl.mechanism",
    ),
    ("unused-predicate", With({**SOURCE, **FILTER, **TOMBSTONE}), "predicates"),
    ("impossible-topic", With({**SINK, "topics": "orders,user.*"}), "topics"),
    ("impossible-topic", With({**SOURCE, **LETTERS, DLQ: "dead letters"}), DLQ),
    ("plugin-advice", With({**FILES_OF, "store.url": "s3://b/x", "rotate.bytes": "9"}), "rotate.bytes"),
    ("literal-secret", With(PASSWORD), "connection.password"),
    ("literal-secret", With({**JDBC, "connection.url": "jdbc:postgresql://ann:hunter2@h/shop"}), "connection.url"),
    ("literal-secret", With({**JDBC, "connection.url": "jdbc:postgresql://h/s?password=hunter2"}), "connection.url"),
    ("literal-secret", With({**SOURCE, JAAS: 'PlainLoginModule required username="u" password="p";'}), JAAS),
    ("literal-secret", With({"name": "c", "connector.class": "Other", "api.token": "abcdefgh"}), "api.token"),
    ("blank-around-secret", With({**JDBC, "connection.password": "${env:P} "}), "connection.password"),
    ("unresolved-variable", With({**JDBC, "connection.user": "${DB_USER}"}), "connection.user"),
    ("unresolved-variable", With({**JDBC, "connection.user": "${vault:a:b}"}, worker={}), "connection.user"),
    ("tolerance-without-dead-letters", With({**SINK, **ALL}), "errors.tolerance"),
    ("tolerance-without-dead-letters", With({**SOURCE, **ALL, DLQ: " "}), "errors.tolerance"),
    ("dead-letters-and-failure", With({**SINK, DLQ: "dlq"}), DLQ),
    ("dead-letters-without-context", With({**SINK, **ALL, DLQ: "dlq"}), DLQ),
    ("dead-letters-read", With(REGEX, others={"d": {**SINK, DLQ: "orders-dlq"}}), "topics.regex"),
    ("dead-letters-read", With(REGEX, others={"d": {"errors.retry.topic.name": "orders-retry"}}), "topics.regex"),
    ("schemaless-value", With({**FILES_OF, **SCHEMALESS, "format.class": "parquet"}), "format.class"),
    ("schemaless-value", With({**FILES_OF, "format.class": "parquet"}, worker={}), "format.class"),
    ("schemaless-value", With({**JDBC_SINK, **SCHEMALESS, "auto.create": "true"}), "auto.create"),
    ("schemaless-value", With({**JDBC_SINK, **SCHEMALESS, "schema.evolution": "basic"}), "schema.evolution"),
    ("schemaless-value", With({**SINGER, **SCHEMALESS}), "target.command"),
    ("shared-group", With({**SINK, GROUP: "g"}, others={"d": {"topics": "u", GROUP: "g"}}), GROUP),
    ("shared-group", With(SINK, others={"d": {"topics": "u", GROUP: "connect-c"}}), "name"),
    ("missing-topic", With({**SINK, "topics": "orders,user"}, CLUSTER), "topics"),
    ("regex-matches-nothing", With({**REGEX, "topics.regex": "order"}, CLUSTER), "topics.regex"),
    ("tasks-over-partitions", With({**SINK, "tasks.max": "4"}, CLUSTER), "tasks.max"),
    (
        "tasks-over-partitions",
        With({**REGEX, "topics.regex": "orders|users", "tasks.max": "5"}, CLUSTER),
        "tasks.max",
    ),
    ("tasks-over-source", With({**SOURCE, "tasks.max": "2"}), "tasks.max"),
    ("tasks-over-source", With({**JDBC, "query": "SELECT 1", "tasks.max": "2"}), "tasks.max"),
    ("tasks-over-source", With({**JDBC, "table.whitelist": "a,b", "tasks.max": "3"}), "tasks.max"),
    ("tasks-over-source", With({**JDBC, "tasks.max": "3"}, tasks=2), "tasks.max"),
    ("replication-over-brokers", With({**SINK, **LETTERS}, CLUSTER), REPLICAS),
    ("replication-over-brokers", With({**SOURCE, **LETTERS, REPLICAS: "4"}, CLUSTER), REPLICAS),
    (
        "replication-over-brokers",
        With({**SOURCE, **CREATION, "topic.creation.default.replication.factor": "3"}, CLUSTER),
        "topic.creation.default.replication.factor",
    ),
    ("cluster-not-asked", With(SINK, not_asked="it is away"), None),
]

NEAR: Final[list[tuple[str, With]]] = [
    ("unknown-plugin", With({**SOURCE, "connector.class": "FileStreamSourceConnector"})),
    ("unknown-plugin", With({**SOURCE, "connector.class": "${env:CLASS}"})),
    ("invalid-setting", With({**SOURCE, "tasks.max": "${env:TASKS}", "batch.size": "7"})),
    ("invalid-setting", With({**JDBC, "mode": "incrementing"})),
    ("invalid-setting", With({**SOURCE, "transforms": "${env:CHAIN}", "transforms.x.type": "Cast$Value"})),
    ("invalid-setting", With({**SINK, "consumer.override.max.poll.records": "5"})),
    ("unknown-setting", With({**SOURCE, **TOMBSTONE, **LETTERS, **CREATION, "config.providers.x": "y"})),
    ("unknown-setting", With({**SOURCE, "transforms": "${env:CHAIN}", "transforms.x.type": "Cast$Value"})),
    ("unknown-setting", With({**SOURCE, "value.converter": "${env:C}", "value.converter.schemas.enable": "false"})),
    ("unknown-setting", With({**SOURCE, **SCHEMALESS, "producer.override.linger.ms": "5"})),
    ("unknown-setting", With({**JDBC, "connection.sslmode": "require"})),
    ("removed-setting", With({**SOURCE, **UNWRAP, "transforms.u.add.headers": "op"})),
    ("deprecated-setting", With({**SOURCE, "tasks.max.enforce": "true"})),
    ("useless-setting", With({**SINK, "errors.log.enable": "true", "errors.log.include.messages": "true"})),
    ("useless-setting", With({**SINK, "errors.log.include.messages": "false", REPLICAS: "3"})),
    ("useless-setting", With({**SINK, "errors.retry.delay.max.ms": "5", "errors.retry.timeout": "${env:T}"})),
    ("useless-setting", With({**SINK, **LETTERS, REPLICAS: "1", "producer.override.linger.ms": "5"})),
    ("useless-setting", With({**SINK, DLQ: "${env:DLQ}", REPLICAS: "1"})),
    ("useless-setting", With({**SINK, "admin.override.retries": "5", "consumer.override.retry.backoff.ms": "5"})),
    (
        "useless-setting",
        With({**SOURCE, **CREATION, "topic.creation.groups": "big", UNNAMED: "b"}),
    ),
    ("unused-predicate", With({**SOURCE, **FILTER, **TOMBSTONE, "transforms.f.predicate": "p"})),
    ("unused-predicate", With({**SOURCE, **FILTER, **TOMBSTONE, "transforms.f.predicate": "${env:P}"})),
    ("impossible-topic", With({**SINK, **LETTERS, "topics": " orders , a.b_c-d,${env:T}"})),
    ("plugin-advice", With({**FILES_OF, "rotate.bytes": "9"})),
    ("plugin-advice", With({**FILES, "store.url": "s3://b/x", "rotate.bytes": "9", "flush.size": "${env:SIZE}"})),
    ("literal-secret", With({**JDBC, "connection.password": "${file:/etc/secrets:db}"})),
    ("literal-secret", With({**JDBC, "connection.password": "[hidden]"})),
    ("literal-secret", With({**JDBC, "connection.url": "jdbc:postgresql://h:5432/shop?user=ann&ssl=true"})),
    ("literal-secret", With({**SOURCE, JAAS: "OAuthBearerLoginModule required;"})),
    ("literal-secret", With({**SOURCE, "producer.override.ssl.truststore.certificates": CERTIFICATE})),
    (
        "literal-secret",
        With({"name": "c", "connector.class": "Other", "x.credentials.source": "USER_INFO", "tokens.max": "12345678"}),
    ),
    ("blank-around-secret", With({**JDBC, "connection.password": "${env:P}", "connection.user": " u "})),
    ("unresolved-variable", With({**JDBC_SINK, "table.name.format": "kafka_${topic}", "connection.user": "${env:U}"})),
    (
        "unresolved-variable",
        With(
            {**JDBC, "connection.user": "${env:U}"},
            worker={
                "config.providers": "env",
                "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            },
        ),
    ),
    ("tolerance-without-dead-letters", With({**SINK, **LETTERS})),
    ("tolerance-without-dead-letters", With({**SINK, **ALL, DLQ: "${env:DLQ}"})),
    ("tolerance-without-dead-letters", With({**SINK, "errors.tolerance": "none"})),
    ("dead-letters-and-failure", With({**SINK, **LETTERS})),
    ("dead-letters-and-failure", With({**SINK, DLQ: "dlq", "errors.tolerance": "${env:T}"})),
    ("dead-letters-without-context", With({**SINK, **LETTERS})),
    ("dead-letters-without-context", With(SINK)),
    ("dead-letters-read", With({**REGEX, "topics.regex": "orders(?!-dlq).*"}, others={"d": {DLQ: "orders-dlq"}})),
    ("dead-letters-read", With({**SINK, "topics": "orders-dlq"}, others={"d": {DLQ: "orders-dlq"}})),
    ("schemaless-value", With({**FILES_OF, **SCHEMALESS, "format.class": "json"})),
    ("schemaless-value", With({**FILES_OF, "value.converter": JSON, "format.class": "parquet"}, worker={})),
    ("schemaless-value", With({**FILES_OF, **SCHEMALESS, **SQL, "format.class": "parquet"})),
    ("schemaless-value", With({**JDBC_SINK, **SCHEMALESS})),
    ("shared-group", With(SINK, others={"d": {"topics": "orders"}, "c": SINK, "e": {"topic": "t"}})),
    ("missing-topic", With({**SINK, "topics": "orders,users"}, CLUSTER)),
    ("missing-topic", With({**SINK, "topics": "away", "consumer.override.bootstrap.servers": "other:9092"}, CLUSTER)),
    ("regex-matches-nothing", With(REGEX, CLUSTER)),
    ("tasks-over-partitions", With({**SINK, "tasks.max": "3"}, CLUSTER)),
    ("tasks-over-partitions", With({**SINK, "topics": "away", "tasks.max": "3"}, CLUSTER)),
    ("tasks-over-source", With({**JDBC, "tasks.max": "9"}, tasks=0)),
    ("tasks-over-source", With({**JDBC, "table.whitelist": "${env:TABLES}", "tasks.max": "9"}, tasks=9)),
    ("replication-over-brokers", With({**SINK, **LETTERS, DLQ: "orders-dlq"}, CLUSTER)),
    ("replication-over-brokers", With({**SOURCE, **CREATION, **LETTERS, REPLICAS: "2"}, CLUSTER)),
    ("cluster-not-asked", With(SINK, CLUSTER)),
]


@pytest.mark.parametrize(("rule", "given", "setting"), HITS)
def test_a_hit(rule: str, given: With, setting: str | None) -> None:
    found = given.of(rule)
    assert found, given.findings()
    if setting is not None:
        assert setting in found


@pytest.mark.parametrize(("rule", "given"), NEAR)
def test_a_near_miss(rule: str, given: With) -> None:
    found = [one for one in given.findings() if one.rule == rule]

    assert found == []


def test_each_rule_is_tried() -> None:
    rules = {rule.id for rule in RULES}
    assert len(rules) == len(RULES)
    assert {rule for rule, _, _ in HITS} == {rule for rule, _ in NEAR} == rules


def test_grave_findings_come_first() -> None:
    found = With({**SINK, DLQ: "dlq", "tasks.max": "none", "fiel": "x"}).findings()
    order = list(Severity)
    assert [one.severity for one in found] == sorted((one.severity for one in found), key=order.index)
    assert {one.severity for one in found} == set(Severity)


def test_no_message_has_a_secret() -> None:
    secret = "hunter2-and-more"
    config: dict[str, Any] = {**JDBC, "connection.password": f"{secret} ", "x.secret": secret, "numeric.mapping": "x"}
    for one in With(config).findings():
        assert secret not in f"{one.message}{one.advice}"


def test_every_rule_is_on_the_page() -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.+?) \|$", page, re.MULTILINE)
    assert rows == [(rule.id, str(rule.severity), rule.summary) for rule in (*RULES, *FILE_RULES)]
