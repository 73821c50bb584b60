"""Sinks of topics that take many times as much memory once decompressed: what is too much fails its own task alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.integration.worker_process import SINK, Topic, WorkerProcess, eventually, line_count

pytestmark = [pytest.mark.kafka, pytest.mark.long]

MB = 1_000_000


@pytest.fixture(scope="module")
def small_worker(broker_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker of this module's own, whose memory nothing else uses."""
    with WorkerProcess(tmp_path_factory.mktemp("compressed"), broker_process.bootstrap_servers) as worker:
        yield worker.wait_ready(120)


@pytest.fixture
def bystander(small_worker: WorkerProcess, broker: str, tmp_path: Path) -> Iterator[Path]:
    """The file of a sink on the same worker that never fails; at the end one more record arrives in it."""
    topic, file = Topic(broker, "bystander"), tmp_path / "bystander"
    topic.send([b"first"])
    begin(small_worker, "bystander", topic, file)
    eventually(lambda: line_count(file) == 1, 60)
    yield file
    topic.send([b"last"])
    eventually(lambda: line_count(file) == 2, 60)
    assert small_worker.states("bystander") == ["RUNNING"]
    small_worker.request("DELETE", "/connectors/bystander")


def begin(worker: WorkerProcess, name: str, topic: Topic, file: Path | str, **config: str) -> None:
    text = "org.apache.kafka.connect.storage.StringConverter"
    its = {"connector_class": SINK, "topics": topic.name, "file": str(file), "tasks_max": "1"}
    worker.create(name, **its, key_converter=text, value_converter=text, **config)


def send(topic: Topic, codec: str, count: int, size: int, batch_bytes: int = MB) -> None:
    """So many records of zeros, in batches of so much before they are compressed."""
    most = {"batch.size": batch_bytes, "message.max.bytes": batch_bytes + MB, "queue.buffering.max.kbytes": 1 << 20}
    producer = Producer({"bootstrap.servers": topic.bootstrap, "compression.type": codec, "linger.ms": 500, **most})
    for _ in range(count):
        producer.produce(topic.name, bytes(size))
        producer.poll(0)
    assert producer.flush(60) == 0


def committed(topic: Topic, name: str) -> int:
    """The offset that the connector's group has come to; -1 while nobody knows."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": f"connect-{name}"})
    try:
        return int(consumer.committed([TopicPartition(topic.name, 0)], timeout=60)[0].offset)
    except KafkaException:  # such as a coordinator that is just chosen
        return -1
    finally:
        consumer.close()


def peak_mb(process: psutil.Process, anew: bool = False) -> float:
    """The most memory that the process had since it began, or from now on `anew`."""
    if anew:
        Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmHWM"))


DROP_ALL: Mapping[str, str] = {
    "transforms": "drop",
    "transforms_drop_type": "org.apache.kafka.connect.transforms.Filter",
}


@pytest.mark.parametrize(
    "codec", ["zstd", *(pytest.param(one, marks=pytest.mark.soak) for one in ("gzip", "lz4", "snappy"))]
)
def test_what_compresses_well_is_taken_little_by_little(
    small_worker: WorkerProcess, broker: str, tmp_path: Path, codec: str
) -> None:
    topic = Topic(broker, codec)
    send(topic, codec, 500, MB)
    worker = psutil.Process(small_worker.process.pid)
    before = peak_mb(worker, anew=True)
    begin(small_worker, codec, topic, tmp_path / "none", **DROP_ALL)
    eventually(lambda: committed(topic, codec) == 500, 90, small_worker.log)
    grown = peak_mb(worker) - before
    small_worker.request("DELETE", f"/connectors/{codec}")
    assert grown < 300, "of 500 MB; zstd makes half of that of one answer"


def test_a_record_that_is_too_large_fails_its_own_task(
    small_worker: WorkerProcess, broker: str, tmp_path: Path, bystander: Path
) -> None:
    topic, file = Topic(broker, "large"), tmp_path / "large"
    topic.send([b"1", b"2", b"3"])
    send(topic, "zstd", 1, 40 * MB, 50 * MB)
    topic.send([b"5"])
    told = f"The record at offset 3 of {topic.name}-0 has 40000000 bytes"
    fails_and_is_passed_over(small_worker, "large", topic, file, told, before=3, then=4)


def test_a_batch_that_is_too_large_fails_its_own_task(
    small_worker: WorkerProcess, broker: str, tmp_path: Path, bystander: Path
) -> None:
    topic, file = Topic(broker, "batch"), tmp_path / "batch"
    topic.send([b"1"])
    send(topic, "zstd", 150, MB, 200 * MB)
    topic.send([b"152"])
    told = f"The record batch at offset 1 of {topic.name}-0 cannot be decompressed"
    fails_and_is_passed_over(small_worker, "batch", topic, file, told, before=1, then=151)


def fails_and_is_passed_over(
    worker: WorkerProcess, name: str, topic: Topic, file: Path, told: str, before: int, then: int
) -> None:
    """A sink writes the lines before what is too large, fails and tells of it, and goes on from the offset after it."""
    begin(worker, name, topic, file)
    worker.wait_states(name, "FAILED")
    assert told in worker.trace(name)
    assert line_count(file) == before, "all before it is done"
    pass_over(worker, name, topic, then)
    eventually(lambda: line_count(file) == before + 1, 60, worker.log)


def pass_over(worker: WorkerProcess, name: str, topic: Topic, offset: int) -> None:
    """The connector goes on from this offset, as the error says it can."""
    worker.request("PUT", f"/connectors/{name}/stop")
    eventually(lambda: worker.get(f"/connectors/{name}/status")["connector"]["state"] == "STOPPED", 60)
    place = {"kafka_topic": topic.name, "kafka_partition": 0}
    offsets = [{"partition": place, "offset": {"kafka_offset": offset}}]
    worker.request("PATCH", f"/connectors/{name}/offsets", {"offsets": offsets})
    worker.request("PUT", f"/connectors/{name}/resume")


@pytest.mark.soak
def test_a_backlog_that_compresses_well_is_worked_off_beside_others(
    small_worker: WorkerProcess, broker: str, tmp_path: Path, bystander: Path
) -> None:
    """Spark's driver has no memory for the range where it gets to the large records, which only then are known."""
    topic = Topic(broker, "backlog")
    topic.send([b"x" * 20] * 120_000)
    send(topic, "zstd", 900, MB)
    worker = psutil.Process(small_worker.process.pid)
    before = peak_mb(worker, anew=True)
    begin(small_worker, "backlog", topic, tmp_path / "backlog", **DROP_ALL)
    eventually(lambda: committed(topic, "backlog") == 120_900, 180, small_worker.log)
    assert small_worker.states("backlog") == ["RUNNING"]
    assert peak_mb(worker) - before < 500, "of 900 MB"
