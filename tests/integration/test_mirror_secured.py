"""Replication between clusters with TLS and logins, set as users of Java's clients set them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.connectors.mirror.copy.batches import batches_in
from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.copied_topics import create, new_name, numbered, records_of, write
from tests.integration.mirror_process import MirrorProcess, two_clusters
from tests.integration.mirror_traffic import commit, heartbeats, offset_syncs, values, wait_checkpoints
from tests.integration.secured import (
    PLAIN,
    SCRAM_256,
    SCRAM_512,
    SECRET,
    STORE,
    Stores,
    add_user,
    of_client,
    of_listener,
)
from tests.integration.worker_process import Topic, eventually
from tests.tcp_proxy import ProxiedBroker, TcpProxy, linked_broker

GZIP = 1

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


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
    whole = Topic(a, "whole")  # its batches are copied as they are, by kafka-python
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
        eventually(lambda: {"A", "C"} <= {beat.source for beat in heartbeats(b)}, 30, process.log)
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
