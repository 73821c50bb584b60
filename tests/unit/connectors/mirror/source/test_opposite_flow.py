"""Refusals that keep records from going round if topics keep their names."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.mirror.source.opposite_flow import OppositeFlow
from headrace.connectors.mirror.source.selection import TopicSelection
from tests.unit.connectors.mirror.source.clusters import FakeCluster

RENAMED = {"source.cluster.alias": "A", "target.cluster.alias": "B"}
KEPT = {**RENAMED, "replication.policy.class": "IdentityReplicationPolicy"}
SIGN = {"mm2-offset-syncs__A__internal": 1}


def refusal(config: dict[str, str], source: FakeCluster, target: FakeCluster) -> ConfigError | None:
    return OppositeFlow(config, TopicSelection(config)).refusal(cast(Any, source), cast(Any, target))


def test_a_sign_of_the_opposite_flow_refuses_a_flow_that_keeps_names() -> None:
    error = refusal(KEPT, FakeCluster("A"), FakeCluster("B", **SIGN))
    assert error is not None
    assert "mm2-offset-syncs.A.internal is there on B: the flow B->A" in str(error)
    assert "Set opposite.flow.topics to the topics that B->A copies" in str(error)


def test_its_sign_is_on_the_source_where_offset_syncs_are_on_the_targets() -> None:
    config = {**KEPT, "offset-syncs.topic.location": "target"}
    sign = {"mm2-offset-syncs__B__internal": 1}
    assert refusal(config, FakeCluster("A", **sign), FakeCluster("B")) is not None
    assert refusal(config, FakeCluster("A"), FakeCluster("B", **SIGN)) is None


def test_the_sign_of_the_flow_itself_is_none_of_the_opposite_one() -> None:
    own = FakeCluster("A", **{"mm2-offset-syncs__B__internal": 1})
    assert refusal(KEPT, own, FakeCluster("B")) is None


def test_a_sign_that_may_not_be_looked_for_refuses_too() -> None:
    target = FakeCluster("B")
    target.hidden = {"mm2-offset-syncs.A.internal"}
    assert "cannot be looked for" in str(refusal(KEPT, FakeCluster("A"), target))


@pytest.mark.parametrize("config", [RENAMED, {**KEPT, "opposite.flow.topics": ""}])
def test_who_renames_or_says_what_the_opposite_flow_copies_is_not_refused(config: dict[str, str]) -> None:
    assert refusal(config, FakeCluster("A"), FakeCluster("B", **SIGN)) is None


def test_what_the_opposite_flow_copies_is_left_out() -> None:
    config = {**KEPT, "opposite.flow.topics": "b-.*, both", "opposite.flow.topics.exclude": "b-1"}
    flow = OppositeFlow(config, TopicSelection(config))
    assert not flow.watched
    topics = ["a-1", "b-1", "b-2", "both", "heartbeats"]
    assert [topic for topic in topics if flow.copies_back(topic)] == ["b-2", "both"]
    renaming = {**RENAMED, "opposite.flow.topics": ".*"}
    assert not OppositeFlow(renaming, TopicSelection(renaming)).copies_back("orders")


def test_one_cluster_under_two_aliases_is_refused() -> None:
    target = FakeCluster("B")
    target.id = "A"
    assert "are one cluster" in str(refusal({**KEPT, "opposite.flow.topics": ""}, FakeCluster("A"), target))
    assert refusal(RENAMED, FakeCluster("A"), target) is None
