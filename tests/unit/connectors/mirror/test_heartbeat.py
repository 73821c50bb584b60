"""Heartbeats: when one is due, what is in it, and what its connector asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.connectors.mirror import heartbeat as module
from headrace.connectors.mirror.formats import Heartbeat
from headrace.connectors.mirror.heartbeat import MirrorHeartbeatConnector, MirrorHeartbeatTask
from headrace.plugins.contracts import Limit, PartitionResult, Plan, StopToken, TaskContext

CONFIG = {"name": "h", "connector.class": "MirrorHeartbeat", "source.cluster.alias": "A", "target.cluster.alias": "B"}
SERVERS = {"target.cluster.bootstrap.servers": "127.0.0.1:1"}
LIMIT = Limit(1000, 1 << 20)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


class Stopping(StopToken):
    """Notes how long is waited, and waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return False


def started(stopping: StopToken | None = None) -> MirrorHeartbeatTask:
    task = MirrorHeartbeatTask()
    task.start({**CONFIG, "emit.heartbeats.interval.seconds": "5"}, TaskContext("h", 0, stopping or Stopping()))
    return task


def planned(task: MirrorHeartbeatTask) -> Plan:
    plan = task.plan([], LIMIT)
    assert plan is not None
    return plan


def row(task: MirrorHeartbeatTask, plan: Plan) -> dict[str, Any]:
    (batch,) = task.reader(plan).read(0)
    (read,) = batch.to_pylist()
    return dict(read)


def test_one_heartbeat_for_each_interval(clock: Clock) -> None:
    task = started()
    plan = planned(task)
    assert json.dumps(dict(plan.splits[0].partition)) == '{"sourceClusterAlias": "A", "targetClusterAlias": "B"}'
    read = row(task, plan)
    assert Heartbeat.of(read["key"], read["value"]) == Heartbeat("A", "B", 100_000)
    assert (read["timestamp"], read["source_offset"]) == (100_000, {"offset": 0})
    task.delivered([PartitionResult(written=1)])
    clock.now = 104.9
    assert task.plan([], LIMIT) is None
    clock.now = 105.0
    assert row(task, planned(task))["timestamp"] == 105_000


def test_a_plan_waits_until_the_next_one_is_due_but_not_for_long(clock: Clock) -> None:
    stopping = Stopping()
    task = started(stopping)
    planned(task)
    task.delivered([PartitionResult(written=1)])
    for clock.now in (102.0, 104.75, 105.0):
        task.plan([], LIMIT)
    assert stopping.waits == [0.5, 0.25]


def test_a_heartbeat_that_was_not_delivered_is_made_anew(clock: Clock) -> None:
    task = started()
    planned(task)
    task.undelivered()
    clock.now = 101
    assert row(task, planned(task))["timestamp"] == 101_000
    task.delivered([])
    assert task.plan([], LIMIT) is not None


def test_intervals_that_were_missed_are_not_made_up_for(clock: Clock) -> None:
    task = started()
    clock.now = 160
    planned(task)
    task.delivered([PartitionResult(written=1)])
    planned(task)
    task.delivered([PartitionResult(written=1)])
    assert task.plan([], LIMIT) is None


def test_what_is_wrong_is_said_at_validation() -> None:
    connector = MirrorHeartbeatConnector()
    assert connector.validate({**CONFIG, **SERVERS}) == []
    assert [one.key for one in connector.validate(CONFIG)] == ["target.cluster.bootstrap.servers"]
    wrong = {**CONFIG, **SERVERS, "replication.policy.class": "org.example.Policy"}
    assert [one.key for one in connector.validate(wrong)] == ["replication.policy.class"]


def test_only_its_own_offsets_may_be_set() -> None:
    connector = MirrorHeartbeatConnector()
    flow = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
    assert connector.check_offsets(CONFIG, {"offsets": [{"partition": flow, "offset": {"offset": 0}}]})
    with pytest.raises(ValueError, match="the only accepted value is 0"):
        connector.check_offsets(CONFIG, {"offsets": [{"partition": flow, "offset": {"offset": 1}}]})
