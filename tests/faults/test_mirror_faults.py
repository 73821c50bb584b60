"""Replication whose link, process or brokers go away resumes: nothing lost, order kept, and `verify` says equal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from typer.testing import CliRunner

from headrace.connectors.mirror.verify.command import app
from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.copied_topics import create, new_name, numbered, records_of, write
from tests.integration.mirror_process import MirrorProcess, two_clusters
from tests.integration.worker_process import eventually
from tests.tcp_proxy import ProxiedBroker, TcpProxy, linked_broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


class Replication:
    """Clusters A and B, a mirror process that reaches A over a link, and a topic of the test's own."""

    def __init__(self, source: ProxiedBroker, link: TcpProxy, target: Broker, process: MirrorProcess) -> None:
        self.source, self.link, self.target, self.process = source, link, target, process
        self.written = 0
        self.topic = create(source.bootstrap_servers, new_name("faults"))
        self.copy = f"A.{self.topic}"

    def write(self, count: int) -> None:
        """So many records more are at A, each different."""
        numbers = range(self.written, self.written + count)
        write(self.source.bootstrap_servers, self.topic, map(numbered, numbers))
        self.written += count

    def copied(self) -> int:
        """The number of records that B has; none while it does not answer."""
        consumer = Consumer({"bootstrap.servers": self.target.bootstrap_servers, "group.id": "end"})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(self.copy, 0), timeout=60)[1])
        except KafkaException:
            return 0
        finally:
            consumer.close()

    def verified(self, *arguments: str) -> tuple[int, str]:
        """Exit code and report of `headrace mirror verify`."""
        servers = ["--source-bootstrap", self.source.bootstrap_servers]
        servers += ["--target-bootstrap", self.target.bootstrap_servers, "--timeout", "10"]
        result = CliRunner().invoke(app, ["verify", "A", "B", *servers, "--topic", self.topic, *arguments])
        return result.exit_code, result.output

    def holds(self) -> None:
        """Nothing is lost, and what comes first comes in order."""
        eventually(lambda: self.verified()[0] == 0, 180, lambda: self.verified()[1] + self.process.log()[-4000:])
        ours = [one.content for one in records_of(self.source.bootstrap_servers, self.topic)]
        theirs = [one.content for one in records_of(self.target.bootstrap_servers, self.copy)]
        assert len(ours) == self.written
        assert list(dict.fromkeys(theirs)) == ours
        code, said = self.verified("--hash")
        assert code == 0, said
        assert "1 of 1 partitions equal" in said


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProxiedBroker, TcpProxy]]:
    with linked_broker(tmp_path_factory.mktemp("linked-kafka")) as found:
        yield found


@pytest.fixture(scope="module")
def process(
    linked: tuple[ProxiedBroker, TcpProxy], second_broker_process: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirrorProcess]:
    settings = two_clusters(linked[0].link_servers, second_broker_process.bootstrap_servers)
    small = {"fetch.max.bytes": "262144", "max.partition.fetch.bytes": "262144"}  # so that much is yet to come
    settings |= {f"A.consumer.{name}": value for name, value in small.items()}
    settings |= {"A->B.enabled": "true", "A->B.topics": "faults-.*", "emit.heartbeats.enabled": "false"}
    with MirrorProcess(tmp_path_factory.mktemp("mirror"), settings) as process:
        yield process.wait_ready(120)


@pytest.fixture
def replication(
    linked: tuple[ProxiedBroker, TcpProxy], second_broker_process: Broker, process: MirrorProcess, tmp_path: Path
) -> Iterator[Replication]:
    source, link = linked
    for broker in (source, second_broker_process):
        if not broker.is_running:
            broker.start()
    yield Replication(source, link, second_broker_process, process)
    link.heal()
    link.slow()


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.parametrize("away_s", [5, 60])
def test_a_link_that_is_cut_for_a_while(replication: Replication, away_s: float) -> None:
    replication.write(1000)
    eventually(lambda: replication.copied() >= 1000, 120, replication.process.log)
    replication.link.slow(bytes_per_s=500_000, delay_ms=20)
    replication.write(100_000)
    eventually(lambda: replication.copied() > 1000, 60, replication.process.log, every_s=0.05)
    replication.link.cut()
    replication.write(1000)
    time.sleep(away_s)  # that it is away for so long is what is tried
    assert replication.copied() < replication.written, "it was cut while there was something to copy"
    replication.link.slow()
    replication.link.heal()
    replication.holds()


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.soak)])
def test_a_mirror_process_that_is_killed_while_it_copies(replication: Replication, times: int) -> None:
    for _ in range(times):
        before = replication.written
        replication.link.slow(bytes_per_s=500_000)
        replication.write(100_000)
        eventually(lambda before=before: replication.copied() > before, 120, replication.process.log, every_s=0.05)
        assert replication.copied() < replication.written, "it was killed while there was something to copy"
        replication.process.kill()
        replication.link.slow()
        replication.process.start()
        replication.process.wait_ready(120)
        replication.holds()


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["source", "target"])
def test_a_broker_that_is_killed_while_records_are_copied(replication: Replication, cluster: str) -> None:
    broker = replication.source if cluster == "source" else replication.target
    replication.link.slow(bytes_per_s=500_000)
    replication.write(100_000)
    eventually(lambda: replication.copied() > 0, 120, replication.process.log, every_s=0.05)
    assert replication.copied() < replication.written, "it was killed while there was something to copy"
    broker.kill()
    replication.link.slow()
    broker.start()
    replication.write(100)
    replication.holds()
