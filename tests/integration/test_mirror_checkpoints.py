"""Heartbeats and checkpoints between two clusters, by connectors of a worker beside the target one.

Records and offset syncs are written by hand: they are MirrorSourceConnector's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from headrace.connectors.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from headrace.plugins.interop.kafka.group_offsets import GroupOffset
from headrace.worker.embedded.kafka_broker import Broker
from tests.compat.mirror_oracle import MirrorOracle
from tests.integration import group_offsets
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.partitions import messages
from tests.integration.worker_process import eventually

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
SHIFT: Final = 5
"""The target cluster's offsets are so much larger."""


class Cluster:
    """One of the two clusters, as an operator and a consumer have it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer({"bootstrap.servers": bootstrap})

    def create(self, topic: str, records: int = 0, **config: str) -> None:
        """A topic of one partition with so many records."""
        self.admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(60)
        for number in range(records):
            self.producer.produce(topic, str(number).encode(), partition=0)
        assert self.producer.flush(60) == 0

    def commit(self, group: str, topic: str, offset: int, metadata: str = "") -> None:
        """A group without members is there now."""
        group_offsets.commit(self.bootstrap, group, [GroupOffset(topic, 0, offset, metadata)])

    def committed(self, group: str) -> dict[str, int]:
        """The group's offsets in partition 0 of its topics."""
        return {one.topic: one.offset for one in group_offsets.committed(self.bootstrap, group)}

    def sync(self, *offsets: tuple[int, int], topic: str = "orders", to: str = "west") -> None:
        """Offset syncs of partition 0 of a topic to the other cluster."""
        for upstream, downstream in offsets:
            record = OffsetSync(topic, 0, upstream, downstream)
            self.producer.produce(f"mm2-offset-syncs.{to}.internal", record.value(), record.key(), partition=0)
        assert self.producer.flush(60) == 0

    def records(self, topic: str) -> list[tuple[bytes, bytes, int]]:
        """Key, value and time of all that is in partition 0."""
        return [(m.key(), m.value(), m.timestamp()[1]) for m in messages(self.bootstrap, topic)]

    def checkpoints(self, group: str) -> list[Checkpoint]:
        """The group's checkpoints from the cluster east, in their order."""
        found = [Checkpoint.of(key, value) for key, value, _ in self.records("east.checkpoints.internal")]
        return [one for one in found if one.group == group]

    def topic_settings(self, topic: str) -> tuple[int, str]:
        """Its partitions, and its cleanup.policy."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource])[resource].result(60)
        return len(self.admin.list_topics(topic, timeout=60).topics[topic].partitions), found["cleanup.policy"].value


@pytest.fixture(scope="module")
def east(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The source cluster, with 100 records in topic `orders`."""
    broker = Broker(tmp_path_factory.mktemp("east"))
    broker.start()
    cluster = Cluster(broker.bootstrap_servers)
    cluster.create("orders", 100)
    cluster.create("mm2-offset-syncs.west.internal", **{"cleanup.policy": "compact"})
    cluster.sync((0, SHIFT), (50, 50 + SHIFT))
    yield cluster
    broker.stop()


@pytest.fixture(scope="module")
def west(broker_process: Broker) -> Cluster:
    """The target cluster, with the copied topic."""
    if not broker_process.is_running:
        broker_process.start()
    cluster = Cluster(broker_process.bootstrap_servers)
    cluster.create("east.orders", 100 + SHIFT)
    return cluster


@pytest.fixture(scope="module")
def worker(west: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterWorker]:
    converters = {f"{kind}.converter": BYTES for kind in ("key", "value", "header")}
    folder = tmp_path_factory.mktemp("worker")
    with ClusterWorker(folder, west.bootstrap, new_cluster(), converters) as made:
        yield made.wait_ready(120)


@pytest.fixture(scope="module")
def flow(east: Cluster, west: Cluster) -> dict[str, str]:
    return {
        "tasks.max": "2",
        "source.cluster.alias": "east",
        "target.cluster.alias": "west",
        "source.cluster.bootstrap.servers": east.bootstrap,
        "target.cluster.bootstrap.servers": west.bootstrap,
    }


@pytest.fixture(scope="module")
def heartbeats(worker: ClusterWorker, flow: dict[str, str]) -> str:
    config = {"connector.class": "MirrorHeartbeat", "heartbeats.topic.replication.factor": "1", **flow}
    worker.request("POST", "/connectors", {"name": "beat", "config": config})
    worker.wait_states("beat", "RUNNING")
    return "beat"


@pytest.fixture(scope="module")
def checkpoints(worker: ClusterWorker, east: Cluster, flow: dict[str, str]) -> str:
    """The connector runs; group `readers` has read 60 of the records in the source cluster."""
    east.commit("readers", "orders", 60, "who")
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "checkpoints.topic.replication.factor": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "groups": "readers.*",
        **flow,
    }
    worker.request("POST", "/connectors", {"name": "points", "config": config})
    worker.wait_states("points", "RUNNING")
    return "points"


def heard(west: Cluster) -> list[tuple[Heartbeat, int]]:
    return [(Heartbeat.of(key, value), time) for key, value, time in west.records("heartbeats")]


def test_heartbeats_come_every_second(
    worker: ClusterWorker, west: Cluster, heartbeats: str, mirror_oracle: MirrorOracle
) -> None:
    eventually(lambda: "heartbeats" in west.admin.list_topics(timeout=60).topics, 60)
    found: list[Any] = eventually(lambda: [one for one in heard(west) if one[0].source == "east"][3:], 60)
    assert west.topic_settings("heartbeats") == (1, "compact")
    assert all(one.target == "west" and one.timestamp == time for one, time in found)
    flow = {"sourceClusterAlias": "east", "targetClusterAlias": "west"}
    offsets = eventually(lambda: worker.offsets(heartbeats), 60)
    assert offsets == [{"partition": flow, "offset": {"offset": 0}}]
    east_comes_by = "east.heartbeats"  # as MirrorSourceConnector copies the heartbeats of the source cluster
    west.create(east_comes_by)
    assert "east" in mirror_oracle.upstream_clusters(west.bootstrap).split(",")
    assert mirror_oracle.replication_hops(west.bootstrap, "east") == 1


def test_a_group_is_translated_and_moved(
    worker: ClusterWorker, east: Cluster, west: Cluster, checkpoints: str, mirror_oracle: MirrorOracle
) -> None:
    first = Checkpoint("readers", "east.orders", 0, 60, 51 + SHIFT, "who")
    eventually(lambda: west.checkpoints("readers") == [first], 60, worker.log)
    eventually(lambda: west.committed("readers") == {"east.orders": 51 + SHIFT}, 60, worker.log)
    assert west.topic_settings("east.checkpoints.internal") == (1, "compact")
    east.sync((60, 60 + SHIFT))
    second = Checkpoint("readers", "east.orders", 0, 60, 60 + SHIFT, "who")
    eventually(lambda: west.checkpoints("readers") == [first, second], 60, worker.log)
    eventually(lambda: west.committed("readers") == {"east.orders": 60 + SHIFT}, 60, worker.log)
    assert "east.checkpoints.internal" in mirror_oracle.checkpoint_topics(west.bootstrap).split(",")
    translated = mirror_oracle.translate_offsets(west.bootstrap, "east", "readers")
    assert translated == {("east.orders", 0): (60 + SHIFT, "who")}
    at = {"partition": 0, "topic": "east.orders", "group": "readers"}
    assert eventually(lambda: worker.offsets(checkpoints), 60) == [{"partition": at, "offset": {"offset": 0}}]


def test_a_group_with_members_there_is_left_alone_until_they_are_gone(
    worker: ClusterWorker, east: Cluster, west: Cluster, checkpoints: str
) -> None:
    east.sync((60, 60 + SHIFT))
    eventually(lambda: west.committed("readers") == {"east.orders": 60 + SHIFT}, 60, worker.log)
    member = Consumer({"bootstrap.servers": west.bootstrap, "group.id": "readers", "enable.auto.commit": False})
    try:
        member.subscribe(["east.orders"])
        message = eventually(lambda: member.poll(1), 60)
        assert message.offset() == 60 + SHIFT, "it goes on where the group is in the source cluster"
        east.sync((80, 80 + SHIFT))
        east.commit("readers", "orders", 80)
        eventually(lambda: west.checkpoints("readers")[-1].downstream_offset == 80 + SHIFT, 60, worker.log)
        left_alone = "The offsets of group readers are not written to cluster west: it has members there"
        eventually(lambda: left_alone in worker.log(), 60, worker.log)
        assert west.committed("readers") == {"east.orders": 60 + SHIFT}
    finally:
        member.close()
    eventually(lambda: west.committed("readers") == {"east.orders": 80 + SHIFT}, 60, worker.log)
    assert worker.log().count(left_alone) == 1


def test_new_groups_are_found_and_old_ones_not_repeated(
    worker: ClusterWorker, east: Cluster, west: Cluster, checkpoints: str
) -> None:
    """A new group restarts the tasks; they know from the topic what was written before."""
    eventually(lambda: west.checkpoints("readers"), 60, worker.log)
    before = west.checkpoints("readers")
    east.commit("others", "orders", 10)
    east.commit("readers-of-nothing", "mm2-offset-syncs.west.internal", 1)
    east.commit("readers-2", "orders", 50)
    found = eventually(lambda: west.checkpoints("readers-2"), 60, worker.log)
    assert found == [Checkpoint("readers-2", "east.orders", 0, 50, 50 + SHIFT)]
    worker.wait_states(checkpoints, "RUNNING", "RUNNING")
    assert [task["config"]["task.assigned.groups"] for task in worker.get("/connectors/points/tasks")] == [
        "readers",
        "readers-2",
    ]
    east.commit("readers-2", "orders", 60)
    eventually(lambda: west.checkpoints("readers-2")[1:], 60, worker.log)
    assert west.checkpoints("readers") == before
    assert west.checkpoints("others") == west.checkpoints("readers-of-nothing") == []


def test_a_group_that_goes_back_in_the_source_cluster_goes_back_in_its_checkpoint(
    worker: ClusterWorker, east: Cluster, west: Cluster, checkpoints: str
) -> None:
    """But not in the target cluster, whose own commits count."""
    east.commit("readers-back", "orders", 80)
    eventually(lambda: west.committed("readers-back") == {"east.orders": 80 + SHIFT}, 60, worker.log)
    east.commit("readers-back", "orders", 0)
    eventually(lambda: west.checkpoints("readers-back")[1:], 60, worker.log)
    assert west.checkpoints("readers-back")[-1].downstream_offset == SHIFT
    east.commit("readers-last", "orders", 50)  # moved in a later round than the one that left the other alone
    eventually(lambda: west.committed("readers-last"), 60, worker.log)
    assert west.committed("readers-back") == {"east.orders": 80 + SHIFT}


def test_a_group_goes_back_to_the_topic_whose_copy_it_read(
    worker: ClusterWorker, east: Cluster, west: Cluster, checkpoints: str
) -> None:
    """By the offset syncs of the opposite flow, which are in the target cluster."""
    west.create("items", 40)
    west.create("mm2-offset-syncs.east.internal")
    west.sync((10, 0), (20, 10), topic="items", to="east")
    east.create("west.items", 30)
    east.commit("readers-home", "west.items", 10)
    eventually(lambda: west.committed("readers-home") == {"items": 20}, 60, worker.log)
    assert west.checkpoints("readers-home")[-1] == Checkpoint("readers-home", "items", 0, 10, 20)
