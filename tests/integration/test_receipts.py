"""Places and timestamps in Kafka of the records of a source that wants to know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.plugins.contracts import Deliveries
from headrace.worker.kafka.writer import KafkaWriter, open_producer
from tests.integration.partitions import messages
from tests.integration.worker_process import Topic
from tests.unit.worker.kafka.test_writer import row, rows

pytestmark = pytest.mark.kafka

PARTITIONS = 3


def there(topic: Topic, count: int) -> dict[int, tuple[Any, ...]]:
    """By value: partition, offset and timestamp of all records."""
    found = [one for number in range(PARTITIONS) for one in messages(topic.bootstrap, topic.name, number)]
    assert len(found) == count
    return {int(one.value() or b""): (one.partition(), one.offset(), one.timestamp()[1]) for one in found}


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
