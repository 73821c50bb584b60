"""Offsets of a group that a transaction is about to commit: a consumer that goes on from them waits for its end."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.plugins.errors import RetriableError
from headrace.worker.kafka.consumer_groups import stable_offsets
from tests.integration.worker_process import Topic

pytestmark = pytest.mark.kafka


def test_an_offset_counts_once_its_transaction_is_over(broker: str) -> None:
    topic, servers = Topic(broker, "stable", 2), {"bootstrap.servers": broker}
    consumer = Consumer({**servers, "group.id": topic.name})
    producer = Producer({**servers, "transactional.id": topic.name})
    partitions = [TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)]

    def known(but: str = "") -> list[int]:
        while True:
            try:
                return [one.offset for one in stable_offsets(servers, topic.name, partitions)]
            except RetriableError as error:  # one that has just been committed may be open for a moment
                if but and but in str(error):
                    raise

    try:
        assert [one < 0 for one in known()] == [True, True]
        producer.init_transactions(30)
        producer.begin_transaction()
        place = [TopicPartition(topic.name, 0, 7)]
        producer.send_offsets_to_transaction(place, consumer.consumer_group_metadata(), 30)
        opened = f"a transaction that commits offsets of {topic.name} is open"
        with pytest.raises(RetriableError, match=opened):
            known(but=opened)
        producer.abort_transaction(30)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(place, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
        first, second = known()
        assert (first, second < 0) == (7, True)
        assert stable_offsets(servers, topic.name, []) == []
    finally:
        consumer.close()
