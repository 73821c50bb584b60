"""Requests of a fetcher, and the fetches that it makes of answers: batches to copy, and what is passed over."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from crc32c import crc32c
from kafka import errors
from kafka.future import Future

from headrace.connectors.mirror.copy.fetching import Fetcher, FetchLimits, PartitionFetch
from headrace.plugins.offsets import TopicPartition
from tests.unit.connectors.mirror.copy.test_batches import CONTROL, TRANSACTIONAL, built

PARTITION = TopicPartition("t", 0)


def of_producer(data: bytearray, producer: int) -> bytearray:
    struct.pack_into(">q", data, 43, producer)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


def end_of(base: int, producer: int, aborted: bool) -> bytearray:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, -1, 1 << 20)
    builder.append(0, 1, struct.pack(">hh", 0, int(not aborted)), struct.pack(">hi", 0, 1), [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    struct.pack_into(">h", data, 21, CONTROL | TRANSACTIONAL)
    return data


def sorted_into(
    fetch: PartitionFetch, data: bytes, read_committed: bool = True, aborted: Sequence[tuple[int, int]] = ()
) -> PartitionFetch:
    cluster: Any = None
    part = SimpleNamespace(
        error_code=0,
        records=memoryview(bytes(data)),
        last_stable_offset=50,
        high_watermark=60,
        log_start_offset=0,
        aborted_transactions=[SimpleNamespace(producer_id=pid, first_offset=first) for pid, first in aborted],
    )
    Fetcher(cluster, read_committed, FetchLimits())._sort(fetch, part)
    return fetch


def transactional(base: int, values: list[bytes | None], producer: int) -> bytearray:
    return of_producer(built(base, values, attributes=TRANSACTIONAL), producer)


def test_aborted_records_are_passed_over_for_readers_of_committed_ones() -> None:
    data = transactional(0, [b"a"], 1) + transactional(1, [b"b"], 2) + end_of(2, 1, aborted=True)
    data += transactional(3, [b"c"], 1) + end_of(4, 2, aborted=False) + end_of(5, 1, aborted=False)
    fetch = sorted_into(PartitionFetch(PARTITION, 0), data, aborted=[(1, 0)])
    assert [batch.base for batch in fetch.waiting] == [1, 3], "the producer's next transaction counts"
    assert (fetch.position, fetch.next, fetch.end) == (6, 1, 50)
    everything = sorted_into(PartitionFetch(PARTITION, 0), data, read_committed=False, aborted=[])
    assert [batch.base for batch in everything.waiting] == [0, 1, 3]
    assert everything.end == 60


def test_what_lies_before_the_position_is_left_out() -> None:
    fetch = sorted_into(PartitionFetch(PARTITION, 3), built(0, [b"a", b"b"]) + built(2, [b"c", b"d"]))
    assert [(batch.base, batch.last) for batch in fetch.waiting] == [(2, 3)]
    assert fetch.next == 3


def test_a_lane_goes_on_where_it_is_and_begins_anew_elsewhere() -> None:
    fetch = sorted_into(PartitionFetch(PARTITION, 0), built(0, [b"a"]) + end_of(1, 1, aborted=True) + built(2, [b"c"]))
    fetch.take()
    fetch.seek(2)
    assert [batch.base for batch in fetch.waiting] == [2], "a control batch between is passed over"
    assert fetch.taken == 1
    fetch.seek(0)
    assert (len(fetch.waiting), fetch.position, fetch.waiting_bytes) == (0, 0, 0)


class Cluster:
    """Two brokers that answer when they are told to."""

    def __init__(self, **led: set[TopicPartition]) -> None:
        self.by_node = {int(name[1:]): its for name, its in led.items()}
        self.updates = 1
        self.paused: set[int] = set()
        self.sent: dict[int, tuple[Any, Any]] = {}
        """Of each broker the request that it has not answered, and the future of its answer."""

    def nodes(self) -> list[int]:
        return [1, 2]

    def led_by(self, node: int) -> set[TopicPartition]:
        return self.by_node.get(node, set())

    def why_not_led(self, partition: TopicPartition) -> errors.KafkaError:
        return errors.LeaderNotAvailableError(str(partition))

    def is_ready(self, node: int) -> bool:
        return node not in self.paused

    def doubt(self) -> None:
        pass

    def send(self, request: Any, node: int) -> Any:
        self.sent[node] = request, Future()
        return self.sent[node][1]

    def asked(self, node: int) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
        """The positions that the broker's request names, and the partitions that it takes back."""
        request = self.sent[node][0]
        named = {
            TopicPartition(topic.topic, part.partition): part.fetch_offset
            for topic in request.topics
            for part in topic.partitions
        }
        forgotten = {TopicPartition(one.topic, it) for one in request.forgotten_topics_data for it in one.partitions}
        return named, forgotten

    def answer(self, node: int, session: int = 7, **records: bytes) -> None:
        """Answer the broker's request, of topics with these names in their partition 0; 0 where it keeps no session."""
        nothing = SimpleNamespace(error_code=0, aborted_transactions=None, last_stable_offset=9, high_watermark=9)
        topics = [
            SimpleNamespace(
                topic=name,
                partitions=[SimpleNamespace(**{**vars(nothing), "partition_index": 0, "records": data})],
            )
            for name, data in records.items()
        ]
        _, future = self.sent.pop(node)
        future.success(SimpleNamespace(error_code=0, session_id=session, responses=topics))


A, B, C = (TopicPartition(name, 0) for name in "abc")


def lanes_of(*partitions: TopicPartition) -> dict[TopicPartition, PartitionFetch]:
    return {one: PartitionFetch(one, 5) for one in partitions}


def fetcher_of(cluster: Any) -> Fetcher:
    return Fetcher(cluster, False, FetchLimits())


def test_a_request_names_only_partitions_that_moved() -> None:
    cluster, fetches = Cluster(n1={A, B}, n2={C}), lanes_of(A, B, C)
    fetcher = fetcher_of(cluster)
    assert len(list(fetcher.top_up(fetches))) == 2
    assert (cluster.asked(1), cluster.asked(2)) == (({A: 5, B: 5}, set()), ({C: 5}, set()))
    assert list(fetcher.top_up(fetches)) == [], "each broker has its request"
    cluster.answer(1)
    list(fetcher.top_up(fetches))
    assert cluster.asked(1) == ({}, set())
    fetches[B].seek(3)
    cluster.answer(1, b=bytes(built(5, [b"x"])))
    assert fetches[B].position == 3, "it was moved while the broker was asked"
    list(fetcher.top_up(fetches))
    assert cluster.asked(1) == ({B: 3}, set())
    cluster.answer(1, session=0)
    list(fetcher.top_up(fetches))
    assert cluster.asked(1) == ({A: 5, B: 3}, set()), "the broker kept no session"


def test_a_request_takes_back_what_is_not_to_be_fetched_any_more() -> None:
    cluster, fetches = Cluster(n1={A, B, C}), lanes_of(A, B)
    fetcher = fetcher_of(cluster)
    list(fetcher.top_up(fetches))
    cluster.answer(1)
    others = {A: fetches[A], **lanes_of(C)}
    list(fetcher.top_up(others))
    assert cluster.asked(1) == ({C: 5}, {B})


def test_a_new_leader_is_asked() -> None:
    cluster, fetches = Cluster(n1={A, B}), lanes_of(A, B)
    fetcher = fetcher_of(cluster)
    list(fetcher.top_up(fetches))
    cluster.by_node = {1: {A}, 2: {B}}
    cluster.updates += 1
    cluster.answer(1)
    list(fetcher.top_up(fetches))
    assert (cluster.asked(1), cluster.asked(2)) == (({}, {B}), ({B: 5}, set()))


def test_a_partition_without_leader_is_news() -> None:
    fetches = lanes_of(A, B)
    fetcher = fetcher_of(Cluster(n1={A}))
    list(fetcher.top_up(fetches))
    assert fetcher.news == {B}
    assert isinstance(fetches[B].error, errors.LeaderNotAvailableError)


def test_a_broker_that_takes_no_requests_is_not_waited_for() -> None:
    cluster, fetches = Cluster(n1={A}), lanes_of(A)
    fetcher = fetcher_of(cluster)
    cluster.paused = {1}
    assert list(fetcher.top_up(fetches)) == []
    assert not fetcher.asks_all
    cluster.paused = set()
    assert len(list(fetcher.top_up(fetches))) == 1
    assert fetcher.asks_all


FORMER, NOW = UUID(int=1), UUID(int=2)


def test_a_partition_of_the_former_topic_is_not_asked_for_in_the_new_one() -> None:
    """The partition rested while the other one was found to have a new topic id."""
    cluster, second = Cluster(n1={A, TopicPartition("a", 1)}), TopicPartition("a", 1)
    list(fetcher_of(cluster).top_up({A: PartitionFetch(A, 0, NOW), second: PartitionFetch(second, 90, FORMER)}))
    asked = [(topic.topic_id, part.partition) for topic in cluster.sent[1][0].topics for part in topic.partitions]
    assert sorted(asked) == [(FORMER, 1), (NOW, 0)]


def test_a_topic_made_again_is_asked_for_by_its_new_id_in_a_new_session() -> None:
    cluster = Cluster(n1={A, B})
    fetches = {A: PartitionFetch(A, 5, FORMER), B: PartitionFetch(B, 5, UUID(int=9))}
    fetcher = fetcher_of(cluster)
    list(fetcher.top_up(fetches))
    assert {topic.topic_id for topic in cluster.sent[1][0].topics} == {FORMER, UUID(int=9)}
    refused = SimpleNamespace(partition_index=0, error_code=errors.UnknownTopicIdError.errno)
    _, future = cluster.sent.pop(1)
    answered = SimpleNamespace(topic="", topic_id=FORMER, partitions=[refused])
    future.success(SimpleNamespace(error_code=0, session_id=7, responses=[answered]))
    assert fetches[A].is_of_former_topic
    assert not fetches[B].is_of_former_topic
    list(fetcher.top_up({**fetches, A: PartitionFetch(A, 5, NOW)}))
    request = cluster.sent[1][0]
    assert (request.session_id, request.session_epoch) == (0, 0), "the session knows the name by its former id"
    assert cluster.asked(1) == ({A: 5, B: 5}, set()), "the same position, in another topic"
