"""Where Kafka has the records of a source that wants to know, timestamps included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.plugins.contracts import Deliveries
from headrace.worker.kafka.writer import KafkaWriter, open_producer
from tests.integration.worker_process import Topic
from tests.unit.worker.kafka.test_writer import row, rows

pytestmark = pytest.mark.kafka

PARTITIONS = 3


def there(topic: Topic, count: int) -> dict[int, tuple[Any, ...]]:
    """By value: partition, offset and timestamp of all records."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "look"})
    consumer.assign([TopicPartition(topic.name, number, 0) for number in range(PARTITIONS)])
    found: dict[int, tuple[Any, ...]] = {}
    try:
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, f"{len(found)} of {count} records are there"
            assert message.error() is None, message.error()
            found[int(message.value())] = (message.partition(), message.offset(), message.timestamp()[1])
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("of_topic", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize(
    "more",
    [
        lambda _: {},
        lambda number: {"timestamp": 1_700_000_000_000 - number},
        lambda number: {"timestamp": None if number % 3 else 1_700_000_000_000 + number},
        lambda _: {"headers": [{"key": "h", "value": b"v"}]},
    ],
    ids=["without", "own", "some", "headers"],
)
def test_each_record_has_the_timestamp_that_its_topic_has(
    broker: str, of_topic: str, more: Callable[[int], dict[str, Any]]
) -> None:
    topic = Topic(broker, "receipts", PARTITIONS, {"message.timestamp.type": of_topic})
    writer = KafkaWriter(open_producer({"bootstrap.servers": broker}, Deliveries.ALL), tolerate=False, exact=True)
    for begin in range(0, 3000, 1000):
        given = range(begin, begin + 1000)
        writer.write(rows(*(row(number, topic=topic.name, key=b"%d" % number, **more(number)) for number in given)))
    acknowledged = writer.finish()[0].acknowledged
    assert acknowledged is not None
    found = {
        one["source_offset"]["position"]: (one["partition"], one["offset"], one["timestamp"])
        for one in acknowledged.to_pylist()
    }
    assert found == there(topic, 3000)
    topic.delete()
