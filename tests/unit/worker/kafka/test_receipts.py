"""The places of records: of each row its topic, partition, offset and timestamp, as its broker told them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headrace.plugins.contracts import Deliveries, PartitionResult
from headrace.worker.kafka.librdkafka import Producer
from headrace.worker.kafka.receipts import Receipts
from headrace.worker.kafka.writer import KafkaWriter
from tests.unit.worker.kafka.test_librdkafka import Played
from tests.unit.worker.kafka.test_writer import row, rows

ITS_TIME = 1234
"""The time of arrival that the broker played by librdkafka answers."""


@pytest.fixture
def played() -> Played:
    return Played(deliveries=Deliveries.ALL)


def written(producer: Producer, *batches: list[dict[str, Any]]) -> dict[int, PartitionResult]:
    writer = KafkaWriter(producer, tolerate=False, exact=True)
    for batch in batches:
        writer.write(rows(*batch))
    return writer.finish()


def places(reached: PartitionResult) -> dict[int, tuple[Any, ...]]:
    """By position of the source: topic, partition, offset and timestamp."""
    assert reached.acknowledged is not None
    found = reached.acknowledged.to_pylist()
    positions = [one["source_offset"]["position"] for one in found]
    assert positions == sorted(set(positions))
    return {
        position: tuple(one[name] for name in ("topic", "partition", "offset", "timestamp"))
        for position, one in zip(positions, found, strict=True)
    }


def there(played: Played, count: int, topic: str) -> dict[int, tuple[Any, ...]]:
    """The same as the broker has it: the value of a record is its position."""
    return {
        int(message.value()): (topic, message.partition(), message.offset(), ITS_TIME)
        for message in played.taken(count, topic)
    }


@pytest.mark.parametrize(
    "more",
    [
        lambda _: {},
        lambda number: {"timestamp": 1000 - number},
        lambda number: {"timestamp": None if number % 3 else 1000 + number},
        lambda number: {"partition": number % 2},
        lambda _: {"headers": [{"key": "h", "value": b"v"}]},
    ],
    ids=["together", "timestamps", "some_timestamps", "partitions", "headers"],
)
def test_each_row_is_told_where_it_stands(played: Played, more: Callable[[int], dict[str, Any]]) -> None:
    first = [row(number, key=b"%d" % number, **more(number)) for number in range(60)]
    later = [row(number, key=b"%d" % number, **more(number)) for number in range(60, 100)]
    found = places(written(played.producer, first, later)[0])
    assert len(found) == 100
    assert found == there(played, 100, "t")
    assert len({partition for _, partition, *_ in found.values()}) > 1
    again = places(written(played.producer, [row(100, key=b"1", **more(100))])[0])
    assert {**found, **again} == there(played, 101, "t")


def test_splits_and_topics_are_told_apart_and_dropped_rows_are_not_told(played: Played) -> None:
    batch = [row(n, split=n % 2, topic="tu"[n // 20], drop=n % 5 == 4) for n in range(40)]
    reached = written(played.producer, batch)
    assert {split: len(places(one)) for split, one in reached.items()} == {0: 16, 1: 16}
    found = {**places(reached[0]), **places(reached[1])}
    assert found == {**there(played, 16, "t"), **there(played, 16, "u")}
    assert written(played.producer, [row(1, drop=True)])[0].acknowledged is None


def test_nothing_is_told_unless_the_source_asks() -> None:
    assert written(Played().producer, [row(1)])[0].acknowledged is None


def test_the_time_of_arrival_is_the_timestamp_where_the_topic_has_that() -> None:
    receipts = Receipts()
    receipts.sending(rows(row(0, timestamp=5), row(1, timestamp=6)))
    receipts.sent(2)
    receipts.arrived("t", 3, np.array([0, 1]), np.array([7, 8]), lambda _: (99, True))
    found = receipts.of(0)
    assert found is not None
    assert found["timestamp"].to_pylist() == [99, 99]
    assert found["offset"].to_pylist() == [7, 8]


def test_the_time_of_its_own_call_is_that_of_a_row_without_one() -> None:
    receipts = Receipts()
    receipts.sending(rows(*map(row, range(5))))
    receipts.sent(2)
    receipts.sent(3)
    asked: list[int] = []

    def timestamp(index: int) -> tuple[int, bool]:
        asked.append(index)
        return 100 + index, False

    receipts.arrived("t", 0, np.array([1, 2, 4]), np.array([-1001, -1001, -1001]), timestamp)
    found = receipts.of(0)
    assert found is not None
    assert asked == [0, 0, 1], "one record of each call"
    assert found["timestamp"].to_pylist() == [100, 101, 101]
    assert found["offset"].to_pylist() == [-1, -1, -1], "a broker that acknowledges nothing tells no offset"


def test_a_row_that_was_sent_again_has_its_last_place(played: Played) -> None:
    played.refuse(10)  # MESSAGE_TOO_LARGE: the batch is sent again record by record
    found = places(written(played.producer, [row(n, partition=0) for n in range(4)])[0])
    # Rows that librdkafka had put into another request than the refused one stand there twice.
    assert found == there(played, 1 + max(offset for _, _, offset, _ in found.values()), "t")


def test_rows_that_arrived_before_they_are_sent_again_are_told_once() -> None:
    receipts, three = Receipts(), rows(*map(row, range(3)))
    for first in (0, 3):
        receipts.sending(three)
        receipts.sent(3)
        receipts.arrived("t", 0, np.arange(first, first + 3), np.arange(first, first + 3), lambda _: (1, False))
        if first == 0:
            receipts.restart()
    receipts.mark()
    receipts.restart()
    found = receipts.of(0)
    assert found is not None
    assert found["offset"].to_pylist() == [3, 4, 5]


@pytest.mark.parametrize("base", [-1, -1001])
def test_offsets_counted_up_from_none_are_not_known(base: int) -> None:
    receipts, count = Receipts(), 1100
    receipts.sending(rows(*map(row, range(count))))
    receipts.sent(count)
    receipts.arrived("t", 0, np.arange(count), np.arange(base, base + count), lambda _: (1, False))
    found = receipts.of(0)
    assert found is not None
    assert set(found["offset"].to_pylist()) == {-1}


def test_no_last_place_is_told_where_the_broker_told_no_first_one() -> None:
    played = Played(deliveries=Deliveries.LAST, acks="0")
    many = [row(n, partition=0) for n in range(1100)]
    assert written(played.producer, many)[0].deliveries == ()
    assert played.producer.arrivals == {}
