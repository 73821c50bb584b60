"""A cluster of two brokers, one dead: what the other leads is copied, and waits for nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.copy.fetching import FetchLimits, PartitionFetch
from headrace.connectors.mirror.copy.link import CopyProgress, CopyRange, Link
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.embedded.kafka_broker import Broker
from tests.brokers_apart import BrokerApart
from tests.integration.copied_topics import create, new_name, numbered, records_of, write
from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.long]


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[tuple[Broker, BrokerApart]]:
    # A broker that is away keeps its partitions for as long as the test lasts.
    first = Broker(tmp_path / "first", settings={"broker.session.timeout.ms": "60000"})
    first.start()
    second = BrokerApart(tmp_path / "second", first)
    second.start()
    yield first, second
    second.kill()
    first.kill()  # its orderly stop waits for the other one


def begun(copy: Callable[[], list[CopyProgress]]) -> tuple[list[CopyProgress], float]:
    """The first copy that has a producer id, and how long it took: the broker that says nothing may be asked for it."""
    while True:
        began = time.monotonic()
        try:
            return copy(), time.monotonic() - began
        except RetriableError as error:
            if "gives no producer id" not in str(error):
                raise


@pytest.mark.soak
def test_what_live_brokers_lead_is_copied_while_another_says_nothing(
    broker: str, two_brokers: tuple[Broker, BrokerApart]
) -> None:
    first, second = two_brokers
    topic = create(broker, new_name("dead"), 2)
    create(first.bootstrap_servers, topic, 2)
    records = [numbered(number) for number in range(20)]
    for number in range(2):
        write(broker, topic, records, number)
    partitions = [TopicPartition(topic, number) for number in range(2)]
    fetches = {one: PartitionFetch(one, 0) for one in partitions}
    servers = first.bootstrap_servers
    link = Link(ClientConfig("consumer", {"bootstrap.servers": broker}), "source (A)", "target (B)", FetchLimits())

    def copy() -> list[CopyProgress]:
        ranges = [CopyRange(one, one, -1, 19) for one in partitions]
        return link.copy(ranges, fetches, ClientConfig("producer", {"bootstrap.servers": servers}), StopToken())

    process = second.process.pid
    os.kill(process, signal.SIGSTOP)
    try:
        link.poll(fetches, 10, StopToken())
        copied, took_s = begun(copy)
        assert took_s < 10, "it waits for no time limit of a connection or request"
        (live,) = [one for one, result in zip(partitions, copied, strict=True) if result.upto == 19]
        (stuck,) = [result for result in copied if result.upto is None]
        assert "broker 2 does not answer yet" in (stuck.why or "")
        assert len(records_of(servers, topic, live.partition)) == 20
        os.kill(process, signal.SIGCONT)
        partitions.remove(live)
        eventually(lambda: copy()[0].upto == 19, 60)
        assert len(records_of(servers, topic, partitions[0].partition)) == 20
    finally:
        os.kill(process, signal.SIGCONT)
        link.close()
