"""What a sink connector's consumer group has committed."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import ConsumerGroupTopicPartitions

from headrace.config import clients
from headrace.config.connector import sink_group
from headrace.config.worker import WorkerConfig
from headrace.worker.admin import admin_client
from headrace.worker.herder import Offset


def group_offsets(config: WorkerConfig, connector: str) -> Sequence[Offset]:
    """Each partition's committed offset, as `GET /connectors/{name}/offsets` shows it; none for an unknown group."""
    admin = admin_client(clients.admin(config, {"name": connector}).librdkafka())
    asked = ConsumerGroupTopicPartitions(sink_group(connector))
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    return [
        ({"kafka_topic": p.topic, "kafka_partition": p.partition}, {"kafka_offset": p.offset})
        for p in answer.result().topic_partitions
        if p.offset >= 0
    ]
