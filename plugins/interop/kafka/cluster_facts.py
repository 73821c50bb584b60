"""Asks a Kafka cluster for the facts that lint judges by: brokers, topics and their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from headrace.config.lint.view import ClusterFacts
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.admin_clients import admin_client

_TIMEOUT_S: Final = 5.0


def cluster_facts(client: Mapping[str, Any]) -> ClusterFacts:
    """Return the facts of the cluster that this admin client reaches, in one request. Errors: RetriableError."""
    try:
        found = admin_client(client).list_topics(timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise RetriableError(f"{client['bootstrap.servers']} does not answer: {error.args[0].str()}") from error
    partitions = {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}
    return ClusterFacts(len(found.brokers), partitions)
