"""The messages that a sink's consumer takes at once, bounded by their decompressed size.

librdkafka decompresses the whole answer of a broker before it gives the first record of it, and zstd can make 32,768
bytes of one. So an answer is small, unless the user's settings give its size:

    the answer of a broker   16 KiB compressed, or one record batch: brokers do not split one
    messages taken at once   `cut`: about twice the wanted bytes, or one record
    one record               `sink.max.record.bytes`, else the task fails

Decided: 16 KiB, because its worst is then half a GB of zstd, less than the one batch that has to be taken anyway (of
gzip, 1 MB may become 1 GB), and from near brokers it is no slower (measured: batches of 300 bytes, 16 KB and 1 MB);
loses: from distant brokers inline gets 16 KiB, or one batch, for each round trip. A backlog is read by jobs, whose
Kafka client decompresses record by record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import methodcaller
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError

from headrace.plugins.errors import DataError
from headrace.plugins.interop.kafka.messages import odd_header
from headrace.plugins.offsets import TopicPartition

ANSWER_BYTES: Final = 16 << 10
"""The most of one answer of a broker, unless it is one larger batch."""
_KEY, _HEADERS = methodcaller("key"), methodcaller("headers")
_SKIP: Final = (
    "To pass over it, stop the connector, set the offset of the partition to one after it (PATCH "
    "/connectors/<name>/offsets) and resume the connector"
)


class RecordTooLarge(Exception):
    """A record, or a record batch, that cannot be taken."""


class Cut(NamedTuple):
    """Messages, divided."""

    taken: Sequence[Any]
    left: Mapping[TopicPartition, int]
    """The offset to go on at in each partition with messages left."""


class Fetched(NamedTuple):
    """A judgement of what a sink takes at once."""

    are_few: bool
    """True for a small batch."""
    is_full: bool
    """True if many more are likely."""
    bytes: int
    """Of keys, values and headers."""


class Unreadable:
    """Stands for a message whose headers cannot be read."""

    def __init__(self, message: Any) -> None:
        self.topic, self.partition, self.offset = message.topic, message.partition, message.offset
        self.reason = odd_header(message)

    def error(self) -> KafkaError:
        """As of a message that is no record."""
        return KafkaError(KafkaError._BAD_MSG)

    def key(self) -> None:
        """None."""

    def headers(self) -> None:
        """None."""

    def __len__(self) -> int:
        return 0


class Sizes(NamedTuple):
    """The bytes of messages, decompressed."""

    all: int
    largest: int
    """An upper bound of the largest message."""


def sizes(messages: list[Any]) -> Sizes:
    """Measure keys, values and headers; puts an `Unreadable` in place of a message whose headers cannot be read."""
    headers: list[Any] = []
    while len(headers) < len(messages):
        try:
            headers.extend(map(_HEADERS, messages[len(headers) :]))
        except SystemError:  # as in `headers_of`; `extend` has kept those before
            messages[len(headers)] = Unreadable(messages[len(headers)])
    parts = [
        [*map(len, messages)],
        [*map(len, filter(None, map(_KEY, messages)))],
        [*map(_of_headers, filter(None, headers))],
    ]
    return Sizes(sum(map(sum, parts)), sum(max(part, default=0) for part in parts))


def cut(messages: Sequence[Any], their: Sizes, most_bytes: int, largest: int) -> Cut:
    """Cut the messages at so many bytes, or one; a partition also ends before a record that cannot be taken.

    `largest`: the most bytes of one record. Errors: RecordTooLarge if a partition begins with a larger one.
    """
    if their.all <= most_bytes and their.largest <= largest and not any(map(cannot_be_taken, messages)):
        return Cut(messages, {})
    taken: list[Any] = []
    left: dict[TopicPartition, int] = {}
    begun: set[TopicPartition] = set()
    size = 0
    for message in messages:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF and not cannot_be_taken(message):
            taken.append(message)
            continue
        partition = TopicPartition(message.topic(), message.partition())
        if partition in left:
            continue
        size += (own := sizes([message]).all) if error is None else 0
        is_bad = own > largest if error is None else cannot_be_taken(message)
        if is_bad and partition not in begun and error is None:
            raise RecordTooLarge(_too_large(message, own, largest))
        if begun and (size > most_bytes or (is_bad and partition in begun)):
            left[partition] = message.offset()
            continue
        begun.add(partition)
        taken.append(message)
    return Cut(taken, left)


def cannot_be_taken(message: Any) -> bool:
    """True for a record, or a batch, that Kafka's client cannot read."""
    error = message.error()
    return isinstance(message, Unreadable) or (error is not None and error.code() == KafkaError._BAD_COMPRESSION)


def reason_of(message: Any) -> DataError | RecordTooLarge:
    """Return the error for a message that cannot be taken."""
    if isinstance(message, Unreadable):
        return message.reason
    at = f"{message.topic()}-{message.partition()}"
    return RecordTooLarge(
        f"The record batch at offset {message.offset()} of {at} cannot be decompressed: it is damaged, or too large "
        "once decompressed (a batch of zstd from 33 to 100 MB on, as it was compressed). Let its producer send smaller "
        f"batches. {_SKIP}. Kafka's client says: {message.error().str()}"
    )


def _too_large(message: Any, size: int, largest: int) -> str:
    at = f"{message.topic()}-{message.partition()}"
    return (
        f"The record at offset {message.offset()} of {at} has {size} bytes once decompressed, more than this worker's "
        f"sink.max.record.bytes={largest}. Raise that, and spark.driver.memory with it. {_SKIP}"
    )


def _of_headers(headers: Sequence[tuple[str, bytes | None]]) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers)
