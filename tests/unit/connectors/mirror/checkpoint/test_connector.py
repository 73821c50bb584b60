"""The checkpoint connector: what it refuses, and how it shares groups out."""

from __future__ import annotations

import pytest

from headrace.connectors.mirror.checkpoint.connector import MirrorCheckpointConnector
from headrace.connectors.mirror.checkpoint.task import downstream_topic
from headrace.connectors.mirror.policy import policy_of
from headrace.plugins.contracts import RetriableError

CONFIG = {
    "name": "c",
    "connector.class": "MirrorCheckpoint",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.bootstrap.servers": "127.0.0.1:2",
}


class Context:
    def reconfigure(self) -> None: ...

    def fail(self, error: Exception) -> None:
        raise error


def connector(groups: list[str] | None, **config: str) -> MirrorCheckpointConnector:
    made = MirrorCheckpointConnector()
    made._config, made._known, made._is_enabled = {**CONFIG, **config}, groups, True
    return made


@pytest.mark.parametrize(
    ("config", "messages"),
    [
        ({}, []),
        (
            {"emit.checkpoints.enabled": "false", "emit.offset-syncs.enabled": "false"},
            [
                "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false",
                "MirrorCheckpointConnector can't run without offset syncs",
            ],
        ),
        ({"emit.checkpoints.enabled": "false", "enabled": "false"}, []),
        (
            {"source.cluster.bootstrap.servers": ""},
            ['Missing required configuration "source.cluster.bootstrap.servers" which has no default value.'],
        ),
    ],
)
def test_what_is_refused(config: dict[str, str], messages: list[str]) -> None:
    assert [one.message for one in MirrorCheckpointConnector().validate({**CONFIG, **config})] == messages


def test_wrong_filters_are_named() -> None:
    config = {**CONFIG, "groups": "a(", "group.filter.class": "org.example.Filter"}
    assert [one.key for one in MirrorCheckpointConnector().validate(config)] == ["group.filter.class"]


def test_tasks_have_contiguous_groups_under_mirrormakers_names() -> None:
    tasks = connector(["a", "b", "c", "d", "e"]).task_configs(2)
    assert [task["task.assigned.groups"] for task in tasks] == ["a,b,c", "d,e"]
    assert [task["task.index"] for task in tasks] == ["0", "1"]
    assert {**tasks[0], **CONFIG} == tasks[0]
    assert len(connector(["a", "b"]).task_configs(5)) == 2
    assert connector([]).task_configs(5) == []


def test_groups_that_are_not_known_yet_change_no_task() -> None:
    with pytest.raises(RetriableError, match=r"Timeout while loading consumer groups\."):
        connector(None).task_configs(2)


@pytest.mark.parametrize("config", [{"enabled": "false"}, {"emit.checkpoints.interval.seconds": "-1"}])
def test_a_disabled_connector_has_no_tasks_and_asks_nobody(config: dict[str, str]) -> None:
    made = MirrorCheckpointConnector()
    made.start({**CONFIG, **config}, Context())
    assert made.task_configs(3) == []
    made.stop()


def test_only_groups_and_partitions_have_offsets() -> None:
    at = {"partition": 0, "topic": "A.t", "group": "g"}
    assert MirrorCheckpointConnector().check_offsets(CONFIG, {"offsets": [{"partition": at, "offset": {"offset": 0}}]})
    with pytest.raises(ValueError, match="is missing the 'group' key"):
        MirrorCheckpointConnector().check_offsets(
            CONFIG, {"offsets": [{"partition": {"partition": 0, "topic": "A.t"}, "offset": {"offset": 0}}]}
        )


@pytest.mark.parametrize(
    ("policy", "topic", "downstream"),
    [
        ("Default", "t", "A.t"),
        ("Default", "B.t", "t"),
        ("Default", "B.C.t", "C.t"),
        ("Default", "C.t", "A.C.t"),
        ("Identity", "t", "t"),
    ],
)
def test_topics_have_their_names_of_the_target_cluster(policy: str, topic: str, downstream: str) -> None:
    made = policy_of({**CONFIG, "replication.policy.class": f"{policy}ReplicationPolicy"})
    assert downstream_topic(made, "A", "B", topic) == downstream
