"""Remote topics as a MirrorSourceConnector keeps them: created, grown, configured, readable; and never in a circle.

Both clusters have an authorizer whose super user is the connector's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from headrace.connectors.mirror.source import doctor
from headrace.connectors.mirror.source.connector import MirrorSourceConnector
from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.partitions import messages
from tests.integration.worker_process import eventually

pytestmark = pytest.mark.long

AUTHORIZED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SECONDLY: Final = {
    f"{name}.interval.seconds": "1" for name in ("refresh.topics", "sync.topic.configs", "sync.topic.acls")
}


_LATEST: Final[Any] = OffsetSpec.latest()


def end_of(future: Future[Any]) -> int:
    """The end of a partition; -1 where it is not there yet."""
    try:
        return int(future.result(60).offset)
    except KafkaException:
        return -1


class Cluster:
    """One of the two clusters, as its operator has it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(60)

    def create_again(self, topic: str, partitions: int) -> None:
        """Create a topic that was deleted a moment ago, and that nobody else may have created since."""

        def made() -> bool:
            try:
                self.create(topic, partitions)
            except KafkaException as error:
                return self.topics().get(topic) == partitions and "marked for deletion" not in str(error)
            return True

        eventually(made, 60, lambda: f"{topic} has {self.topics().get(topic)} partitions, not {partitions}")

    def send(self, topic: str, partition: int, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})  # one that knows of new partitions
        for number in range(count):
            producer.produce(topic, f"{partition}-{number}".encode(), b"key", partition=partition)
        assert producer.flush(60) == 0

    def set(self, topic: str, name: str, value: str | None) -> None:
        kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        change = ConfigEntry(name, value, incremental_operation=kind)
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
        next(iter(self.admin.incremental_alter_configs([wanted]).values())).result(60)

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        return {name: len(found.partitions) for name, found in self.admin.list_topics(timeout=60).topics.items()}

    def own_settings(self, topic: str) -> dict[str, str | None]:
        """Settings that the topic has of its own."""
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found: Mapping[str, ConfigEntry] = self.admin.describe_configs([wanted])[wanted].result(60)
        sources: Mapping[str, Any] = {name: entry.source for name, entry in found.items()}
        return {name: entry.value for name, entry in found.items() if sources[name] == 1}

    def ends(self, topic: str, partitions: int) -> list[int]:
        """The number of records that each partition has had."""
        self.topics()  # the client learns of new partitions
        asked = {TopicPartition(topic, number): _LATEST for number in range(partitions)}
        return [end_of(future) for future in self.admin.list_offsets(asked).values()]

    def allow(self, topic: str, principal: str, operation: Any) -> None:
        self.admin.create_acls([_acl(topic, principal, operation)])[_acl(topic, principal, operation)].result(60)

    def allowed(self, topic: str) -> set[tuple[str, AclOperation]]:
        """Principals and operations of the ACLs of this topic."""
        anything: Any = None
        wanted = AclBindingFilter(
            *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, anything, anything),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
        return {(one.principal, one.operation) for one in self.admin.describe_acls(wanted).result(60)}


def _acl(topic: str, principal: str, operation: Any) -> AclBinding:
    return AclBinding(
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW)
    )


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    brokers = [Broker(tmp_path_factory.mktemp(alias), settings=AUTHORIZED) for alias in ("A", "B")]
    try:
        for broker in brokers:
            broker.start()
        yield Cluster(brokers[0].bootstrap_servers), Cluster(brokers[1].bootstrap_servers)
    finally:
        for broker in brokers:
            broker.stop()


@pytest.fixture(scope="module")
def worker(clusters: tuple[Cluster, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterWorker]:
    """A worker beside the target cluster B."""
    byte_arrays = "org.apache.kafka.connect.converters.ByteArrayConverter"
    converters = {f"{kind}.converter": byte_arrays for kind in ("key", "value", "header")}
    folder = tmp_path_factory.mktemp("worker")
    with ClusterWorker(folder, clusters[1].bootstrap, new_cluster(), converters) as made:
        yield made.wait_ready(120)


class Flow:
    """A connector that copies topics of one cluster to the other."""

    def __init__(self, worker: ClusterWorker, name: str, source: Cluster, target: Cluster) -> None:
        self.worker, self.name, self.source, self.target = worker, name, source, target

    def config(self, aliases: str, **more: str) -> dict[str, str]:
        """A config of the connector; `_` in a key stands for `.`."""
        return {
            "name": self.name,
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": "2",
            "source.cluster.alias": aliases[0],
            "target.cluster.alias": aliases[1],
            "source.cluster.bootstrap.servers": self.source.bootstrap,
            "target.cluster.bootstrap.servers": self.target.bootstrap,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            **SECONDLY,
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def configure(self, aliases: str, **more: str) -> None:
        """The connector has this config."""
        self.worker.request("PUT", f"/connectors/{self.name}/config", self.config(aliases, **more))

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.worker.http.get(f"/connectors/{self.name}/status").json()
        return found

    @property
    def state(self) -> str:
        """The connector's own; empty while it has none yet."""
        return str(self.status().get("connector", {}).get("state", ""))

    def put(self, what: str, state: str) -> None:
        """Pause, resume or stop it and its tasks."""
        self.worker.request("PUT", f"/connectors/{self.name}/{what}")
        tasks = set() if state == "STOPPED" else {state}
        eventually(lambda: self.state == state and {task["state"] for task in self.status()["tasks"]} == tasks, 60)

    def assigned(self) -> list[str]:
        """The partitions of each task."""
        tasks = self.worker.get(f"/connectors/{self.name}/tasks")
        return [task["config"]["task.assigned.partitions"] for task in tasks]

    def wait_assigned(self, *partitions: str) -> None:
        eventually(lambda: self.assigned() == list(partitions), 60, lambda: f"{self.assigned()} {self.status()}")


@pytest.fixture(scope="module")
def renaming(worker: ClusterWorker, clusters: tuple[Cluster, Cluster]) -> Flow:
    """A->B, of a compacted topic with ACLs and three partitions."""
    source, target = clusters
    source.create("orders", 3, cleanup_policy="compact", min_insync_replicas="1")
    source.allow("orders", "User:reader", AclOperation.READ)
    source.allow("orders", "User:owner", AclOperation.ALL)
    source.allow("orders", "User:writer", AclOperation.WRITE)
    source.send("orders", 1, 50)
    flow = Flow(worker, "renaming", source, target)
    flow.configure("AB", topics="orders.*")
    flow.wait_assigned("orders-0,orders-2", "orders-1")
    return flow


def test_a_topic_is_created_like_its_source_and_filled(renaming: Flow) -> None:
    target = renaming.target
    eventually(lambda: target.ends("A.orders", 3) == [0, 50, 0], 60, lambda: str(renaming.status()))
    assert target.own_settings("A.orders") == {"cleanup.policy": "compact"}
    assert renaming.source.topics()["mm2-offset-syncs.B.internal"] == 1


def test_who_may_read_the_topic_may_read_its_copy_and_nobody_may_write_it(renaming: Flow) -> None:
    allowed = {("User:reader", AclOperation.READ), ("User:owner", AclOperation.READ)}
    eventually(lambda: renaming.target.allowed("A.orders") == allowed, 60)


def test_settings_follow_their_source(renaming: Flow) -> None:
    source, target = renaming.source, renaming.target
    source.set("orders", "max.message.bytes", "2000000")
    source.set("orders", "min.insync.replicas", "1")
    eventually(lambda: target.own_settings("A.orders").get("max.message.bytes") == "2000000", 60)
    source.set("orders", "max.message.bytes", None)
    eventually(lambda: target.own_settings("A.orders") == {"cleanup.policy": "compact"}, 60)


def test_partitions_and_topics_that_are_added_are_copied_and_no_other_moves(renaming: Flow) -> None:
    source, target = renaming.source, renaming.target
    source.admin.create_partitions([NewPartitions("orders", 4)])["orders"].result(60)
    renaming.wait_assigned("orders-0,orders-2", "orders-1,orders-3")
    source.create("orders-new", 1)
    renaming.wait_assigned("orders-0,orders-2,orders-new-0", "orders-1,orders-3")
    source.send("orders", 3, 7)
    source.send("orders-new", 0, 9)
    eventually(lambda: target.ends("A.orders", 4) == [0, 50, 0, 7], 60, lambda: f"{target.ends('A.orders', 4)}")
    eventually(lambda: target.ends("A.orders-new", 1) == [9], 60, lambda: str(renaming.status()))


def test_a_topic_that_is_deleted_is_left_and_its_copy_stays(renaming: Flow) -> None:
    renaming.source.admin.delete_topics(["orders-new"])["orders-new"].result(60)
    renaming.wait_assigned("orders-0,orders-2", "orders-1,orders-3")
    assert renaming.target.topics()["A.orders-new"] == 1
    assert "Topic orders-new on A is gone and is not copied any more" in renaming.worker.log()


def test_the_doctor_says_what_is_copied_and_what_lacks(renaming: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_TIMEOUT_S", 3.0)
    good = renaming.config("AB", topics="orders.*")
    found = {one.what: one for one in MirrorSourceConnector().diagnose(good)}
    assert [one.good for one in found.values()] == [True] * 3
    assert found["topics"].found == "1: orders"
    away = {"source.cluster.bootstrap.servers": "127.0.0.1:1"}
    wrong = {"replication.factor": "3", "replication.policy.class": "IdentityReplicationPolicy"}
    back = {"source.cluster.alias": "B", "target.cluster.alias": "A"} | {
        f"{side}.cluster.bootstrap.servers": cluster.bootstrap
        for side, cluster in (("source", renaming.target), ("target", renaming.source))
    }
    findings = MirrorSourceConnector().diagnose({**good, **wrong, **back, "topics": "A.orders"})
    assert [one.what for one in findings if not one.good] == ["replication.factor", "loops"]
    (lost,) = (one for one in MirrorSourceConnector().diagnose({**good, **away}) if not one.good)
    assert (lost.what, "does not answer" in lost.found) == ("source cluster A", True)


def test_the_same_topic_both_ways_under_one_name_is_refused(worker: ClusterWorker, renaming: Flow) -> None:
    """Of A->C, which runs, and C->A the second gets no tasks and fails; C is the cluster B under a new alias."""
    source, target = renaming.source, renaming.target
    source.create("same", 1)
    source.send("same", 0, 10)
    forth, back = Flow(worker, "forth", source, target), Flow(worker, "back", target, source)
    forth.configure("AC", topics="same", replication_policy_class="IdentityReplicationPolicy")
    eventually(lambda: "same" in target.topics() and target.ends("same", 1) == [10], 60, lambda: str(forth.status()))
    back.configure("CA", topics="same.*", replication_policy_class="IdentityReplicationPolicy")
    eventually(lambda: back.state == "FAILED", 60, lambda: str(back.status()))
    assert "Set opposite.flow.topics to the topics that A->C copies" in back.status()["connector"]["trace"]
    assert back.status()["tasks"] == []
    # They run once both are told, and leave out what would go round.
    target.create("same-back", 1)
    forth.configure(
        "AC",
        topics="same",
        replication_policy_class="IdentityReplicationPolicy",
        opposite_flow_topics="same-back",
    )
    back.configure(
        "CA", topics="same.*", replication_policy_class="IdentityReplicationPolicy", opposite_flow_topics="same"
    )
    back.wait_assigned("same-back-0")
    source.send("same", 0, 5)
    eventually(lambda: target.ends("same", 1) == [15], 60, lambda: str(forth.status()))
    assert source.ends("same", 1) == [15]
    assert "Topics same are copied from A to C, too, and would go round for ever" in worker.log()


@pytest.mark.parametrize("by_records", [False, True], ids=["as they are", "by records"])
def test_a_topic_made_again_is_copied_from_its_beginning_however_long_it_is(renaming: Flow, by_records: bool) -> None:
    """It is made again under a living task, and then, with fewer partitions, while the connector is stopped."""
    source, target = renaming.source, renaming.target
    topic = f"again-{by_records}".lower()
    copy, flow = f"A.{topic}", Flow(renaming.worker, topic, source, target)
    router = {"transforms": "r", "transforms_r_type": "org.apache.kafka.connect.transforms.RegexRouter"}
    router |= {"transforms_r_regex": "none", "transforms_r_replacement": "none"}

    def remake(partitions: int, count: int) -> None:
        source.admin.delete_topics([topic])[topic].result(60)
        source.create_again(topic, partitions)
        source.send(topic, 0, count)

    def values() -> list[bytes]:
        return [message.value() or b"" for message in messages(target.bootstrap, copy, 0)]

    def copied(counts: list[int]) -> bool:
        """True if each topic's records are there in order; records read by the former offsets may come before them."""
        written = [[b"0-%d" % number for number in range(count)] for count in counts]
        found = values()
        whole = [one for its in written for one in its]
        return found == whole if not by_records else ends_with(found, written)

    source.create(topic, 2)
    source.send(topic, 0, 100)
    flow.configure("AB", topics=topic, **(router if by_records else {}))
    eventually(lambda: copied([100]), 60, lambda: f"{len(values())} {flow.status()}")
    flow.put("pause", "PAUSED")  # its task lives, and sees nothing of the topic while that is empty
    remake(2, 150)
    flow.put("resume", "RUNNING")
    eventually(lambda: copied([100, 150]), 60, lambda: f"{len(values())} {flow.status()}")
    flow.put("stop", "STOPPED")
    stored = renaming.worker.get(f"/connectors/{topic}/offsets")["offsets"]
    assert [(one["partition"]["partition"], one["offset"]["offset"]) for one in stored] == [(0, 149)]
    remake(1, 300)
    flow.put("resume", "RUNNING")
    eventually(lambda: copied([100, 150, 300]), 60, lambda: f"{len(values())} {flow.status()}")
    renaming.worker.request("DELETE", f"/connectors/{topic}")


def ends_with(found: list[bytes], written: list[list[bytes]]) -> bool:
    """True if these lists of values follow each other, with or without repeated values between them."""
    at = 0
    for its in written:
        while found[at : at + len(its)] != its:
            at += 1
            if at + len(its) > len(found):
                return False
        at += len(its)
    return at == len(found)
