"""Messages that a sink takes at once, with some that Kafka's client cannot read."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message

from headrace.plugins.errors import DataError
from headrace.plugins.offsets import TopicPartition
from headrace.worker.tasks.fetched import Unreadable, cannot_be_taken, cut, reason_of, sizes

MOST = 1 << 20


class Odd:
    """As a message of confluent-kafka with a header whose name is not UTF-8: only the first call has an error."""

    def __init__(self, partition: int, offset: int) -> None:
        self._place, self.calls = (partition, offset), 0

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def error(self) -> None:
        return None

    def headers(self) -> Any:
        self.calls += 1
        assert self.calls == 1, "the second call would give a list with a null pointer"
        raise SystemError("returned a result with an exception set")


def record(partition: int, offset: int) -> Any:
    return Message(topic="t", partition=partition, offset=offset, value=b"v", headers=[("h", b"x")])


def test_a_message_whose_headers_cannot_be_read_is_not_measured() -> None:
    messages: list[Any] = [record(0, 1), Odd(0, 2), record(0, 3), Odd(1, 9)]
    assert sizes(messages) == sizes([record(0, 1), record(0, 3)])
    assert [type(one) for one in messages] == [Message, Unreadable, Message, Unreadable]
    assert sizes(messages).all == 6, "measured again, they are not asked again"


def test_a_partition_ends_before_it() -> None:
    messages: list[Any] = [record(0, 1), record(1, 5), Odd(0, 2), record(0, 3), record(1, 6)]
    taken, left = cut(messages, sizes(messages), MOST, MOST)
    assert [(one.partition(), one.offset()) for one in taken] == [(0, 1), (1, 5), (1, 6)]
    assert left == {TopicPartition("t", 0): 2}


def test_it_is_named_if_its_partition_begins_with_it() -> None:
    messages: list[Any] = [Odd(0, 2), record(0, 3)]
    taken, left = cut(messages, sizes(messages), MOST, MOST)
    assert left == {}
    assert [cannot_be_taken(one) for one in taken] == [True, False]
    with pytest.raises(DataError, match=r"t-0 at offset 2 .* not UTF-8.*PATCH"):
        raise reason_of(taken[0])
