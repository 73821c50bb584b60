"""Brokers whose certificates must not be taken: each Kafka library refuses them, and says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.kafka.client_failures import ClientFailures
from headrace.connectors.mirror.copy.fetching import FetchLimits, PartitionFetch
from headrace.connectors.mirror.copy.link import Link
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.certificates import stores_of
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.errors import refused
from tests.unit.converters.registry.scripted_registry import identity, scripted

PARTITION = TopicPartition("t", 0)


def librdkafka(client: ClientConfig) -> str:
    failures = ClientFailures()
    admin = AdminClient({**client.librdkafka(), "error_cb": failures, "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(0.1)
    return str(refused(failures, client.librdkafka(), after_s=0))


def copying(client: ClientConfig) -> str:
    link = Link(client, "source (A)", "target (B)", FetchLimits())
    try:
        with pytest.raises(RetriableError) as caught:
            link.poll({PARTITION: PartitionFetch(PARTITION, 0)}, 5, StopToken())
    finally:
        link.close()
    return str(caught.value)


@pytest.mark.parametrize("library", [librdkafka, copying])
@pytest.mark.parametrize(
    ("address", "days", "trusted", "reasons"),
    [
        ("127.0.0.1", -1, True, ("expired",)),
        ("127.0.0.2", 1, True, ("mismatch",)),
        ("127.0.0.1", 1, False, ("self-signed", "self signed", "unable to get local issuer")),
    ],
)
def test_a_wrong_certificate_is_refused_with_the_reason(
    library: Callable[[ClientConfig], str],
    address: str,
    days: int,
    trusted: bool,
    reasons: tuple[str, ...],
    tmp_path: Path,
) -> None:
    shown = identity("broker", address, days)
    (tmp_path / "trust.pem").write_text((shown if trusted else identity("another")).certificate_pem)
    with scripted((200, b""), context=shown.server_context(tmp_path)) as broker:
        settings = {
            "bootstrap.servers": broker.url.removeprefix("https://"),
            "security.protocol": "SSL",
            "ssl.truststore.location": str(tmp_path / "trust.pem"),
        }
        said = library(ClientConfig("consumer", settings))
    assert any(reason in said for reason in reasons), said


def test_a_client_of_a_changed_store_is_another(tmp_path: Path) -> None:
    store = tmp_path / "trust.pem"
    store.write_text(identity("one").certificate_pem)
    settings = {"security.protocol": "SSL", "ssl.truststore.location": str(store)}
    config = ClientConfig("admin", {"bootstrap.servers": "127.0.0.1:1", **settings}).librdkafka()
    first = stores_of(config)
    assert stores_of(config) == first
    store.write_text(identity("two").certificate_pem + "\n")
    assert stores_of(config) != first
    store.unlink()
    assert stores_of(config) == []
