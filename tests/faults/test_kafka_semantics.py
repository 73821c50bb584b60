"""Sinks over topics that hold more than plain records: never a silent loss, never a stall."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.integration.worker_process import (
    SINK,
    SOURCE,
    Topic,
    WorkerProcess,
    add_to,
    envelope,
    eventually,
    line_count,
    lines_of,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

MANY = 70_000
"""So much backlog is a job."""
SIZES = pytest.mark.parametrize("size", [20, MANY], ids=["here", "there"])


@pytest.fixture
def compacted(broker: str) -> Topic:
    """A topic whose keys were written again and again, which the broker is about to compact."""
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topic = Topic(broker, "compacted", config={**config, "min.compaction.lag.ms": "0", "segment.bytes": "1048576"})
    values = texts(MANY)
    for _ in range(2):
        topic.send(encoded(values), keys=[value.encode() for value in values])
    topic.send(encoded(["end"]), keys=[b"end"])
    return topic


def texts(count: int, about: str = "line") -> list[str]:
    return [f"{about} {number}" for number in range(count)]


def encoded(values: list[str]) -> list[bytes]:
    return [envelope(value) for value in values]


def raw(values: list[str]) -> list[bytes]:
    return [value.encode() for value in values]


def sink(worker: WorkerProcess, topic: Topic, folder: Path, **config: str) -> Path:
    """The file of a sink that reads the topic, named as it is."""
    file = folder / "sink.txt"
    worker.create(topic.name, connector_class=SINK, topics=topic.name, file=str(file), **config)
    return file


def assert_moved(worker: WorkerProcess, topic: Topic, there: bool) -> None:
    """The sink of this name had a job move rows, or had not."""
    assert (f"{topic.name}-0: a job moved" in worker.log()) == there


def committed(worker: WorkerProcess, topic: Topic) -> int:
    """The offset up to which the sink of the topic's name has committed its first partition; -1: none."""
    found = [each["offset"]["kafka_offset"] for each in worker.offsets(topic.name)]
    return found[0] if found else -1


def assert_no_lag(worker: WorkerProcess, topic: Topic) -> None:
    """The sink of this name has committed all that the topic has, markers included."""
    eventually(
        lambda: committed(worker, topic) == topic.end(), 60, lambda: f"{committed(worker, topic)} of {topic.end()}"
    )


class Transactions:
    """A transactional producer of one topic."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.producer = Producer({"bootstrap.servers": topic.bootstrap, "transactional.id": topic.name})
        self.producer.init_transactions(30)

    def open(self, values: list[str]) -> None:
        """These records are in the topic, in a transaction that has not ended."""
        self.producer.begin_transaction()
        add_to(self.producer, self.topic.name, encoded(values))
        assert self.producer.flush(60) == 0

    def commit(self, values: list[str]) -> None:
        self.open(values)
        self.producer.commit_transaction(30)

    def abort(self, values: list[str]) -> None:
        self.open(values)
        self.producer.abort_transaction(30)


@pytest.mark.parametrize("size", [20, pytest.param(MANY, marks=pytest.mark.long)], ids=["here", "there"])
def test_aborted_records_are_read_as_the_isolation_level_says(
    worker: WorkerProcess, broker: str, tmp_path: Path, size: int
) -> None:
    topics = [Topic(broker, "isolation") for _ in range(2)]
    for topic in topics:
        written = Transactions(topic)
        written.commit(texts(size, "kept"))
        written.abort(texts(size, "aborted"))
        written.commit(texts(5, "last"))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    strict = sink(worker, topics[0], tmp_path / "a", consumer_override_isolation_level="read_committed")
    loose = sink(worker, topics[1], tmp_path / "b")
    good = texts(size, "kept") + texts(5, "last")
    every = texts(size, "kept") + texts(size, "aborted") + texts(5, "last")
    eventually(lambda: line_count(strict) >= len(good) and line_count(loose) >= len(every), 90, worker.log)
    assert lines_of(strict) == raw(good)
    assert lines_of(loose) == raw(every)
    for topic in topics:
        assert_moved(worker, topic, there=size == MANY)
    # Three markers end the three transactions; nothing is left to read, and the lag tools must say so.
    for topic in topics:
        assert_no_lag(worker, topic)


@SIZES
def test_what_is_behind_an_open_transaction_waits_and_is_not_lost(
    worker: WorkerProcess, broker: str, tmp_path: Path, size: int
) -> None:
    topic = Topic(broker, "open")
    written = Transactions(topic)
    written.commit(texts(size, "kept"))
    written.open(texts(10, "open"))
    topic.send(encoded(texts(10, "behind")))
    file = sink(worker, topic, tmp_path, consumer_override_isolation_level="read_committed")
    eventually(lambda: line_count(file) >= size, 90, worker.log)
    assert worker.states(topic.name) == ["RUNNING"]
    assert line_count(file) == size
    written.producer.commit_transaction(30)
    eventually(lambda: line_count(file) >= size + 20, 60, worker.log)
    assert lines_of(file) == raw(texts(size, "kept") + texts(10, "open") + texts(10, "behind"))
    assert_moved(worker, topic, there=size == MANY)
    assert_no_lag(worker, topic)


def test_gaps_that_compaction_left_are_passed(worker: WorkerProcess, compacted: Topic, tmp_path: Path) -> None:
    def first_gap() -> bool:
        return len(compacted.values()) < 2 * MANY

    eventually(first_gap, 90, every_s=1)
    text = "org.apache.kafka.connect.storage.StringConverter"
    file = sink(worker, compacted, tmp_path, key_converter=text)
    eventually(lambda: line_count(file) and lines_of(file)[-1] == b"end", 90, worker.log)
    eventually(lambda: committed(worker, compacted) == compacted.end(), 60, lambda: committed(worker, compacted))
    assert set(lines_of(file)) == set(raw([*texts(MANY), "end"]))
    assert f"{compacted.name}-0: the records" not in worker.log(), "a gap is not taken for what retention deleted"


@SIZES
def test_what_retention_took_is_said_and_the_rest_is_read(
    worker: WorkerProcess, broker: str, tmp_path: Path, size: int
) -> None:
    topic = Topic(broker, "retention")
    topic.send(encoded(texts(10, "first")))
    file = sink(worker, topic, tmp_path)
    eventually(lambda: committed(worker, topic) == 10, 60, worker.log)
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    eventually(lambda: worker.states(topic.name) == [], 60)
    topic.send(encoded(texts(size + 5, "later")))
    topic.admin.delete_records([TopicPartition(topic.name, 0, 15)])[TopicPartition(topic.name, 0)].result(60)
    worker.request("PUT", f"/connectors/{topic.name}/resume")
    eventually(lambda: line_count(file) >= 10 + size, 90, worker.log)
    assert lines_of(file) == raw(texts(10, "first") + texts(size + 5, "later")[5:])
    assert_moved(worker, topic, there=size == MANY)
    said = f"{topic.name}-0: the records 10 to 14 were deleted by the topic's retention before they were read"
    eventually(lambda: said in worker.log(), 60, worker.log)
    assert worker.states(topic.name) == ["RUNNING"]


@pytest.mark.parametrize(("before", "after"), [(30, 10), (10, 30), (10, MANY)], ids=["shorter", "longer", "backlog"])
def test_a_topic_made_again_under_a_running_sink_is_read_from_its_start(
    worker: WorkerProcess, broker: str, tmp_path: Path, before: int, after: int
) -> None:
    topic = Topic(broker, "remade")
    topic.send(encoded(texts(before, "former")))
    file = sink(worker, topic, tmp_path)
    eventually(lambda: committed(worker, topic) == before, 60, worker.log)
    topic.delete()
    topic.create()
    newer = raw(texts(after, "newer"))
    topic.send(encoded(texts(after, "newer")))
    eventually(lambda: line_count(file) >= before + after and lines_of(file)[-after:] == newer, 90, worker.log)
    assert lines_of(file)[:before] == raw(texts(before, "former"))
    # A fetch that was under way goes on in the namesake; what it brings is read again.
    brought = lines_of(file)[before:-after]
    assert brought == newer[before : before + len(brought)]
    came_to = before + len(brought)
    assert f"{topic.name}-0, of which offset {came_to} was next, was deleted and made again" in worker.log()
    assert worker.states(topic.name) == ["RUNNING"]
    eventually(lambda: committed(worker, topic) == after, 60)


def test_a_topic_made_again_under_a_running_source_is_written_to(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    topic, file = Topic(broker, "rewritten"), tmp_path / "lines.txt"
    file.write_text("one\ntwo\n", encoding="utf-8")
    worker.create(topic.name, connector_class=SOURCE, topic=topic.name, file=str(file))
    eventually(lambda: topic.end() == 2, 60, worker.log)
    topic.delete()
    topic.create()
    with open(file, "a", encoding="utf-8") as more:
        more.write("three\n")
    eventually(lambda: topic.end() == 1, 60, worker.log)
    assert topic.values() == encoded(["three"])
    assert worker.states(topic.name) == ["RUNNING"]


@pytest.mark.parametrize("what", ["pause", "stop"])
def test_a_longer_topic_made_again_while_its_sink_stood_still_is_read_from_its_start(
    worker: WorkerProcess, broker: str, tmp_path: Path, what: str
) -> None:
    topic = Topic(broker, "stood")
    topic.send(encoded(texts(10, "former")))
    file = sink(worker, topic, tmp_path)
    eventually(lambda: committed(worker, topic) == 10, 60, worker.log)
    worker.request("PUT", f"/connectors/{topic.name}/{what}")
    eventually(lambda: worker.states(topic.name) == ([] if what == "stop" else ["PAUSED"]), 60)
    topic.delete()
    topic.create()
    topic.send(encoded(texts(30, "newer")))
    worker.request("PUT", f"/connectors/{topic.name}/resume")
    eventually(lambda: lines_of(file)[-30:] == raw(texts(30, "newer")), 60, lambda: f"{lines_of(file)} {worker.log()}")
    eventually(lambda: committed(worker, topic) == 30, 60)
