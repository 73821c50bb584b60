"""What a sink connector's consumer group has committed."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from headrace.config import clients
from headrace.config.connector import sink_group
from headrace.config.worker import WorkerConfig
from headrace.worker.herder import Offset


def group_offsets(config: WorkerConfig, connector: str) -> Sequence[Offset]:
    """Each partition's committed offset, as `GET /connectors/{name}/offsets` shows it; none for an unknown group."""
    quiet = {"log_level": 3}  # it says that it was closed while it still waited for news
    admin = AdminClient(clients.admin(config, {"name": connector}).librdkafka() | quiet)
    asked = ConsumerGroupTopicPartitions(sink_group(connector))
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    return [
        ({"kafka_topic": p.topic, "kafka_partition": p.partition}, {"kafka_offset": p.offset})
        for p in answer.result().topic_partitions
        if p.offset >= 0
    ]
