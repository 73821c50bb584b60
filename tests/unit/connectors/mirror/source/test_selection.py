"""The choice of topics to copy, and the names of their copies."""

from __future__ import annotations

import pytest

from headrace.config.worker.internal_topics import InternalTopics
from headrace.connectors.mirror.source.selection import TopicSelection

FLOW = {"source.cluster.alias": "A", "target.cluster.alias": "B"}


@pytest.mark.parametrize(
    ("topic", "copied"),
    [
        ("orders", True),
        ("C.orders", True),
        ("B.orders", False),
        ("C.B.orders", False),
        ("C.D.orders", True),
        ("heartbeats", True),
        ("C.heartbeats", True),
        ("B.heartbeats", False),
        ("mm2-offset-syncs.B.internal", False),
        ("C.checkpoints.internal", False),
        ("__consumer_offsets", False),
    ],
)
def test_what_came_from_the_target_is_not_copied_back(topic: str, copied: bool) -> None:
    assert TopicSelection(FLOW).replicates(topic) is copied


def test_heartbeats_are_copied_whatever_the_filter_says_unless_that_is_switched_off() -> None:
    names = ["heartbeats", "C.heartbeats", "orders", "payments"]
    assert TopicSelection({**FLOW, "topics": "pay.*"}).chosen(names) == ["C.heartbeats", "heartbeats", "payments"]
    off = {**FLOW, "topics": "pay.*", "heartbeats.replication.enabled": "false"}
    assert TopicSelection(off).chosen(names) == ["payments"]


def test_no_filter_lets_internal_topics_pass() -> None:
    assert not TopicSelection({**FLOW, "topics.exclude": ""}).replicates("mm2-offsets.A.internal")


def test_names_are_kept_or_begin_with_the_alias_of_the_source() -> None:
    renaming = TopicSelection(FLOW)
    keeping = TopicSelection({**FLOW, "replication.policy.class": "IdentityReplicationPolicy"})
    assert (renaming.remote("orders"), renaming.keeps_name("orders")) == ("A.orders", False)
    assert (keeping.remote("B.orders"), keeping.keeps_name("B.orders")) == ("B.orders", True)
    assert keeping.replicates("B.orders")  # no name tells where it came from
    assert not keeping.keeps_name("heartbeats")


@pytest.mark.parametrize(
    ("flow", "topic"),
    [
        ({}, "connect-configs"),
        ({"source.cluster.alias": "connect", "replication.policy.separator": "-"}, "configs"),
        ({"replication.policy.class": "IdentityReplicationPolicy"}, "connect-configs"),
        ({"source.cluster.alias": "mm2-configs"}, "A.internal"),
    ],
)
def test_what_is_internal_or_would_become_so_is_left_out(flow: dict[str, str], topic: str) -> None:
    closed = InternalTopics(frozenset({"connect-configs"}), of_mirrors=True)
    selection = TopicSelection({**FLOW, **flow}, closed)
    assert selection.chosen([topic, "orders"]) == ["orders"]
    assert selection.closed_among([topic, "orders", "__consumer_offsets"]) == [topic]
    assert TopicSelection({**FLOW, **flow}).replicates(topic)
