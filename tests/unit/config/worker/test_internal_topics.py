"""Topics of Kafka Connect, MirrorMaker and Kafka are closed to connectors, except to those that the worker trusts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.internal_topics import InternalTopics, check_internal_topics, internal_topic_problems

WORKER = {
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.history.topic": "connect-history",
    "trusted.connectors": ["backup-*"],
}
STANDALONE = {"config.storage.topic": None, "trusted.connectors": []}


@pytest.mark.parametrize(
    ("topic", "closed"),
    [
        ("connect-configs", True),
        ("connect-offsets", True),
        ("connect-status", True),
        ("connect-history", True),
        ("__consumer_offsets", True),
        ("__transaction_state", True),
        ("mm2-configs.A.internal", True),
        ("mm2-offset-syncs-B-internal", True),
        ("A.checkpoints.internal", True),
        ("connect-configs-2", False),
        ("Connect-configs", False),
        ("heartbeats", False),
        ("mm2-orders", False),
        ("__mine", False),
    ],
)
def test_what_is_closed(topic: str, closed: bool) -> None:
    assert (topic in InternalTopics.closed_to("sink", WORKER)) is closed
    assert topic not in InternalTopics.closed_to("backup-sink", WORKER)


def test_a_standalone_worker_has_no_topics_of_its_own() -> None:
    closed = InternalTopics.closed_to("sink", STANDALONE)
    assert "connect-configs" not in closed
    assert "__consumer_offsets" in closed


def test_checkpoints_are_open_to_who_writes_them() -> None:
    closed = replace(InternalTopics.closed_to("mirror", WORKER), keeps_checkpoints=True)
    assert "A.checkpoints.internal" not in closed
    assert "mm2-configs.checkpoints.internal" in closed
    assert closed.refusal(["orders", "A.checkpoints.internal", None]) is None
    assert (closed.refusal(["orders", "connect-configs"]) or "").startswith("connect-configs is an internal topic")


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("topics", "orders, connect-configs ", True),
        ("topic", "connect-configs", True),
        ("topic", "\x01connect-configs\x1f", True),
        ("topics.regex", "connect-configs", True),
        ("topics.regex", "connect-.*", False),
        ("errors.deadletterqueue.topic.name", " connect-status", True),
        ("errors.retry.topic.name", "connect-offsets", True),
        ("topic.prefix", "connect-configs", True),
        ("topic.creation.all.include", "connect-configs", True),
        ("schema.history.internal.kafka.topic", "connect-configs", True),
        ("kafkaTopicName", "connect-configs", True),
        ("signal.kafka.topic", "__consumer_offsets", True),
        ("topics.exclude", "connect-configs", False),
        ("topic.creation.all.exclude", "connect-configs", False),
        ("opposite.flow.topics", "connect-configs", False),
        ("file", "connect-configs", False),
    ],
)
def test_every_setting_of_a_topic_is_looked_at(key: str, value: str, refused: bool) -> None:
    config = {"name": "team", key: value, "topics.other": None}
    assert [problem.key for problem in internal_topic_problems(config, "team", WORKER)] == [key] * refused
    assert internal_topic_problems(config, "backup-team", WORKER) == []


def test_a_start_is_refused_with_what_to_do() -> None:
    check_internal_topics({"topics": "orders"}, "team", WORKER)
    with pytest.raises(ConfigError, match=r"connect-configs is an internal topic.*trusted\.connectors"):
        check_internal_topics({"topics": "connect-configs"}, "team", WORKER)
