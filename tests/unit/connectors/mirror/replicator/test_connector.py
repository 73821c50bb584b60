"""ReplicatorSourceConnector over two clusters of the test: copies, tasks, flows that would go round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.mirror.internal_topics import InternalTopic
from headrace.connectors.mirror.replicator import connector as replicator_module
from headrace.connectors.mirror.replicator.connector import ReplicatorSourceConnector, sign
from headrace.connectors.mirror.replicator.group import ProgressGroup
from headrace.connectors.mirror.replicator.task import ReplicatorSourceTask
from headrace.connectors.mirror.source import connector as connector_module
from headrace.plugins.offsets import PartitionResult, TopicPartition
from tests.unit.connectors.mirror.replicator.test_translation import LEAST, with_more
from tests.unit.connectors.mirror.source.clusters import FakeCluster
from tests.unit.connectors.mirror.source.test_connector import eventually


class Started:
    """A connector, and what it asked of its worker."""

    def __init__(self) -> None:
        self.connector = ReplicatorSourceConnector()
        self.clusters = {"source": FakeCluster("source", orders=3, other=1), "destination": FakeCluster("destination")}
        self.clusters["source"].id, self.clusters["destination"].id = "A1", "B1"

    def start(self, config: dict[str, str]) -> list[dict[str, str]]:
        self.connector.start(config, self)
        return self.connector.task_configs(2)

    def reconfigure(self) -> None: ...

    def fail(self, error: Exception) -> None:
        raise error


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    made = Started()

    def ensure(topic: InternalTopic, client: Any, timeout_s: float, stopping: Any) -> None:
        made.clusters["destination"].there.setdefault(topic.name, connector_module.Topic(topic.name, 1))

    monkeypatch.setattr(connector_module, "ClusterAdmin", lambda alias, *_: made.clusters[alias])
    monkeypatch.setattr(InternalTopic, "ensure", ensure)
    yield made
    made.connector.stop()


def test_chosen_topics_are_created_and_divided(started: Started) -> None:
    configs = started.start(with_more(topic__rename__format="${topic}.replica"))
    assert [one["task.assigned.partitions"] for one in configs] == ["orders-0,orders-2", "orders-1"]
    assert {one["replicator.clusters"] for one in configs} == {"A1/B1"}
    assert set(started.clusters["destination"].there) == {"orders.replica"}
    assert started.clusters["destination"].created[0].replication_factor == -1


def test_a_flow_that_keeps_names_leaves_a_sign(started: Started) -> None:
    started.start(LEAST)
    assert set(started.clusters["destination"].there) == {"orders", sign("A1")}


@pytest.mark.parametrize(("key", "value"), [("provenance.header.enable", "true"), ("opposite.flow.topics", "")])
def test_a_flow_that_looks_for_none_leaves_its_sign_for_others(started: Started, key: str, value: str) -> None:
    started.start({**LEAST, key: value})
    eventually(lambda: set(started.clusters["destination"].there) == {"orders", sign("A1")})


def test_the_opposite_flow_is_refused(started: Started) -> None:
    started.clusters["source"].there[sign("B1")] = connector_module.Topic("x", 1)
    assert started.start(LEAST) == []
    assert isinstance(started.connector._refused, ConfigError)
    assert "round and round" in str(started.connector._refused)
    assert "orders" not in started.clusters["destination"].there


@pytest.mark.parametrize(
    ("key", "value"),
    [("provenance.header.enable", "true"), ("topic.rename.format", "a.${topic}"), ("opposite.flow.topics", "")],
)
def test_what_keeps_records_from_going_round_lets_both_flows_run(started: Started, key: str, value: str) -> None:
    started.clusters["source"].there[sign("B1")] = connector_module.Topic("x", 1)
    assert started.start({**LEAST, key: value})


def test_a_chain_of_clusters_is_no_opposite_flow(started: Started) -> None:
    started.clusters["source"].there[sign("Z1")] = connector_module.Topic("x", 1)
    assert started.start(LEAST)


def test_one_cluster_cannot_be_copied_onto_itself(started: Started) -> None:
    started.clusters["destination"].id = "A1"
    assert started.start(LEAST) == []
    assert "one cluster" in str(started.connector._refused)


def test_without_auto_create_missing_copies_are_left_to_others(
    started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    config = with_more(topic__auto__create="false", topic__whitelist="orders,other", provenance__header__enable="true")
    started.clusters["destination"].there["orders"] = connector_module.Topic("o", 2)
    configs = started.start(config)
    assert sorted(",".join(one["task.assigned.partitions"] for one in configs).split(",")) == ["orders-0", "orders-1"]
    assert not started.clusters["destination"].created
    assert "Topic other is not copied: there is no other on the destination" in caplog.text
    assert "orders on the destination fewer" in caplog.text


def test_a_missing_topic_of_the_whitelist_is_named(started: Started, caplog: pytest.LogCaptureFixture) -> None:
    started.start(with_more(topic__whitelist="orders,ordres"))
    assert "Topics ordres of topic.whitelist are not on the source" in caplog.text


class Groups:
    """The consumer groups of the source."""

    def __init__(self, **offsets: int) -> None:
        self.moved: list[Any] = []
        self.at = {TopicPartition("t", int(name[1:])): offset for name, offset in offsets.items()}

    def offsets(self, groups: list[str]) -> dict[str, Any]:
        return {groups[0]: {at: type("At", (), {"offset": offset}) for at, offset in self.at.items()}}

    def move(self, group: str, to: list[Any]) -> None:
        self.moved.append((group, [tuple(one[:3]) for one in to]))


def begun(start: str, groups: Groups, stored: dict[int, Any], monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """The offsets that the mirror is told to begin after, twice."""
    given: list[Any] = []
    monkeypatch.setattr(
        replicator_module.ReplicatorSourceTask.__base__, "_begin_at", lambda _, offsets: given.append(offsets)
    )
    task = ReplicatorSourceTask()
    made: Any = groups
    task._group, task._prefers_group, task._has_begun = ProgressGroup(made, "g", None), start == "consumer", False
    asked = {TopicPartition("t", number): offset for number, offset in stored.items()}
    task._begin_at(asked)
    task._begin_at(asked)
    return {at.partition: (offset, given[1][at]) for at, offset in given[0].items()}


def test_where_a_task_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = {"offset": 9, "topic_id": "x"}, {"offset": 9}
    stored = {0: ours, 1: theirs, 2: None, 3: None}
    again = {"offset": 8}  # the record of an offset of theirs comes again
    found = begun("connect", Groups(p0=5, p1=5, p2=5), stored, monkeypatch)
    assert found == {0: (ours, ours), 1: (again, again), 2: ({"offset": 4}, None), 3: (None, None)}
    found = begun("consumer", Groups(p0=5, p2=5), stored, monkeypatch)
    assert found == {0: ({"offset": 4}, ours), 1: (again, again), 2: ({"offset": 4}, None), 3: (None, None)}


def test_progress_is_committed_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: Any = Groups()
    group = ProgressGroup(groups, "g", 60.0)
    monkeypatch.setattr("headrace.connectors.mirror.replicator.group.time.monotonic", lambda: now)
    now = 100.0

    def reached(offset: int) -> None:
        group.reached(
            [PartitionResult(source_partition={"topic": "t", "partition": 1}, source_offset={"offset": offset})]
        )
        group.commit_if_due()

    reached(4)
    reached(6)
    assert groups.moved == [("g", [("t", 1, 5)])]
    now = 160.0
    group.commit_if_due()
    group.commit_if_due()
    assert groups.moved[1:] == [("g", [("t", 1, 7)])]
