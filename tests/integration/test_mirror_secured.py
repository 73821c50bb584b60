"""Replication between clusters with TLS and logins, set as users of Java's clients set them."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

import pytest
from confluent_kafka import KafkaException

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.worker.config import WorkerConfig
from headrace.connectors.mirror.copy.batches import batches_in
from headrace.connectors.mirror.copy.fetching import FetchLimits, PartitionFetch
from headrace.connectors.mirror.copy.link import CopyProgress, CopyRange, Link
from headrace.connectors.mirror.source.cluster import ClusterAdmin
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.kafka.cluster import wait_for_cluster
from tests.integration.copied_topics import create, new_name, numbered, records_of, write
from tests.integration.mirror_process import MirrorProcess, two_clusters
from tests.integration.mirror_traffic import commit, heartbeats, offset_syncs, values, wait_checkpoints
from tests.integration.secured import (
    PLAIN,
    SCRAM_256,
    SCRAM_512,
    SECRET,
    STORE,
    USER,
    Stores,
    add_user,
    of_client,
    of_listener,
)
from tests.integration.worker_process import Topic, eventually
from tests.tcp_proxy import ProxiedBroker, TcpProxy, linked_broker
from tests.unit.converters.registry.scripted_registry import identity

GZIP = 1

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]


class Secured(NamedTuple):
    """Two clusters whose links have TLS and SASL, and those links."""

    stores: Stores
    source: ProxiedBroker
    source_link: TcpProxy
    target: ProxiedBroker
    target_link: TcpProxy


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    stores = Stores(folder / "stores")
    listener = of_listener(stores, "link")
    with (
        linked_broker(folder / "a", listener, "SASL_SSL") as (source, source_link),
        linked_broker(folder / "b", listener, "SASL_SSL") as (target, target_link),
    ):
        for broker in (source, target):
            add_user(broker.bootstrap_servers)
        yield Secured(stores, source, source_link, target, target_link)


def test_records_groups_and_heartbeats_go_over_tls(secured: Secured, tmp_path: Path) -> None:
    a, b = secured.source.bootstrap_servers, secured.target.bootstrap_servers
    # Its batches are copied as they are, by kafka-python. Its records are old, and are not to be dropped for it.
    whole = Topic(a, "whole", config={"retention.ms": "-1"})
    single = create(a, new_name("single"), config={"message.timestamp.type": "LogAppendTime"})  # by librdkafka
    inline = create(a, new_name("inline"))
    records = [numbered(number) for number in range(500)]
    for topic in (whole.name, single, inline):
        write(a, topic, records, **{"compression.type": "gzip"})
    commit(whole, "readers", [250])
    # One cluster by two names, so that each mechanism and each format of a store is used.
    settings = two_clusters(secured.source.link_servers, secured.target.link_servers) | {
        "clusters": "A, B, C",
        "C.bootstrap.servers": secured.source.link_servers,
        "A->B.enabled": "true",
        "C->B.enabled": "true",
        "A->B.topics": f"{whole.name},{single}",
        "C->B.topics": inline,
        "emit.heartbeats.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
    }
    in_the_file = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": secured.stores.pem("trust"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": secured.stores.pem("key").partition("\\n-----BEGIN CERT")[0],
        "ssl.keystore.certificate.chain": secured.stores.pem("trust"),
    }
    clients = {
        "A": of_client(secured.stores.of("JKS"), SCRAM_512),
        "B": of_client(secured.stores.of("PKCS12"), SCRAM_256),
        "C": of_client(in_the_file, PLAIN),
    }
    settings |= {f"{alias}.{key}": value for alias, client in clients.items() for key, value in client.items()}
    settings = {key: value.replace("\\", "\\\\") for key, value in settings.items()}
    with MirrorProcess(tmp_path, settings) as process:
        for topic in (f"A.{whole.name}", f"A.{single}", f"C.{inline}"):
            eventually(lambda topic=topic: len(values(b, topic)) >= len(records), 120, process.log)
            written = records_of(a, topic.partition(".")[2])
            assert [one.content for one in records_of(b, topic)] == [one.content for one in written]
        wait_checkpoints(b, "A", "readers", [250], process.log)
        eventually(lambda: {"A", "C"} <= {beat.source for beat in heartbeats(b)}, 60, process.log)
        assert offset_syncs(a, "B")
        assert codecs(secured.target, f"A.{whole.name}") == codecs(secured.target, f"C.{inline}") == {GZIP}
        assert codecs(secured.target, f"A.{single}") == {0}, "this one went record by record"
        assert process.stop() == 0
        log = process.log()
    assert SECRET not in log
    assert STORE not in log


def codecs(broker: Broker, topic: str) -> set[int]:
    """The compressions of the batches in a topic of one partition."""
    (segment,) = (broker.data_dir / "data" / f"{topic}-0").glob("*.log")
    return {batch.codec for batch in batches_in(memoryview(segment.read_bytes()))}


class Copying:
    """One partition, copied by a link of the test's own."""

    def __init__(self, secured: Secured, source_servers: str = "", **source: str) -> None:
        self.topic = create(secured.source.bootstrap_servers, new_name("copying"))
        create(secured.target.bootstrap_servers, self.topic)
        self.partition = TopicPartition(self.topic, 0)
        self.fetches = {self.partition: PartitionFetch(self.partition, 0)}
        login = of_client(secured.stores.of("PEM"), SCRAM_512)
        consumer = {"bootstrap.servers": source_servers or secured.source.link_servers, **login, **source}
        self._target = ClientConfig("producer", {"bootstrap.servers": secured.target.link_servers, **login})
        self.link = Link(ClientConfig("consumer", consumer), "source (A)", "target (B)", FetchLimits())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()

    def poll(self, wait_s: float = 10) -> bool:
        """True if there is something to copy."""
        self.link.poll(self.fetches, wait_s, StopToken())
        return bool(self.fetches[self.partition].waiting)

    def copy(self, after: int, upto: int) -> CopyProgress:
        """Copy these offsets."""
        planned = CopyRange(self.partition, self.partition, after, upto)
        (copied,) = self.link.copy([planned], self.fetches, self._target, StopToken())
        return copied


def test_a_refused_login_is_told_with_who_and_how(secured: Secured) -> None:
    wrong = of_client({}, SCRAM_256, "no-such-password")
    with Copying(secured, **wrong) as copying, pytest.raises(RetriableError) as caught:
        copying.poll()
    said = str(caught.value)
    assert f"source (A) cluster at {secured.source.link_servers}: the login" in said
    assert f"of user {USER} by {SCRAM_256} is refused" in said
    assert "sasl.jaas.config" in said
    assert "no-such-password" not in said


def test_admin_clients_tell_refusals_from_brokers_that_are_away(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = {"bootstrap.servers": secured.source.link_servers}
    wrong = of_client(secured.stores.of("PEM"), PLAIN, "no-such-password")
    with pytest.raises(KafkaException, match=f"login of user {USER} by PLAIN is refused.*sasl.jaas.config"):
        ClusterAdmin("A", ClientConfig("admin", {**servers, **wrong}), 2, StopToken()).listed()
    other = tmp_path / "other.pem"
    other.write_text(identity("other").certificate_pem)
    untrusting = {**of_client(secured.stores.of("PEM"), PLAIN), "ssl.truststore.location": str(other)}
    with pytest.raises(KafkaException, match=r"TLS cannot begin.*certificate.*look at"):
        ClusterAdmin("A", ClientConfig("admin", {**servers, **untrusting}), 2, StopToken()).listed()
    converters = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.json.JsonConverter")
    files = {"offset.storage.file.filename": str(tmp_path / "offsets")}
    worker = WorkerConfig.standalone({**converters, **files, **servers, **wrong})
    stop = StopToken()
    with ThreadPoolExecutor(1) as thread:  # a worker of this cluster waits
        waiting = thread.submit(wait_for_cluster, worker, stop)
        try:
            eventually(lambda: "cannot be used yet" in caplog.text, 60)
        finally:
            stop.set()
        assert waiting.result(60) is None
    assert f"cannot be used yet, waiting: the login of user {USER} by PLAIN is refused" in caplog.text
    assert "no-such-password" not in caplog.text


def test_a_certificate_that_is_not_trusted_is_told_with_what_to_look_at(secured: Secured, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(identity("other").certificate_pem)
    told = pytest.raises(RetriableError, match=r"is not trusted.*ssl\.truststore\.location")
    with Copying(secured, **{"ssl.truststore.location": str(other)}) as copying, told:
        copying.poll()


def test_a_broker_that_accepts_and_says_nothing_is_told_within_the_time_limit(secured: Secured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with Copying(secured, servers) as copying, pytest.raises(RetriableError) as caught:
            copying.poll()
        assert time.monotonic() - began < 30, "the time limit of a request"
        assert f"{servers} accepts connections and does not answer to TLS" in str(caught.value)


def test_a_lost_connection_repeats_no_batch(secured: Secured) -> None:
    a, b = secured.source.bootstrap_servers, secured.target.bootstrap_servers
    with Copying(secured) as copying, ThreadPoolExecutor(1) as thread:
        records = [numbered(number) for number in range(40)]
        for first in range(0, len(records), 10):  # each a batch
            write(a, copying.topic, records[first : first + 10])
        assert copying.poll()
        assert copying.copy(-1, 9).upto == 9
        secured.target_link.slow(delay_ms=500)
        rest = thread.submit(copying.copy, 9, 39)
        # They are there, and the answer is still on its way.
        eventually(lambda: len(values(b, copying.topic)) == 40, 60)
        secured.target_link.cut()
        copied = rest.result(60)
        assert (copied.upto, copied.runs.count) == (None, 0), "the answer did not come"
        secured.target_link.slow()
        secured.target_link.heal()

        def again() -> bool:
            copied = copying.copy(9, 39)
            assert copied.upto in (None, 39)
            return copied.upto == 39

        eventually(again, 60, every_s=0.2)
        assert [one.content for one in records_of(b, copying.topic)] == [one.content for one in records]


def test_brokers_that_moved_are_found_by_the_bootstrap_servers(secured: Secured) -> None:
    source = secured.source
    with (
        TcpProxy(source.link_port) as moved,
        Copying(secured, f"{source.link_servers},127.0.0.1:{moved.port}") as copying,
    ):
        write(source.bootstrap_servers, copying.topic, [numbered(0)])
        assert copying.poll()
        copying.copy(-1, 0)
        source.stop()
        secured.source_link.cut()
        source.behind = moved.port
        source.start()
        write(source.bootstrap_servers, copying.topic, [numbered(1)])

        def found() -> bool:
            copying.fetches[copying.partition].clear(1)
            with contextlib.suppress(RetriableError):
                return copying.poll(0.5)
            return False

        eventually(found, 60, every_s=0.2)
