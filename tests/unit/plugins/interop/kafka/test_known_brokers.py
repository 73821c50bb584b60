"""Clients that were told that there are no brokers, or no leaders, as a fenced broker says."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace.plugins.interop.kafka import admin_clients, client_statistics, group_offsets, known_brokers
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics
from headrace.plugins.interop.kafka.group_offsets import GroupOffset, GroupOffsets
from headrace.plugins.interop.kafka.known_brokers import KnownBrokers
from headrace.worker.kafka import librdkafka
from tests.metadata_proxy import MetadataProxy
from tests.mock_cluster import MockCluster
from tests.tcp_proxy import TcpProxy
from tests.unit.worker.kafka.test_librdkafka import values

SECONDS = 60
EVERY_MS = 200
CLIENT = {
    "client.id": "me",
    "topic.metadata.refresh.interval.ms": 100,
    # Otherwise librdkafka recovers by itself in nine of ten cases.
    "metadata.recovery.strategy": "none",
}


class Client(NamedTuple):
    """A client, and what it does."""

    serves: Callable[[], bool]
    """True if it is served now."""
    lists: Callable[[], object]
    """Asks for metadata."""


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_brokers, "CHECK_EVERY_S", EVERY_MS / 1000)
    for module in (client_statistics, librdkafka):
        monkeypatch.setattr(module, "INTERVAL_MS", EVERY_MS)


@pytest.fixture
def link() -> Iterator[MetadataProxy]:
    mock = MockCluster()
    mock.create("t")
    with MetadataProxy(mock.bootstrap) as proxy:
        yield proxy


def until(serves: Callable[[], bool], wanted: bool = True) -> None:
    end = time.monotonic() + SECONDS
    while serves() is not wanted:
        assert time.monotonic() < end


def answers(request: Callable[[], object]) -> bool:
    try:
        request()
    except KafkaException:
        return False
    return True


def hear_of_no_broker(link: MetadataProxy, lists: Callable[[], object]) -> None:
    """Fence the link, and wait until the client that lists topics was told that there are no brokers."""
    told = link.fenced_answers
    link.fence()
    until(lambda: (answers(lists), link.fenced_answers > told)[1])


def has_ends(client: AdminClient) -> bool:
    at = TopicPartition("t", 0)
    return answers(client.list_offsets({at: OffsetSpec.latest()}, request_timeout=1)[at].result)


def admin(config: dict[str, Any], _: str) -> Client:
    client = admin_clients.admin_client(config)

    def serves() -> bool:
        admin_clients.poll_clients()
        return has_ends(client)

    return Client(serves, lambda: client.list_topics(timeout=0.1))


def group(config: dict[str, Any], _: str) -> Client:
    client = group_offsets.kept_client(config)

    def serves() -> bool:
        return answers(client.committed("g", timeout_s=2).result)

    return Client(serves, lambda: client._client.list_topics(timeout=0.1))


def consumer(config: dict[str, Any], broker: str) -> Client:
    statistics = ClientStatistics("consumer", config)
    own = {**config, **statistics.settings(), "group.id": "g"}
    client: Any = Consumer(own, logger=logging.getLogger(__name__))
    statistics.watch(client)
    client.assign([TopicPartition("t", 0, 0)])
    writer: Any = Producer({"bootstrap.servers": broker}, logger=logging.getLogger(__name__))

    def serves() -> bool:
        """True if a record that is written now arrives."""
        written: list[int] = []
        writer.produce("t", b"x", on_delivery=lambda _, message: written.append(message.offset()))
        assert writer.flush(SECONDS) == 0
        while (message := client.poll(0.3)) is not None:
            if message.error() is None and message.offset() >= written[0]:
                return True
        return False

    return Client(serves, lambda: client.list_topics(timeout=0.1))


def producer(config: dict[str, Any], _: str) -> Client:
    client = librdkafka.Producer(config, logging.getLogger(__name__))

    def serves() -> bool:
        if not client.waiting():
            client.produce(values(1))
        return client.flush(0.2) == 0

    return Client(serves, lambda: client.poll(0.1))


@pytest.mark.parametrize("made", [admin, group, consumer, producer])
def test_a_client_that_was_told_of_no_broker_is_served_again(
    made: Callable[[dict[str, Any], str], Client], link: MetadataProxy
) -> None:
    client = made({**CLIENT, "bootstrap.servers": link.servers}, link.broker)
    until(client.serves)
    hear_of_no_broker(link, client.lists)
    link.heal()
    until(client.serves)


def test_offsets_come_that_were_asked_for_while_no_broker_was_known(
    link: MetadataProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_offsets, "_AGAIN_S", 0.5)
    for number in range(4):  # librdkafka forgets one of four
        client = GroupOffsets({**CLIENT, "bootstrap.servers": link.servers})
        client.committed("g", timeout_s=SECONDS).result()
        hear_of_no_broker(link, partial(client._client.list_topics, timeout=0.1))
        asked = [client.committed(group, [GroupOffset("t", 0)], timeout_s=SECONDS) for group in ("g", f"h{number}")]
        link.heal()
        assert [answer.result()[0].offset for answer in asked] == [-1001, -1001]


def test_no_offsets_are_asked_for_while_no_broker_is_connected(
    link: MetadataProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request in vain may end the process once the brokers are back."""
    with TcpProxy(link.port) as wire:
        link.advertised_port = wire.port
        client = GroupOffsets({**CLIENT, "bootstrap.servers": f"127.0.0.1:{wire.port}"})
        client.committed("g", timeout_s=SECONDS).result()
        until(lambda: (client.poll(), not client.is_cut_off)[1])
        wire.cut()
        until(lambda: (client.poll(), client.is_cut_off)[1])
        with monkeypatch.context() as patch:
            patch.setattr(group_offsets._Asked, "send", lambda *_: pytest.fail("it was sent"))
            with pytest.raises(KafkaException, match="no broker has told the offsets of the group"):
                client.committed("g", timeout_s=0.5).result()
        answer = client.committed("g", timeout_s=SECONDS)
        wire.heal()
        assert answer.result() == []


def test_the_log_says_that_brokers_are_looked_up_anew(link: MetadataProxy, caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    config = {**CLIENT, "bootstrap.servers": link.servers}
    client: Any = Consumer({**config, "group.id": "g"}, logger=logging.getLogger(__name__))
    brokers = KnownBrokers.of(client, config, lambda: now)
    assert brokers is not None
    for what, told in ((link.fence, ""), (link.heal, "client me knows no broker any more")):
        client.list_topics(timeout=SECONDS)
        now += 10
        brokers.check()
        assert told in caplog.text
        what()
    client.close()


def test_offsets_that_were_asked_for_and_changed_in_vain_do_not_end_the_process(link: MetadataProxy) -> None:
    with TcpProxy(link.port) as wire:
        link.advertised_port = wire.port
        client = group_offsets.kept_client({"bootstrap.servers": f"127.0.0.1:{wire.port}"})

        def serves() -> bool:
            return answers(client.committed("g", timeout_s=0.2).result)

        def offset() -> int:
            return client.committed("g", [GroupOffset("t", 0)], timeout_s=SECONDS).result()[0].offset

        until(serves)
        client.commit("g", [GroupOffset("t", 0, 7)], timeout_s=SECONDS).result()
        wire.cut()
        assert not serves()
        for change in (
            lambda: client.commit("g", [GroupOffset("t", 0, 3)], timeout_s=0.2),
            lambda: client.forget("g", [GroupOffset("t", 0)], timeout_s=0.2),
            lambda: client.delete("g", timeout_s=0.2),
        ):
            with pytest.raises(KafkaException, match="no broker has told the offsets of the group"):
                change().result()
        wire.heal()
        until(serves)
        assert offset() == 7, "what was given up is not made later"


def test_an_admin_client_does_not_stay_with_what_it_knew_of_leaders(link: MetadataProxy) -> None:
    client = admin_clients.admin_client({"bootstrap.servers": link.servers})
    until(lambda: has_ends(client))
    link.lose_leaders()
    until(lambda: has_ends(client), wanted=False)
    link.heal()
    until(lambda: has_ends(client))
