"""A cluster of two brokers, one of which is dead: what the other leads is copied, and waits for nothing."""

from __future__ import annotations

import base64
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import javaproperties
import pytest

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.copy.fetching import FetchLimits, Lane
from headrace.connectors.mirror.copy.link import Copied, Link, Range
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.embedded.kafka_broker import Broker, cluster_id
from tests.integration.copied_topics import create, new_name, numbered, records_of, write
from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.long]


class SecondBroker(Broker):
    """Another broker of a cluster, without a controller."""

    def __init__(self, data_dir: Path, first: Broker) -> None:
        super().__init__(data_dir)
        self._first = first

    def _write_configs(self, port: int) -> None:
        super()._write_configs(port)
        cluster = cluster_id(self._first.bootstrap_servers, 60)
        folder = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        meta = self.data_dir / "data" / "meta.properties"
        meta.parent.mkdir()
        meta.write_text(f"version=1\nnode.id=2\ncluster.id={cluster}\ndirectory.id={folder}\n", encoding="ascii")
        file, first = self.data_dir / "server.properties", self._first.data_dir / "server.properties"
        own = {"process.roles": "broker", "node.id": "2", "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        own["controller.quorum.voters"] = javaproperties.loads(first.read_bytes())["controller.quorum.voters"]
        properties = javaproperties.loads(file.read_bytes()) | own
        file.write_text(javaproperties.dumps(properties, timestamp=False), encoding="ascii")


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[tuple[Broker, SecondBroker]]:
    # A broker that is away keeps its partitions for as long as the test lasts.
    first = Broker(tmp_path / "first", settings={"broker.session.timeout.ms": "60000"})
    first.start()
    second = SecondBroker(tmp_path / "second", first)
    second.start()
    yield first, second
    second.kill()
    first.kill()  # its orderly stop waits for the other one


def begun(copy: Callable[[], list[Copied]]) -> tuple[list[Copied], float]:
    """The first copy that has a producer id, and how long it took: the broker that says nothing may be asked for it."""
    while True:
        began = time.monotonic()
        try:
            return copy(), time.monotonic() - began
        except RetriableError as error:
            if "gives no producer id" not in str(error):
                raise


def test_what_live_brokers_lead_is_copied_while_another_says_nothing(
    broker: str, two_brokers: tuple[Broker, SecondBroker]
) -> None:
    first, second = two_brokers
    topic = create(broker, new_name("dead"), 2)
    create(first.bootstrap_servers, topic, 2)
    records = [numbered(number) for number in range(20)]
    for number in range(2):
        write(broker, topic, records, number)
    partitions = [TopicPartition(topic, number) for number in range(2)]
    lanes = {one: Lane(one, 0) for one in partitions}
    servers = first.bootstrap_servers
    link = Link(ClientConfig("consumer", {"bootstrap.servers": broker}), "source (A)", "target (B)", FetchLimits())

    def copy() -> list[Copied]:
        ranges = [Range(one, one, -1, 19) for one in partitions]
        return link.copy(ranges, lanes, ClientConfig("producer", {"bootstrap.servers": servers}), StopToken())

    process = second.process.pid
    os.kill(process, signal.SIGSTOP)
    try:
        link.poll(lanes, 10, StopToken())
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
