"""The work of MirrorSourceConnector between its tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.mirror.internal_topics import InternalTopic
from headrace.connectors.mirror.source import connector as connector_module
from headrace.connectors.mirror.source.connector import MirrorSourceConnector
from headrace.plugins.errors import RetriableError
from tests.unit.connectors.mirror.source.clusters import FakeCluster

FLOW = {
    "name": "m",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.bootstrap.servers": "127.0.0.1:2",
    "refresh.topics.interval.seconds": "1",
}
KEPT = {**FLOW, "replication.policy.class": "IdentityReplicationPolicy"}


class Started:
    """A connector over two clusters of the test, and what it asked of its worker."""

    def __init__(self) -> None:
        self.connector = MirrorSourceConnector()
        self.clusters = {"A": FakeCluster("A", orders=3), "B": FakeCluster("B")}
        self.reconfigured = 0
        self.failed: list[Exception] = []

    def start(self, config: dict[str, str]) -> MirrorSourceConnector:
        self.connector.start(config, self)
        return self.connector

    def reconfigure(self) -> None:
        self.reconfigured += 1

    def fail(self, error: Exception) -> None:
        self.failed.append(error)

    def assigned(self, most: int = 2) -> list[str]:
        return [config["task.assigned.partitions"] for config in self.connector.task_configs(most)]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    made = Started()

    def ensure(topic: InternalTopic, client: Any, timeout_s: float, stopping: Any) -> None:
        place = made.clusters["A" if "source" in client.java["client.id"] else "B"]
        place.there.setdefault(topic.name, connector_module.Topic(topic.name, 1))

    monkeypatch.setattr(connector_module, "ClusterAdmin", lambda alias, *_: made.clusters[alias])
    monkeypatch.setattr(InternalTopic, "ensure", ensure)
    monkeypatch.setattr(connector_module, "_LOOK_FOR_OPPOSITE_S", 1)
    monkeypatch.setattr(connector_module, "_TASKS_END_S", 0.0)
    yield made
    made.connector.stop()


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_tasks_have_java_s_keys_and_a_layout_that_is_always_the_same(started: Started) -> None:
    configs = started.start(FLOW).task_configs(2)
    assert [set(config) - set(FLOW) for config in configs] == [{"task.assigned.partitions", "task.index"}] * 2
    assert [(config["task.assigned.partitions"], config["task.index"]) for config in configs] == [
        ("orders-0,orders-2", "0"),
        ("orders-1", "1"),
    ]
    assert started.reconfigured == 0
    assert "mm2-offset-syncs.B.internal" in started.clusters["A"].there


def test_new_topics_and_partitions_make_new_tasks(started: Started) -> None:
    started.start(FLOW)
    assert started.assigned() == ["orders-0,orders-2", "orders-1"]
    source = started.clusters["A"]
    source.there |= {"new": connector_module.Topic("new", 1)}
    eventually(lambda: started.reconfigured)
    assert started.assigned() == ["orders-0,orders-2", "new-0,orders-1"]
    assert started.clusters["B"].there["A.new"].partitions == 1


def test_topics_that_are_gone_leave_the_tasks_and_their_copies_stay(
    started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    source = started.clusters["A"]
    source.there["old"] = connector_module.Topic("old", 1)
    started.start(FLOW)
    started.assigned()
    del source.there["old"]
    eventually(lambda: started.reconfigured)
    assert started.assigned(1) == ["orders-0,orders-1,orders-2"]
    assert "A.old" in started.clusters["B"].there
    assert "Topic old on A is gone and is not copied any more. A.old on B stays as it is" in caplog.text
    assert "still there, grant this connector's user Read on it at A" in caplog.text


def test_a_topic_made_again_is_said(started: Started, caplog: pytest.LogCaptureFixture) -> None:
    started.start(FLOW)
    started.clusters["A"].there["orders"] = connector_module.Topic("another id", 3)
    eventually(lambda: "Topic orders on A was deleted and created again. A.orders on B keeps the old" in caplog.text)


def test_nothing_is_copied_while_it_is_not_enabled(started: Started) -> None:
    assert started.start({**FLOW, "enabled": "false"}).task_configs(4) == []
    assert started.clusters["B"].created == []


def test_tasks_stay_as_they_are_while_a_cluster_does_not_answer(
    started: Started, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> None:
        raise OSError("no broker answers")

    monkeypatch.setattr("headrace.connectors.mirror.duties._AGAIN_S", 1)
    started.clusters["A"].when_listed = away
    connector = started.start(FLOW)
    with pytest.raises(RetriableError, match="The topics of A are not known yet"):
        connector.task_configs(2)
    eventually(lambda: "finding the topics failed" in caplog.text)
    started.clusters["A"].when_listed = lambda: None
    eventually(lambda: started.reconfigured)
    assert started.assigned(1) == ["orders-0,orders-1,orders-2"]


def test_a_flow_with_an_opposite_one_ends_its_tasks_and_then_fails(started: Started) -> None:
    started.start(KEPT)
    assert started.assigned(1) == ["orders-0,orders-1,orders-2"]
    started.clusters["B"].there["mm2-offset-syncs.A.internal"] = connector_module.Topic("x", 1)
    eventually(lambda: started.reconfigured)
    assert started.failed == []
    assert started.assigned() == []
    eventually(lambda: started.failed)
    (error,) = started.failed
    assert isinstance(error, ConfigError)
    assert "Set opposite.flow.topics" in str(error)


def test_a_refused_flow_never_gets_tasks_and_leaves_no_sign_of_its_own(started: Started) -> None:
    started.clusters["B"].there["mm2-offset-syncs.A.internal"] = connector_module.Topic("x", 1)
    assert started.start(KEPT).task_configs(2) == []
    eventually(lambda: started.failed)
    assert set(started.clusters["A"].there) == {"orders"}


def test_of_two_flows_that_start_at_once_none_misses_the_other(started: Started) -> None:
    """The other's sign comes between the two looks for it, when this flow's own is there."""
    target = started.clusters["B"]
    looks: list[None] = []

    def other_starts() -> None:
        looks.append(None)
        if len(looks) == 2:
            target.there["mm2-offset-syncs.A.internal"] = connector_module.Topic("x", 1)

    target.when_listed = other_starts
    assert started.start({**KEPT, "emit.offset-syncs.enabled": "false"}).task_configs(2) == []
    assert "mm2-offset-syncs.B.internal" in started.clusters["A"].there


def test_topics_that_the_opposite_flow_copies_are_left_out(started: Started, caplog: pytest.LogCaptureFixture) -> None:
    started.clusters["A"].there["both"] = connector_module.Topic("both", 1)
    started.clusters["B"].there["mm2-offset-syncs.A.internal"] = connector_module.Topic("x", 1)
    started.start({**KEPT, "opposite.flow.topics": "both"})
    assert started.assigned(1) == ["orders-0,orders-1,orders-2"]
    assert "Topics both are copied from B to A, too, and would go round for ever" in caplog.text


def test_offsets_are_those_of_a_partition() -> None:
    def body(partition: dict[str, Any], offset: Any) -> dict[str, Any]:
        return {"offsets": [{"partition": partition, "offset": offset}]}

    connector, partition = MirrorSourceConnector(), {"cluster": "A", "topic": "t", "partition": 0}
    assert connector.check_offsets(FLOW, body(partition, {"offset": 7}))
    assert connector.check_offsets(FLOW, body({"anything": 1}, None))
    with pytest.raises(ValueError, match=r"Source partition \{cluster=A, topic=t\} is missing the 'partition' key"):
        connector.check_offsets(FLOW, body({"cluster": "A", "topic": "t"}, {"offset": 7}))
    with pytest.raises(ValueError, match="-1 for the 'offset' key, which cannot be negative"):
        connector.check_offsets(FLOW, body(partition, {"offset": -1}))


@pytest.mark.parametrize(
    ("more", "key", "message"),
    [
        ({"exactly.once.support": "required"}, "exactly.once.support", "isolation.level set to 'read_committed'"),
        (
            {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "source"},
            "emit.offset-syncs.enabled",
            "can't setup offset-syncs feature while emit.offset-syncs.enabled set to false",
        ),
        ({"replication.policy.class": "No"}, "replication.policy.class", "No replication policy"),
        ({"topics": "a("}, "topics", "regular expression"),
        ({"config.properties.exclude": "a("}, "config.properties.exclude", "regular expression"),
        ({"opposite.flow.topics": "a("}, "opposite.flow.topics", "regular expression"),
        ({"target.cluster.bootstrap.servers": ""}, "target.cluster.bootstrap.servers", "Missing required"),
    ],
)
def test_what_is_wrong_is_found_before_it_is_created(more: dict[str, str], key: str, message: str) -> None:
    (problem,) = MirrorSourceConnector().validate({**FLOW, **more})
    assert (problem.key, message in problem.message) == (key, True)


def test_a_config_is_right() -> None:
    committed = {"exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"}
    assert MirrorSourceConnector().validate({**FLOW, **committed}) == []
    assert MirrorSourceConnector().exactly_once_support(committed)
    assert not MirrorSourceConnector().exactly_once_support(FLOW)
