"""`topic.creation.*` with a real broker that makes no topic by itself, and a real worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.worker_process import SINK, SOURCE, Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

DEFAULT = {"topic.creation.default.partitions": "-1", "topic.creation.default.replication.factor": "-1"}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`bootstrap.servers` of a broker of its own: no topic on first use, two partitions where nothing else is said."""
    settings = {"auto.create.topics.enable": "false", "num.partitions": "2"}
    with Broker(tmp_path_factory.mktemp("strict"), settings=settings) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def worker(strict: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """It has a connector `missing` whose topic is not there: its client itself hopes for 30 s."""
    folder = tmp_path_factory.mktemp("worker")
    (folder / "lines.txt").write_text("one\n", encoding="utf-8")
    with WorkerProcess(folder, strict) as worker:
        worker.wait_ready()
        create(worker, "missing", folder / "lines.txt", "nowhere")
        yield worker


def create(worker: WorkerProcess, name: str, file: Path, topic: str, **more: str) -> None:
    config = {"connector.class": SOURCE, "tasks.max": "1", "file": str(file), "topic": topic, **more}
    worker.request("POST", "/connectors", {"name": name, "config": config})


def described(bootstrap: str, topic: str) -> tuple[int, dict[str, Any]]:
    """Its number of partitions and its configs, once it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def partitions() -> int:
        try:
            return len(admin.describe_topics(TopicCollection([topic]))[topic].result(60).partitions)
        except KafkaException:
            return 0

    count: int = eventually(partitions, 60)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(60)
    return count, {key: entry.value for key, entry in configs.items()}


def records(bootstrap: str, topic: str) -> int:
    """The number of records of the topic; -1 while its partitions have no leader yet."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "count"})
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=60)[1] for p in partitions)
    except KafkaException:
        return -1
    finally:
        consumer.close()


def test_the_first_group_that_covers_the_topic_says_how_it_is_made(worker: WorkerProcess, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n", encoding="utf-8")
    groups = {
        "topic.creation.groups": "compacted,logs",
        "topic.creation.compacted.include": "state-.*",
        "topic.creation.logs.include": "log-.*",
        "topic.creation.logs.partitions": "5",
        "topic.creation.logs.retention.ms": "123456",
    }
    bootstrap = worker_bootstrap(worker)
    create(worker, "logs", file, "log-a", **DEFAULT, **groups)
    count, configs = described(bootstrap, "log-a")
    assert (count, configs["retention.ms"]) == (5, "123456")
    eventually(lambda: records(bootstrap, "log-a") == 2, 60, worker.log)
    create(worker, "rest", file, "other", **DEFAULT, **groups)
    count, configs = described(bootstrap, "other")
    assert count == 2  # the broker's default
    assert configs["retention.ms"] != "123456"


def test_a_large_first_batch_finds_its_topic_made(worker: WorkerProcess, tmp_path: Path) -> None:
    file, lines = tmp_path / "large.txt", 150_000  # 16 MB: a Spark job
    file.write_text("".join(f"{n:07d} {'x' * 100}\n" for n in range(lines)), encoding="utf-8")
    create(worker, "large", file, "large", **{**DEFAULT, "topic.creation.default.partitions": "1"})
    eventually(lambda: described(worker_bootstrap(worker), "large")[0], 60)
    eventually(lambda: records(worker_bootstrap(worker), "large") == lines, 60, worker.log)


def test_what_cannot_be_made_fails_the_task_and_says_what_to_do(worker: WorkerProcess, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\n", encoding="utf-8")
    create(worker, "replicas", file, "many", **{**DEFAULT, "topic.creation.default.replication.factor": "7"})
    worker.wait_states("replicas", "FAILED")
    trace = worker.trace("replicas")
    assert "topic many could not be created as topic.creation.default says" in trace
    assert "replication factor" in trace.lower()
    assert "restart the task" in trace


def test_wrong_settings_fail_the_task_with_all_that_is_wrong(worker: WorkerProcess, tmp_path: Path) -> None:
    create(worker, "wrong", tmp_path / "x", "t", **{"topic.creation.groups": "g", "topic.creation.g.partitions": "0"})
    worker.wait_states("wrong", "FAILED")
    trace = worker.trace("wrong")
    for key in ("default.partitions", "default.replication.factor", "g.include", "g.partitions"):
        assert f"topic.creation.{key}" in trace


def test_the_worker_may_leave_it_to_the_broker(broker: str, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\n", encoding="utf-8")
    topic = "left-to-the-broker"
    with WorkerProcess(tmp_path / "w", broker, settings={"topic.creation.enable": "false"}) as worker:
        worker.wait_ready()
        create(worker, "off", file, topic, **{**DEFAULT, "topic.creation.default.partitions": "5"})
        count, _ = described(broker, topic)
        eventually(lambda: records(broker, topic) == 1, 60, worker.log)
    assert count == 1


def test_without_settings_a_missing_topic_fails_the_task_instead_of_hanging(worker: WorkerProcess) -> None:
    worker.wait_states("missing", "FAILED", within_s=120)
    trace = worker.trace("missing")
    assert "nowhere" in trace
    assert "create the topic" in trace


@pytest.mark.soak
def test_topics_that_come_back_with_fewer_partitions_are_written_to(worker: WorkerProcess, tmp_path: Path) -> None:
    """`ruled` is created again by `topic.creation.*`, and so are dead letters'; a task waits for `left`."""
    bootstrap, file = worker_bootstrap(worker), tmp_path / "lines.txt"
    ruled, left = Topic(bootstrap, "ruled", partitions=4), Topic(bootstrap, "left", partitions=4)
    file.write_text("one\n" * 40, encoding="utf-8")
    create(worker, ruled.name, file, ruled.name, **DEFAULT)
    create(worker, left.name, file, left.name)
    for topic in (ruled, left):
        eventually(lambda topic=topic: records(bootstrap, topic.name) == 40, 60, worker.log)
    bad, letters = Topic(bootstrap, "bad"), Topic(bootstrap, "letters", partitions=3)
    dead = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters.name}
    dead |= {"errors.deadletterqueue.topic.replication.factor": "1", "file": str(tmp_path / "out.txt")}
    sink = {"connector.class": SINK, "topics": bad.name, **dead}
    worker.request("POST", "/connectors", {"name": bad.name, "config": sink})
    bad.send([b"{no json"])
    eventually(lambda: records(bootstrap, letters.name) == 1, 60, worker.log)
    for topic in (ruled, left, letters):
        topic.delete()
    add_lines(file, 10)
    bad.send([b"{no json", b"{nor this"])
    eventually(lambda: f"record(s) for {left.name} could not be delivered" in worker.log(), 60, worker.log)
    left.admin.create_topics([NewTopic(left.name, 1, 1)])[left.name].result(60)
    for topic, partitions in ((ruled, 2), (left, 1)):
        assert described(bootstrap, topic.name)[0] == partitions
        eventually(lambda topic=topic: records(bootstrap, topic.name) == 10, 60, worker.log)
    eventually(lambda: records(bootstrap, letters.name) == 2, 90, worker.log)
    add_lines(file, 10)
    for topic in (ruled, left):
        eventually(lambda topic=topic: records(bootstrap, topic.name) == 20, 60, worker.log)
    assert [worker.states(name) for name in (ruled.name, left.name, bad.name)] == [["RUNNING"]] * 3


def add_lines(file: Path, count: int) -> None:
    with file.open("a", encoding="utf-8") as more:
        more.write("more\n" * count)


def worker_bootstrap(worker: WorkerProcess) -> str:
    for line in worker.worker_file.read_text(encoding="utf-8").splitlines():
        if line.startswith("bootstrap.servers="):
            return line.partition("=")[2]
    raise AssertionError("no bootstrap.servers")
