"""The checkpoint task: what it reads first, when checkpoints are due, and what happens while a cluster is away."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.connectors.mirror.checkpoint import task as module
from headrace.connectors.mirror.checkpoint.emitted import EmittedCheckpoints
from headrace.connectors.mirror.checkpoint.groups import GroupOffsets
from headrace.connectors.mirror.checkpoint.task import MirrorCheckpointTask
from headrace.connectors.mirror.checkpoint.topic_reader import NotAllowed
from headrace.connectors.mirror.formats import Checkpoint, OffsetSync
from headrace.plugins.contracts import Limit, PartitionResult, Plan, RetriableError, StopToken, TaskContext
from headrace.plugins.offsets import TopicPartition

CONFIG = {
    "name": "c",
    "connector.class": "MirrorCheckpoint",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.bootstrap.servers": "127.0.0.1:2",
    "task.assigned.groups": "g,h",
    "task.index": "0",
    "sync.group.offsets.enabled": "true",
}
LIMIT = Limit(1000, 1 << 20)
CHECKPOINTS, SYNCS = "A.checkpoints.internal", "mm2-offset-syncs.B.internal"


class Message:
    def __init__(self, record: Any) -> None:
        self.record = record

    def key(self) -> bytes | None:
        return b"rubbish" if self.record is None else bytes(self.record.key())

    def value(self) -> bytes | None:
        return b"" if self.record is None else bytes(self.record.value())


class Topic:
    """A topic as its reader shows it."""

    def __init__(self) -> None:
        self.new: list[Any] = []
        self.is_read, self.is_missing, self.is_allowed = True, False, True

    def read(self) -> Iterator[Message]:
        if not self.is_allowed:
            raise NotAllowed("the topic may not be read")
        new, self.new = self.new, []
        yield from map(Message, new)


class World:
    """Both clusters, and the time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.topics = {CHECKPOINTS: Topic(), SYNCS: Topic()}
        self.committed: dict[str, dict[tuple[str, int], int]] = {}
        self.is_away = False
        self.moved: list[dict[TopicPartition, Checkpoint]] = []

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * 1e9)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    class Reader:
        def __init__(self, client: Any, topic: str, purpose: str) -> None:
            self.topic = topic
            self.of = made.topics[topic]

        def __getattr__(self, name: str) -> Any:
            return getattr(self.of, name)

        def read(self, wait_s: float, most_s: float) -> Iterator[Message]:
            return self.of.read()

        def close(self) -> None: ...

    class Groups:
        def __init__(self, *_: Any) -> None: ...

        def offsets(self, groups: Iterable[str]) -> dict[str, GroupOffsets]:
            if made.is_away:
                raise RetriableError("away")
            return {
                group: {
                    TopicPartition(*at): KafkaPartition(*at, to) for at, to in made.committed.get(group, {}).items()
                }
                for group in groups
            }

    class Sync:
        def __init__(self, *_: Any) -> None: ...

        def sync(self, groups: list[str], emitted: EmittedCheckpoints) -> None:
            made.moved.append(dict(emitted.of_group("g")))

    monkeypatch.setattr(module, "TopicReader", Reader)
    monkeypatch.setattr(module, "ConsumerGroups", Groups)
    monkeypatch.setattr(module, "GroupOffsetSync", Sync)
    monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(module, "_WAIT_S", 0)
    return made


def started(**config: str) -> MirrorCheckpointTask:
    task = MirrorCheckpointTask()
    task.start({**CONFIG, **config}, TaskContext("c", 0, StopToken()))
    return task


def read(task: MirrorCheckpointTask, plan: Plan | None) -> list[Checkpoint]:
    assert plan is not None
    rows = [row for split in range(len(plan.splits)) for b in task.reader(plan).read(split) for row in b.to_pylist()]
    return [Checkpoint.of(row["key"], row["value"]) for row in rows]


def deliver(task: MirrorCheckpointTask, plan: Plan | None) -> None:
    assert plan is not None
    task.delivered([PartitionResult(source_partition=split.partition, written=1) for split in plan.splits])


def sync(upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync("t", 0, upstream, downstream)


def test_checkpoints_once_the_topics_are_read(world: World) -> None:
    world.topics[CHECKPOINTS].is_read = world.topics[SYNCS].is_read = False
    world.committed = {"g": {("t", 0): 12, ("t", 1): 5, ("__x", 0): 1}, "h": {}}
    task = started()
    assert task.plan([], LIMIT) is None
    world.topics[CHECKPOINTS].is_read = True
    world.topics[SYNCS].new = [sync(10, 110), None]
    assert task.plan([], LIMIT) is None, "a translation would be of syncs that later ones replace"
    world.topics[SYNCS].is_read = True
    plan = task.plan([], LIMIT)
    assert read(task, plan) == [Checkpoint("g", "A.t", 0, 12, 111)]
    assert plan is not None
    assert json.dumps(dict(plan.splits[0].partition)) == '{"partition": 0, "topic": "A.t", "group": "g"}'
    assert plan.splits[0].upto == {"offset": 0}


def test_what_was_written_before_is_not_written_again(world: World) -> None:
    world.topics[CHECKPOINTS].new = [Checkpoint("g", "A.t", 0, 12, 112)]
    world.topics[SYNCS].new = [sync(10, 110), sync(40, 140)]
    world.committed = {"g": {("t", 0): 12}}
    task = started()
    assert task.plan([], LIMIT) is None, "less exact after the restart than before it"
    world.now += 60
    world.topics[SYNCS].new = [sync(45, 145)]
    world.committed = {"g": {("t", 0): 45}}
    plan = task.plan([], LIMIT)
    assert read(task, plan) == [Checkpoint("g", "A.t", 0, 45, 145)]
    deliver(task, plan)
    world.now += 59
    world.topics[SYNCS].new, world.committed = [sync(50, 150)], {"g": {("t", 0): 50}}
    assert task.plan([], LIMIT) is None
    world.now += 1
    assert read(task, task.plan([], LIMIT)) == [Checkpoint("g", "A.t", 0, 50, 150)]


def test_checkpoints_of_a_copy_that_was_made_again_count_no_more(world: World) -> None:
    """Neither under a running task, when the new copy is already longer, nor after a restart, when it is not yet."""
    world.topics[SYNCS].new, world.committed = [sync(0, 0), sync(90, 90)], {"g": {("t", 0): 90}}
    task = started()
    deliver(task, task.plan([], LIMIT))
    world.now += 60
    world.topics[SYNCS].new, world.committed = [sync(91, 0), sync(300, 209)], {"g": {("t", 0): 95}}
    plan = task.plan([], LIMIT)
    assert read(task, plan) == [Checkpoint("g", "A.t", 0, 95, 1)]
    deliver(task, plan)
    world.now += 60
    assert task.plan([], LIMIT) is None, "once"
    world.topics[CHECKPOINTS].new = [Checkpoint("g", "A.t", 0, 90, 90)]
    world.topics[SYNCS].new = [sync(90, 90), sync(91, 0), sync(93, 2)]
    again = started()
    assert read(again, again.plan([], LIMIT)) == [Checkpoint("g", "A.t", 0, 95, 3)]


def test_checkpoints_that_were_not_delivered_are_due_again(world: World) -> None:
    world.topics[SYNCS].new = [sync(0, 0)]
    world.committed = {"g": {("t", 0): 1}, "h": {("t", 0): 2}}
    task = started()
    plan = task.plan([], LIMIT)
    assert plan is not None
    assert len(plan.splits) == 2
    task.delivered([PartitionResult(source_partition=plan.splits[0].partition, written=1)])
    assert [one.group for one in read(task, task.plan([], LIMIT))] == ["h"]
    task.undelivered()
    plan = task.plan([], LIMIT)
    assert [one.group for one in read(task, plan)] == ["h"]
    deliver(task, plan)
    assert task.plan([], LIMIT) is None


def test_more_than_a_batch_takes_several(world: World) -> None:
    world.topics[SYNCS].new = [sync(0, 0)]
    world.committed = {"g": {("t", 0): 1}, "h": {("t", 0): 1}}
    task = started()
    for group in ("g", "h"):
        plan = task.plan([], Limit(1, 1 << 20))
        assert [one.group for one in read(task, plan)] == [group]
        deliver(task, plan)
    assert task.plan([], LIMIT) is None


def test_the_latency_of_a_checkpoint_bears_strimzis_name(world: World) -> None:
    world.topics[SYNCS].new, world.committed = [sync(0, 0)], {"g": {("t", 0): 1}}
    task = started()
    plan = task.plan([], LIMIT)
    world.now += 0.5
    assert list(task.samples()) == []
    deliver(task, plan)
    found = {one.name: one for one in task.samples()}
    name = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
    assert found.keys() == {name, f"{name}_min", f"{name}_max", f"{name}_avg"}
    assert [one.value for one in found.values()] == [500.0] * 4
    labels = {"source": "A", "target": "B", "group": "g", "topic": "A.t", "partition": "0"}
    assert dict(found[name].labels) == labels


def test_groups_are_moved_while_the_source_cluster_is_away(world: World) -> None:
    written = Checkpoint("g", "A.t", 0, 12, 112)
    world.topics[CHECKPOINTS].new, world.is_away = [written], True
    task = started()
    with pytest.raises(RetriableError):
        task.plan([], LIMIT)
    assert task.plan([], LIMIT) is None
    assert world.moved == [{TopicPartition("A.t", 0): written}]
    world.topics[SYNCS].is_read = False
    world.now += 60
    assert task.plan([], LIMIT) is None
    assert len(world.moved) == 2


def test_a_checkpoint_counts_for_the_target_only_once_it_is_written(world: World) -> None:
    world.topics[SYNCS].new, world.committed = [sync(0, 0)], {"g": {("t", 0): 1}}
    task = started()
    plan = task.plan([], LIMIT)
    assert world.moved == []
    deliver(task, plan)
    assert task.plan([], LIMIT) is None
    assert world.moved == [{TopicPartition("A.t", 0): Checkpoint("g", "A.t", 0, 1, 1)}]


def test_without_the_checkpoints_only_the_latest_sync_counts(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.topics[CHECKPOINTS].is_allowed = False
    world.topics[SYNCS].new = [sync(0, 0), sync(10, 10)]
    world.committed = {"g": {("t", 0): 5}, "h": {("t", 0): 10}}
    task = started()
    assert [one.group for one in read(task, task.plan([], LIMIT))] == ["h"]
    assert "Offsets are translated less exactly: the topic may not be read" in caplog.text


def test_offset_syncs_may_be_in_the_target_cluster(world: World) -> None:
    world.topics["mm2-offset-syncs.A.internal"] = Topic()
    world.topics["mm2-offset-syncs.A.internal"].new = [sync(3, 4)]
    world.committed = {"g": {("t", 0): 3}}
    task = started(**{"offset-syncs.topic.location": "target"})
    assert read(task, task.plan([], LIMIT)) == [Checkpoint("g", "A.t", 0, 3, 4)]


def test_a_group_goes_back_by_the_syncs_of_the_opposite_flow(world: World) -> None:
    """It read in this cluster what was copied from the other one, and now goes on there."""
    world.topics["mm2-offset-syncs.A.internal"] = opposite = Topic()
    opposite.new, opposite.is_read = [sync(100, 7), sync(110, 27)], False
    world.committed = {"g": {("B.t", 0): 30, ("B.t", 1): 5, ("B.other", 0): 1}, "h": {("B.t", 0): 7}}
    task = started()
    assert task.plan([], LIMIT) is None, "they are read once a group needs them"
    opposite.is_read = True
    world.now += 60
    plan = task.plan([], LIMIT)
    assert read(task, plan) == [Checkpoint("g", "t", 0, 30, 111), Checkpoint("h", "t", 0, 7, 100)]


def test_without_the_opposite_flow_groups_do_not_go_back(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.topics["mm2-offset-syncs.A.internal"] = opposite = Topic()
    opposite.is_allowed = False
    world.topics[SYNCS].new = [sync(0, 0)]
    world.committed = {"g": {("B.t", 0): 30}, "h": {("t", 0): 0}}
    task = started()
    plan = task.plan([], LIMIT)
    assert [one.group for one in read(task, plan)] == ["h"]
    deliver(task, plan)
    for _ in range(3):
        world.now += 60
        assert task.plan([], LIMIT) is None
    said = "Offsets of copies from cluster B are not translated: the topic may not be read"
    assert caplog.messages == [said]
