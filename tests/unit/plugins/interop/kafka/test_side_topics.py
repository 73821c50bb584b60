"""Records beside a sink's work: those that Kafka did not take are sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from headrace.config.kafka.client_config import ClientConfig
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka import side_topics
from headrace.plugins.interop.kafka.side_topics import SideTopic, SideTopics
from tests.mock_cluster import MockCluster


class _Client:
    """A producer with room for two records, which fails the first ones that it delivers."""

    def __init__(self) -> None:
        self.failing = 0
        self.queue: list[tuple[bytes, Callable[..., None]]] = []
        self.delivered: list[bytes] = []

    def produce(self, topic: str, value: bytes, key: Any, *, headers: Any, on_delivery: Any) -> None:
        if len(self.queue) == 2:
            raise BufferError
        self.queue.append((value, on_delivery))

    def poll(self, seconds: float) -> None:
        queue, self.queue = self.queue, []
        for value, told in queue:
            error = KafkaError(KafkaError._MSG_TIMED_OUT) if self.failing > 0 else None
            self.failing -= 1
            if error is None:
                self.delivered.append(value)
            told(error, None)

    def flush(self, seconds: float) -> int:
        self.poll(seconds)
        return 0


@pytest.fixture
def client() -> _Client:
    return _Client()


@pytest.fixture
def topics(client: _Client, monkeypatch: pytest.MonkeyPatch) -> SideTopics:
    monkeypatch.setattr(side_topics, "Producer", lambda config: client)
    mock = MockCluster()
    mock.create("t")
    java = {"bootstrap.servers": mock.bootstrap}
    made = SideTopics(ClientConfig("producer", java), ClientConfig("admin", java), [SideTopic("t", 1, 1)])
    made.open()
    return made


def test_what_was_not_acknowledged_is_sent_again(topics: SideTopics, client: _Client) -> None:
    client.failing = 1
    for value in (b"1", b"2"):
        topics.send("t", None, value, {})
    with pytest.raises(RetriableError, match="not acknowledged"):
        topics.flush()
    topics.flush()
    assert client.delivered == [b"2", b"1"]


def test_a_full_client_takes_the_rest_later(topics: SideTopics, client: _Client) -> None:
    for number in range(5):
        topics.send("t", None, b"%d" % number, {})
    topics.flush()
    assert client.delivered == [b"0", b"1", b"2", b"3", b"4"]


def test_a_full_client_that_delivers_nothing_is_an_error_and_keeps_all(topics: SideTopics, client: _Client) -> None:
    client.failing = 2
    topics.send("t", None, b"0", {})
    topics.send("t", None, b"1", {})
    with pytest.raises(RetriableError, match="not acknowledged"):
        topics.send("t", None, b"2", {})
    topics.flush()
    assert sorted(client.delivered) == [b"0", b"1", b"2"]
