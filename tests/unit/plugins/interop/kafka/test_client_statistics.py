"""Connections and bytes of clients, against the broker that librdkafka itself plays."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from headrace.plugins.interop.kafka import admin_clients, client_statistics
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics, Traffic, traffic
from headrace.worker.kafka import librdkafka
from tests.unit.worker.kafka.test_librdkafka import values

SECONDS = 60
AWKWARD = 'a "state":"UP" "brokers": "topics": "rx_bytes":7,'
PLAYED = {"test.mock.num.brokers": 1, "bootstrap.servers": "played:1", "client.id": AWKWARD}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_statistics, "INTERVAL_MS", 50)
    monkeypatch.setattr(librdkafka, "INTERVAL_MS", 50)


def report(connections: int, sent: int, received: int) -> str:
    """The part of librdkafka's report with these figures."""
    brokers = ",".join(['{"state":"UP"}'] * connections)
    return f'"brokers":{{{brokers}}},"topics":{{}},"tx_bytes":{sent},"rx_bytes":{received},'


def until_connected(kind: client_statistics.Kind, poll: Callable[[], object]) -> Traffic:
    """The traffic of the client once it is connected."""
    end = time.monotonic() + SECONDS
    while not (found := traffic(kind)[AWKWARD]).connections:
        assert time.monotonic() < end
        poll()
    return found


def test_a_consumer_tells_what_it_sent_and_received() -> None:
    config = {**PLAYED, "group.id": "g"}
    consumer: Any = Consumer({**config, **ClientStatistics("consumer", config).settings()})
    consumer.subscribe(["t"])
    assert traffic("consumer")[AWKWARD] == (0, 0, 0)
    found = until_connected("consumer", lambda: consumer.consume(10, 0.05))
    assert found.connections <= 3  # to the broker, to it as the coordinator, and as the one that was named first
    assert found.sent > 0
    assert found.received > 0
    consumer.close()


def test_so_does_the_producer_of_arrow_rows() -> None:
    statistics = ClientStatistics("producer", PLAYED)
    producer = librdkafka.Producer(PLAYED, logging.getLogger(__name__), statistics=statistics)
    producer.produce(values(1))
    assert producer.flush(SECONDS) == 0
    found = until_connected("producer", lambda: producer.poll(0.05))
    assert found.sent > 0
    assert found.received > 0


def test_kept_admin_clients_tell_when_all_are_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_clients, "_clients", {})
    client: AdminClient = admin_clients.admin_client(PLAYED)
    client.list_topics(timeout=SECONDS)
    assert until_connected("admin-client", admin_clients.poll_clients).received > 0


def test_the_figures_of_a_client_go_with_it() -> None:
    config = {**PLAYED, "group.id": "g", "client.id": "c"}
    client: Any = Consumer({**config, **ClientStatistics("consumer", config).settings()})
    assert "c" in traffic("consumer")
    client.close()
    del client
    gc.collect()
    assert "c" not in traffic("consumer")
    held = ClientStatistics("consumer", config)
    assert "c" in traffic("consumer")
    held.end()
    assert "c" not in traffic("consumer")


def test_clients_of_one_id_are_one() -> None:
    clients = [ClientStatistics("producer", {"client.id": "p"}) for _ in range(2)]
    clients[0](report(1, 20, 300))
    clients[1](report(2, 40, 500))
    assert traffic("producer")["p"] == (3, 60, 800)
    assert "p" not in traffic("consumer")


@pytest.mark.parametrize("is_closed", [True, False])
def test_bytes_of_a_client_count_as_long_as_another_of_its_id_lives(is_closed: bool) -> None:
    clients = [ClientStatistics("producer", {"client.id": "q"}) for _ in range(2)]
    for client in clients:
        client(report(1, 20, 300))
    last = clients.pop()
    for _ in range(3):
        if is_closed:
            clients[0].end()
        clients[0] = ClientStatistics("producer", {"client.id": "q"})
        clients[0](report(1, 20, 300))
    assert traffic("producer")["q"] == (2, 100, 1500)
    del clients, client
    gc.collect()
    assert [traffic("producer")["q"] for _ in range(2)] == [(1, 100, 1500)] * 2
    last.end()
    assert "q" not in traffic("producer")
    again = ClientStatistics("producer", {"client.id": "q"})
    assert traffic(again.kind)["q"] == (0, 0, 0)
