"""Batches that are sent again after an error: their sequence numbers, and their epoch of the producer."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from kafka import errors
from kafka.future import Future

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.copy.batches import RecordBatch, batches_in
from headrace.connectors.mirror.copy.producing import BatchProducer, Outlet
from headrace.plugins.offsets import TopicPartition
from tests.unit.connectors.mirror.copy.test_batches import built

PARTITION = TopicPartition("t", 0)
ID = 7


class Cluster:
    """Brokers that answer when the test says so; those in `away` cannot be reached."""

    name = "target"

    def __init__(self) -> None:
        self.away: set[TopicPartition] = set()
        self.sent: list[tuple[Future, list[tuple[int, int]]]] = []

    def ready_leader(self, partition: TopicPartition) -> int:
        if partition in self.away:
            raise errors.NodeNotReadyError("broker 2 does not answer yet")
        return 1

    def doubt(self) -> None:
        pass

    def send(self, request: Any, node: int | None = None) -> Future:
        future = Future()
        if node is None:
            answer: Any = type("Answer", (), {"error_code": 0, "producer_id": ID, "producer_epoch": 0})
            return future.success(answer)
        stamps = [
            struct.unpack_from(">hi", part.records[0], 51)
            for topic in request.topic_data
            for part in topic.partition_data
        ]
        self.sent.append((future, stamps))
        return future

    def answer(self, error: int = 0, offset: int = 0) -> None:
        """The oldest request of partition 0 is answered."""
        future, _ = self.sent.pop(0)
        part: Any = type("Part", (), {"index": 0, "error_code": error, "error_message": None, "base_offset": offset})
        topic: Any = type("Topic", (), {"name": PARTITION.topic, "partition_responses": [part]})
        future.success(type("Answer", (), {"responses": [topic]}))

    def lose(self) -> None:
        """The connection is lost."""
        for future, _ in self.sent:
            future.failure(errors.KafkaConnectionError("socket disconnected"))
        self.sent.clear()

    @property
    def stamps(self) -> list[tuple[int, int]]:
        """Epoch and sequence of what is on its way."""
        return [stamp for _, stamps in self.sent for stamp in stamps]


class Sending:
    """A producer to such brokers."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.producer = BatchProducer(self.cluster, ClientConfig("producer", {"bootstrap.servers": "b:1"}))

    def first(self) -> None:
        """A batch of one record arrives, with the sequence number 0."""
        self.send(batches([b"first"]))
        self.cluster.answer()

    def send(self, batches: list[RecordBatch], outlet: Outlet | None = None) -> Outlet:
        """A copy of these begins."""
        outlet = outlet or Outlet(PARTITION)
        self.begin()
        list(self.producer.send([(outlet, giving(batches))]))
        return outlet

    def begin(self) -> None:
        with pytest.raises(StopIteration):
            self.producer.begin().send(None)


def giving(batches: list[RecordBatch]) -> Callable[[], RecordBatch | None]:
    waiting = iter(batches)
    return lambda: next(waiting, None)


def batches(*values: list[bytes | None]) -> list[RecordBatch]:
    base, found = 0, []
    for some in values:
        found += batches_in(memoryview(bytes(built(base, some))))
        base += len(some)
    return found


@pytest.fixture
def sending() -> Sending:
    """Its first batch has arrived."""
    sending = Sending()
    sending.first()
    return sending


THREE = ([b"a", b"b"], [b"c"], [b"d"])


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    sending = Sending()
    waiting = batches(*THREE)
    outlet = sending.send(waiting[:2])
    assert sending.cluster.stamps == [(0, 0)], "the next one might find a leader before this one does"
    sending.cluster.answer()
    list(sending.producer.send([(outlet, giving(waiting[1:]))]))
    assert sending.cluster.stamps == [(0, 2), (0, 3)]


def test_batches_of_a_lost_connection_keep_their_sequence_numbers(sending: Sending) -> None:
    outlet = sending.send(batches(*THREE))
    assert sending.cluster.stamps == [(0, 1), (0, 3), (0, 4)]
    sending.cluster.answer(offset=10)
    sending.cluster.lose()
    assert len(outlet.acknowledged) == 1
    again = sending.send(batches(*THREE, [b"e"])[1:])
    assert sending.cluster.stamps == [(0, 3), (0, 4), (0, 5)], "the broker knows by these what it has"
    for offset in (12, 13, 14):
        sending.cluster.answer(offset=offset)
    assert [offset for _, offset in again.acknowledged] == [12, 13, 14]


def test_a_connection_may_be_lost_again_before_all_was_sent_again(sending: Sending) -> None:
    sending.send(batches(*THREE))
    sending.cluster.lose()
    sending.send(batches(*THREE)[:1])
    sending.cluster.lose()
    sending.send(batches(*THREE))
    assert sending.cluster.stamps == [(0, 1), (0, 3), (0, 4)]


def test_batches_that_differ_from_those_sent_before_begin_another_epoch(sending: Sending) -> None:
    sending.send(batches(*THREE))
    sending.cluster.lose()
    otherwise = batches([b"x", b"y"], [b"c"])  # as where the topic was made again
    outlet = sending.send(otherwise)
    assert sending.cluster.sent == []
    assert "sent anew" in str(outlet.error)
    sending.send(otherwise)
    assert sending.cluster.stamps == [(1, 0), (1, 2)]


def test_after_a_refusal_sequence_numbers_begin_anew(sending: Sending) -> None:
    outlet = sending.send(batches(*THREE))
    sending.cluster.answer(error=errors.MessageSizeTooLargeError.errno)
    for _ in range(2):
        sending.cluster.answer(error=errors.OutOfOrderSequenceNumberError.errno)
    assert isinstance(outlet.error, errors.MessageSizeTooLargeError)
    sending.send(batches(*THREE))
    assert sending.cluster.stamps == [(1, 0), (1, 2), (1, 3)]


def test_what_was_abandoned_says_nothing_later(sending: Sending) -> None:
    sending.send(batches(*THREE))
    old, sending.cluster.sent = sending.cluster.sent, []
    sending.producer.abandon()
    sending.send(batches(*THREE))
    assert sending.cluster.stamps == [(1, 0), (1, 2), (1, 3)]
    for future, _ in old:
        future.failure(errors.RequestTimedOutError())
    for offset in range(3):
        sending.cluster.answer(offset=offset)
    sending.send(batches([b"e"]))
    assert sending.cluster.stamps == [(1, 4)]


def test_a_leader_that_cannot_be_reached_stops_its_partitions_alone(sending: Sending) -> None:
    away, there = Outlet(TopicPartition("t", 1)), Outlet(PARTITION)
    sending.cluster.away.add(away.partition)
    sending.begin()
    ready = [(one, giving(batches(*THREE))) for one in (away, there)]
    list(sending.producer.send(ready))
    assert len(sending.cluster.stamps) == 3
    assert isinstance(away.error, errors.NodeNotReadyError)
    assert there.error is None
