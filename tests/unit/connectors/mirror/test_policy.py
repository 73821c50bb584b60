"""The names that replication policies give, as Apache Kafka 4.3.1 gives them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.mirror import policy as policy_module
from headrace.connectors.mirror.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    policies,
    policy_of,
)

IDENTITY = {"replication.policy.class": "IdentityReplicationPolicy", "source.cluster.alias": "A"}


@pytest.fixture
def own_cache() -> Iterator[None]:
    policies.cache_clear()
    yield
    policies.cache_clear()


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("orders", None, None, "orders"),
        ("A.orders", "A", "orders", "orders"),
        ("B.A.orders", "B", "A.orders", "orders"),
        ("my.own", "my", "own", "own"),
        # Java's split forgets what is empty at the end.
        ("orders.", None, None, "orders."),
        ("orders..", None, None, "orders.."),
        ("A..orders", "A", ".orders", "orders"),
        (".orders", "", "orders", "orders"),
        (".", None, None, "."),
    ],
)
def test_the_default_policy_finds_the_alias_before_the_first_separator(
    topic: str, source: str | None, upstream: str | None, original: str
) -> None:
    policy = policy_of({})
    assert (policy.topic_source(topic), policy.upstream_topic(topic), policy.original_topic(topic)) == (
        source,
        upstream,
        original,
    )


def test_the_default_policy_puts_the_alias_before_the_name() -> None:
    policy = policy_of({"replication.policy.separator": "--"})
    assert policy.format_remote_topic("A", "orders.eu") == "A--orders.eu"
    assert policy.topic_source("A--orders.eu") == "A"
    assert policy.upstream_topic("A--orders.eu") == "orders.eu"
    assert policy.topic_source("orders.eu") is None


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({}, ("mm2-offset-syncs.B.internal", "A.checkpoints.internal")),
        ({"replication.policy.separator": "_"}, ("mm2-offset-syncs_B_internal", "A_checkpoints_internal")),
        (
            {
                "replication.policy.separator": "_",
                "replication.policy.internal.topic.separator.enabled": "false",
            },
            ("mm2-offset-syncs.B.internal", "A.checkpoints.internal"),
        ),
    ],
)
def test_internal_topics_have_the_separator_unless_it_is_switched_off(
    config: dict[str, str], names: tuple[str, str]
) -> None:
    policy = policy_of(config)
    assert (policy.offset_syncs_topic("B"), policy.checkpoints_topic("A")) == names
    assert all(policy.is_internal_topic(name) for name in names)
    assert [policy.is_checkpoints_topic(name) for name in names] == [False, True]


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("mm2-configs.A.internal", True),
        ("C.checkpoints.internal", True),
        # 4.3.1 leaves these to the topic filter.
        ("orders.internal", False),
        ("orders-internal", False),
        ("orders", False),
    ],
)
def test_internal_topics_are_those_of_kafka_and_of_the_replication(topic: str, internal: bool) -> None:
    assert policy_of({}).is_internal_topic(topic) is internal


def test_heartbeats_are_known_over_several_hops() -> None:
    for policy in (policy_of({}), policy_of(IDENTITY)):
        assert policy.is_heartbeats_topic("heartbeats")
        assert policy.is_heartbeats_topic("B.A.heartbeats")
        assert not policy.is_heartbeats_topic("my-heartbeats")
        assert policy.format_remote_topic("A", "heartbeats") == "A.heartbeats"


def test_the_identity_policy_leaves_names_alone() -> None:
    policy = policy_of(IDENTITY)
    assert policy.format_remote_topic("A", "B.orders") == "B.orders"
    assert (policy.topic_source("B.orders"), policy.upstream_topic("B.orders")) == ("A", "B.orders")
    assert policy.original_topic("B.orders") == "B.orders"
    assert policy.topic_source("B.heartbeats") == "B"


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("org.apache.kafka.connect.mirror.DefaultReplicationPolicy", DefaultReplicationPolicy),
        (" DefaultReplicationPolicy ", DefaultReplicationPolicy),
        ("org.apache.kafka.connect.mirror.IdentityReplicationPolicy", IdentityReplicationPolicy),
        ("IdentityReplicationPolicy", IdentityReplicationPolicy),
    ],
)
def test_a_policy_is_found_by_its_full_and_its_simple_name(name: str, cls: type[ReplicationPolicy]) -> None:
    assert type(policy_of({"replication.policy.class": name})) is cls


def test_an_unknown_policy_is_refused_and_those_there_are_named() -> None:
    with pytest.raises(ConfigError, match=r"os\.path.*org\.apache\.kafka\.connect\.mirror\.DefaultReplicationPolicy"):
        policy_of({"replication.policy.class": "os.path"})


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"replication\.policy\.separator"):
        policy_of({"replication.policy.separator": ""})


class Strangers(DefaultReplicationPolicy):
    """A policy of another package; `suffix` is a setting of its own."""

    def configure(self, config: Any) -> None:
        super().configure(config)
        self.suffix = config["suffix"]

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return topic + self.suffix


@pytest.mark.usefixtures("own_cache")
def test_another_package_brings_a_policy_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = SimpleNamespace(name="org.example.Strangers", load=lambda: Strangers)
    monkeypatch.setattr(policy_module, "entry_points", lambda group: [entry])
    policy = policy_of({"replication.policy.class": "Strangers", "suffix": ".copy"})
    assert policy.format_remote_topic("A", "orders") == "orders.copy"
