"""Requests are written as kafka-python writes them, and answers read as it reads them, however they arrive."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer.produce import ProduceRequest

from headrace.connectors.mirror.copy.wire import BrokerWire

CONFIG = {"client_id": "mirror", "receive_message_max_bytes": 1 << 24}
RECORDS = [b"a" * 70_000, b"", None, b"b" * 3, b"c" * 200_000]


def wire() -> BrokerWire:
    return BrokerWire(SimpleNamespace(config=CONFIG, node_id=1))


def arrive(wire: BrokerWire, data: bytes, sizes: Iterator[int]) -> list[Any]:
    """The answers in these bytes, which come so many at a time."""
    answers, at = [], 0
    while at < len(data):
        room = wire.room
        count = min(len(room), len(data) - at, next(sizes))
        room[:count] = data[at : at + count]
        answers += wire.receive_bytes(room[:count])
        at += count
    return answers


def sizes(seed: int, most: int) -> Iterator[int]:
    chance = random.Random(seed)
    while True:
        yield chance.randint(1, most)


def fetched(version: int, correlation: int, records: Sequence[bytes | None]) -> bytes:
    """A broker's answer to a fetch request."""
    part = FetchResponse.FetchableTopicResponse.PartitionData
    parts = [
        part(version=version, partition_index=n, error_code=0, high_watermark=7, aborted_transactions=[], records=one)
        for n, one in enumerate(records)
    ]
    topic = FetchResponse.FetchableTopicResponse(version=version, topic="t", partitions=parts)
    answer = FetchResponse(version=version, error_code=0, session_id=42, responses=[topic])
    answer.with_header(correlation_id=correlation)
    encoded: bytes = bytes(answer.encode(framed=True, header=True))
    return encoded


def asked(wire: BrokerWire, version: int) -> int:
    """The correlation id of a fetch request."""
    request = FetchRequest(max_version=version, session_id=0, topics=[], forgotten_topics_data=[])
    request.API_VERSION = version
    return wire.send_request(request)


@pytest.mark.parametrize("version", [4, 11, 12])
@pytest.mark.parametrize("most", [1 << 24, 100_000, 100])
def test_the_records_of_answers_are_views_of_what_arrived(version: int, most: int) -> None:
    there = wire()
    small, large = asked(there, version), asked(there, version)
    versions = ApiVersionsRequest()
    versions.API_VERSION = 0
    between = there.send_request(versions)
    reply = ApiVersionsResponse(version=0, error_code=0, api_keys=[])
    reply.with_header(correlation_id=between)
    data = (
        fetched(version, small, [b"x" * 90]) + fetched(version, large, RECORDS) + reply.encode(framed=True, header=True)
    )
    (_, first), (_, second), (last, _) = arrive(there, data, sizes(0, most))
    assert last == between
    assert [bytes(part.records) for part in first.responses[0].partitions] == [b"x" * 90]
    found = [part.records for part in second.responses[0].partitions]
    assert [one if one is None else bytes(one) for one in found] == RECORDS
    assert len({id(one.obj) for one in found if one is not None}) == 1
    assert second.responses[0].partitions[0].high_watermark == 7
    assert (second.session_id if version > 6 else 42) == 42


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_produce_request_goes_out_as_kafka_python_writes_it_without_copies(version: int) -> None:
    there, theirs = wire(), KafkaProtocol(client_id="mirror")
    header, records = bytearray(b"h" * 61), memoryview(b"r" * 100_000)

    def request(of: Any) -> ProduceRequest:
        part = ProduceRequest.TopicProduceData.PartitionProduceData
        topic = ProduceRequest.TopicProduceData(name="t", partition_data=[part(index=n, records=of) for n in range(3)])
        made = ProduceRequest(max_version=12, transactional_id=None, acks=-1, timeout_ms=9, topic_data=[topic])
        made.API_VERSION = version
        return made

    assert there.send_request(request((header, records))) == theirs.send_request(request(bytes(header) + records))
    pieces = there.send_bytes()
    assert b"".join(pieces) == bytes(theirs.send_bytes())
    assert sum(piece is records for piece in pieces) == 3
    assert all(len(piece) for piece in pieces), "the sending of nothing never ends"
    assert not there.send_bytes()


def test_an_answer_beyond_what_is_taken_is_refused() -> None:
    with pytest.raises(errors.InvalidReceiveError):
        arrive(wire(), (1 << 30).to_bytes(4, "big") + b"x", sizes(0, 100))
