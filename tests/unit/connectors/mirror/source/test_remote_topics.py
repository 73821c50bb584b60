"""Remote topics as they are created, grown and configured."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from confluent_kafka import KafkaError

from headrace.config.problems import ConfigError
from headrace.connectors.mirror.filters import config_property_filter
from headrace.connectors.mirror.source.remote_topics import RemoteTopics
from headrace.connectors.mirror.source.selection import TopicSelection
from tests.unit.connectors.mirror.source.clusters import FakeCluster, entry

FLOW = {"source.cluster.alias": "A", "target.cluster.alias": "B"}


def remote_topics(source: FakeCluster, target: FakeCluster) -> RemoteTopics:
    clusters: Any = (source, target)
    return RemoteTopics(*clusters, TopicSelection(FLOW), config_property_filter(FLOW), 2)


def test_missing_topics_are_created_like_their_sources() -> None:
    source, target = FakeCluster("A", orders=3), FakeCluster("B")
    source.settings = {"orders": {"cleanup.policy": entry("cleanup.policy", "compact")}}
    assert remote_topics(source, target).ensure(source.there) == {"orders": 3}
    (made,) = target.created
    assert (made.topic, made.num_partitions, made.replication_factor) == ("A.orders", 3, 2)
    assert made.config == {"cleanup.policy": "compact"}


def test_topics_grow_and_never_shrink() -> None:
    source, target = FakeCluster("A", orders=3, wide=2), FakeCluster("B", A__orders=1, A__wide=9)
    assert remote_topics(source, target).ensure(source.there) == {"orders": 3, "wide": 2}
    assert (target.there["A.orders"].partitions, target.there["A.wide"].partitions) == (3, 9)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (KafkaError.INVALID_REPLICATION_FACTOR, "Set replication.factor to"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "CREATE"),
        (KafkaError.UNKNOWN, "tried again"),
    ],
)
def test_what_cannot_be_created_is_held_back_alone(code: int, advice: str, caplog: pytest.LogCaptureFixture) -> None:
    source, target = FakeCluster("A", orders=3, payments=1), FakeCluster("B")
    target.refuse = {"A.orders": code}
    assert remote_topics(source, target).ensure(source.there) == {"payments": 1}
    assert "Topic A.orders on B cannot be created" in caplog.text
    assert advice in caplog.text


def test_partitions_that_cannot_be_added_are_held_back_and_the_others_go_on() -> None:
    source, target = FakeCluster("A", orders=3), FakeCluster("B", A__orders=1)
    target.refuse = {"A.orders": KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert remote_topics(source, target).ensure(source.there) == {"orders": 1}


def test_another_creator_was_faster() -> None:
    source, target = FakeCluster("A", orders=3), FakeCluster("B")
    target.refuse = {"A.orders": KafkaError.TOPIC_ALREADY_EXISTS}
    assert remote_topics(source, target).ensure(source.there) == {"orders": 3}


def test_a_topic_that_may_not_be_seen_is_taken_to_be_there() -> None:
    source, target = FakeCluster("A", orders=3), FakeCluster("B")
    target.hidden = {"A.orders"}
    assert remote_topics(source, target).ensure(source.there) == {"orders": 3}
    assert target.created == []


def test_no_topic_is_created_without_knowing_its_settings(caplog: pytest.LogCaptureFixture) -> None:
    source, target = FakeCluster("A", orders=3), FakeCluster("B")
    source.hidden = {"orders"}
    assert remote_topics(source, target).ensure(source.there) == {}
    assert "DESCRIBE_CONFIGS" in caplog.text


def test_a_remote_topic_that_was_deleted_is_created_again_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    source, target = FakeCluster("A", orders=1), FakeCluster("B")
    topics = remote_topics(source, target)
    topics.ensure(source.there)
    del target.there["A.orders"]
    assert topics.ensure(source.there) == {"orders": 1}
    assert "Topic A.orders on B was deleted, and is created again" in caplog.text


def test_settings_that_differ_are_changed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source, target = FakeCluster("A", orders=1, same=1), FakeCluster("B", A__orders=1, A__same=1)
    source.settings = {key: {"retention.ms": entry("retention.ms", "7")} for key in ("orders", "same")}
    target.settings = {"A.same": {"retention.ms": entry("retention.ms", "7")}}
    remote_topics(source, target).sync_configs(["orders", "same"])
    assert target.changed == {"A.orders": [("retention.ms", "7")]}
    assert "Changed topic A.orders on B: retention.ms=7" in caplog.text


def test_brokers_that_are_too_old_to_change_settings_are_refused() -> None:
    source, target = FakeCluster("A", orders=1), FakeCluster("B", A__orders=1)
    source.settings = {"orders": {"retention.ms": entry("retention.ms", "7")}}
    target.refuse = {"A.orders": KafkaError.UNSUPPORTED_VERSION}
    with pytest.raises(ConfigError, match="the target cluster 'B' is not compatible with IncrementalAlterConfigs API"):
        remote_topics(source, target).sync_configs(["orders"])
