"""Apache's MirrorMaker connectors from their jar, unchanged: what they copy, and the offsets that they translate."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.connectors.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from headrace.plugins.interop.jvm.jars import fetch
from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.mirror_process import records
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

_KINDS = {
    kind: f"org.apache.kafka.connect.mirror.Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat")
}
SYNCS, CHECKPOINTS, HEARTBEATS = "mm2-offset-syncs.K.internal", "J.checkpoints.internal", "heartbeats"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
COUNT, INTERNAL = 60, 20


@pytest.fixture(scope="module")
def worker(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker that runs MirrorMaker's connectors from Apache's jars."""
    folder = tmp_path_factory.mktemp("mirror")
    home = folder / "plugins" / "mirror"
    home.mkdir(parents=True)
    for jar in fetch("connect"):
        if jar.name.startswith("connect-mirror"):
            shutil.copy(jar, home)
    settings = {"plugin.path": str(folder / "plugins"), "java.plugins.preferred": ",".join(_KINDS.values())}
    with WorkerProcess(folder / "worker", broker_process.bootstrap_servers, settings=settings) as worker:
        yield worker.wait_ready(180)


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic whose first records have a header that the others have not."""
    made = Topic(broker, "javamirror")
    producer = Producer({"bootstrap.servers": broker})
    for number in range(COUNT):
        headers = [("internal", b"")] if number < INTERNAL else [("n", b"%d" % number)]
        producer.produce(made.name, b"%d" % number, b"k", partition=0, headers=headers, timestamp=1000 + number)
    assert producer.flush(60) == 0
    yield made
    for kind in _KINDS:
        worker.http.delete(f"/connectors/{kind}")
    left = {SYNCS, CHECKPOINTS, HEARTBEATS, made.name, f"J.{made.name}"}
    for deleted in made.admin.delete_topics(sorted(left & made.admin.list_topics(timeout=60).topics.keys())).values():
        deleted.result(60)


def mirror(worker: WorkerProcess, kind: str, topic: Topic, group: str) -> None:
    """One of the connectors copies the topic within its cluster, which is J and K."""
    own = {
        "connector_class": _KINDS[kind],
        "source_cluster_alias": "J",
        "target_cluster_alias": "K",
        "source_cluster_bootstrap_servers": topic.bootstrap,
        "target_cluster_bootstrap_servers": topic.bootstrap,
        "topics": topic.name,
        "groups": group,
        "offset_lag_max": "0",
        "sync_topic_acls_enabled": "false",
        "sync_topic_configs_enabled": "false",
        "key_converter": BYTES,
        "value_converter": BYTES,
        "header_converter": BYTES,
        **{f"{name}_interval_seconds": "1" for name in ("emit_heartbeats", "emit_checkpoints", "refresh_groups")},
        **{f"{name}_replication_factor": "1" for name in ("", "checkpoints_topic", "heartbeats_topic")},
        "offset-syncs_topic_replication_factor": "1",
    }
    own["replication_factor"] = own.pop("_replication_factor")
    if kind == "Source":
        own |= {
            "transforms": "drop",
            "transforms_drop_type": "org.apache.kafka.connect.transforms.Filter",
            "transforms_drop_predicate": "internal",
            "predicates": "internal",
            "predicates_internal_type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
            "predicates_internal_name": "internal",
        }
    worker.create(kind, **own)


def copies(topic: Topic) -> list[tuple[bytes | None, bytes | None, object, int]]:
    """Key, value, headers and timestamp of what was copied."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "look"})
    consumer.assign([TopicPartition(f"J.{topic.name}", 0, 0)])
    found: list[tuple[bytes | None, bytes | None, object, int]] = []
    try:
        while len(found) < COUNT - INTERNAL and (message := consumer.poll(30)) is not None:
            if message.error() is None:
                found.append((message.key(), message.value(), message.headers(), message.timestamp()[1]))
    finally:
        consumer.close()
    return found


def syncs(topic: Topic) -> list[tuple[int, int]]:
    """The offsets before and after copying that were written."""
    made = [OffsetSync.of(key, value or b"") for key, value in records(topic.bootstrap, SYNCS)]
    return [(one.upstream_offset, one.downstream_offset) for one in made if one.topic == topic.name]


def test_records_are_copied_and_offsets_translated(worker: WorkerProcess, topic: Topic) -> None:
    group = f"{topic.name}-group"
    with_positions = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": group})
    with_positions.commit(offsets=[TopicPartition(topic.name, 0, COUNT)], asynchronous=False)
    with_positions.close()
    for kind in _KINDS:
        mirror(worker, kind, topic, group)
    eventually(lambda: worker.states("Source") == ["RUNNING"], 60, worker.log)
    assert copies(topic) == [
        (b"k", b"%d" % number, [("n", b"%d" % number)], 1000 + number) for number in range(INTERNAL, COUNT)
    ]
    last = COUNT - 1, COUNT - 1 - INTERNAL
    eventually(lambda: last in syncs(topic), 60, lambda: syncs(topic))
    assert all(up - down == INTERNAL for up, down in syncs(topic)), "records that were dropped stand nowhere"

    def checkpoints() -> set[tuple[str, int, int]]:
        made = [Checkpoint.of(key, value or b"") for key, value in records(topic.bootstrap, CHECKPOINTS)]
        return {(one.topic, one.upstream_offset, one.downstream_offset) for one in made if one.group == group}

    eventually(lambda: (f"J.{topic.name}", COUNT, COUNT - INTERNAL) in checkpoints(), 60, checkpoints)
    beats = [Heartbeat.of(key, value or b"") for key, value in records(topic.bootstrap, HEARTBEATS)]
    assert {(beat.source, beat.target) for beat in beats} == {("J", "K")}
