"""Shows the records of all topics of a broker as they come: topic, offset, key, value and headers."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from headrace.worker.kafka.record_text import printable, text_of

_LONGEST: Final = 2_000
_TOPICS_S: Final = 2.0


class RecordView:
    """Reads every topic but Kafka's own, those that appear later, too."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        self._consumer = Consumer({**self._settings, "group.id": "headrace-run"})
        self._read: set[tuple[str, int]] = set()

    def look_for_topics(self) -> None:
        """Begin to read partitions that are new; a broker that does not answer is asked again later."""
        try:
            topics = self._consumer.list_topics(timeout=_TOPICS_S).topics
            found = {(name, number) for name, one in topics.items() if name[:2] != "__" for number in one.partitions}
            if new := sorted(found - self._read):
                self._consumer.incremental_assign([TopicPartition(*one, OFFSET_BEGINNING) for one in new])
        except KafkaException:
            return
        self._read |= found

    def lines(self, wait_s: float) -> Iterator[str]:
        """Yield a line for each record that comes within this time; at most some hundred."""
        for message in self._consumer.consume(500, wait_s):
            if message.error() is None:
                yield line_of(message)

    def written(self, group: str, topics: Collection[str]) -> tuple[int, int]:
        """Return how many records of these topics a group has committed, and how many there are.

        Errors: KafkaException.
        """
        done = there = 0
        asking = Consumer({**self._settings, "group.id": group})
        try:
            partitions = [TopicPartition(*one) for one in sorted(self._read) if one[0] in topics]
            for one in asking.committed(partitions, timeout=_TOPICS_S) if partitions else ():
                low, high = asking.get_watermark_offsets(TopicPartition(one.topic, one.partition), timeout=_TOPICS_S)
                done, there = done + max(0, one.offset - low), there + high - low
        finally:
            asking.close()
        return done, there

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()


def line_of(message: Any) -> str:
    """Show a record in one line."""
    parts = [f"{message.topic()}-{message.partition()} @{message.offset()}", f"key={shown(message.key())}"]
    parts.append(shown(message.value()))
    if headers := message.headers():
        parts.append(json.dumps({name: shown(value) for name, value in headers}, ensure_ascii=False))
    return "  ".join(parts)


def shown(data: bytes | None) -> str:
    """Show bytes as text if possible, else in hex; without characters that a terminal takes for commands."""
    if data is None:
        return "null"
    return printable(text_of(data, _LONGEST) or "")
