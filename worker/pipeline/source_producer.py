"""The producer of a source task: open inline from one batch to the next, sized for the topics that it writes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from headrace.config.kafka.client_config import ClientConfig
from headrace.plugins.kafka.client_statistics import ClientStatistics
from headrace.plugins.offsets import Deliveries, PartitionResult, Stop
from headrace.worker.kafka.librdkafka import Producer
from headrace.worker.kafka.source_topics import SourceTopics
from headrace.worker.kafka.topic_names import is_allowed
from headrace.worker.kafka.transactions import Transactions
from headrace.worker.kafka.writer import (
    BATCH_SIZE,
    CLIENT_BYTES,
    MOST_BYTES,
    OVERHEAD_BYTES,
    open_producer,
)


class ProducerSettings(NamedTuple):
    """How the records of one batch are sent."""

    config: Mapping[str, Any]
    """librdkafka's."""
    most_bytes: int
    """The largest record batch that the topics take."""

    @classmethod
    def of(cls, config: Mapping[str, Any], most_bytes: int = MOST_BYTES) -> ProducerSettings:
        """Those of a task's producer with this librdkafka configuration, for topics that take so much."""
        most = min(most_bytes, config.get("message.max.bytes", MOST_BYTES))
        size = min(config.get("batch.size", BATCH_SIZE), max(1, most - OVERHEAD_BYTES))
        return cls({**config, "batch.size": size}, most)


def producer_config(client: ClientConfig, creates_topics: bool) -> Mapping[str, Any]:
    """The librdkafka configuration. If the task creates topics, as `topic.creation.*` says, brokers create none."""
    config = client.librdkafka(CLIENT_BYTES)
    return {**config, "allow.auto.create.topics": False} if creates_topics else config


class SourceProducer:
    """Sends what a source task reads; for the task's own thread only."""

    def __init__(
        self,
        client: ClientConfig,
        topics: SourceTopics,
        wants_deliveries: Deliveries = Deliveries.NONE,
        transactions: Transactions | None = None,
    ) -> None:
        """`wants_deliveries`: as of the source's task; `transactions`: those that its batches are sent in."""
        self.topics = topics
        self.client = client
        self.transactions = transactions
        self._config = producer_config(client, topics.known is not None)
        self._wants_deliveries = wants_deliveries
        self._missing: frozenset[str] = frozenset()
        self._producer: Producer | None = None
        self._opened_with: Mapping[str, Any] | None = None

    def settings(self, topics: Collection[str]) -> ProducerSettings:
        """The settings for a batch to these topics, which then exist, and so do those that the last batch missed.

        A broker that refuses a batch for its size refuses all records in it, and what follows overtakes them
        (Invariant 4). Errors: as `SourceTopics`.
        """
        allowed = {topic for topic in topics if is_allowed(topic)}  # a transform may rename the others
        self.topics.ensure({*allowed, *self._missing})
        return ProducerSettings.of(self._config, self.topics.most_bytes(allowed))

    def opened(self, settings: ProducerSettings) -> Producer:
        """The producer with these settings; the one of the last batch where that can be.

        Errors: as `Transactions.open` and `begin`.
        """
        if self.transactions is not None:
            producer = self.transactions.open(settings.config, self._wants_deliveries)
            self.transactions.begin()
            return producer
        if self._producer is None or self._producer.fatal or self._opened_with != settings.config:
            statistics = ClientStatistics("producer", settings.config)
            self._producer = open_producer(settings.config, self._wants_deliveries, statistics)
            self._opened_with = settings.config
        return self._producer

    def listen(self) -> None:
        """Note what the producer reports, which it would keep until it is polled."""
        if self.transactions is not None:
            self.transactions.listen()
        if self._producer is not None:
            self._producer.poll(0)

    def misses_topics(self, reached: Collection[PartitionResult]) -> bool:
        """Whether the batch stopped at topics that did not exist; the next `settings` create them."""
        known = self.topics.known
        used = {topic for one in reached if one.stop is Stop.RETRY for topic in one.topics}
        self._missing = frozenset() if known is None else frozenset(used - known)
        return bool(self._missing)

    def discard_queued(self) -> None:
        """Drop what a failed batch left in the queue.

        It would come once more, and its refusals be taken for those of the next batch.
        """
        if self._producer is not None and self._producer.waiting():
            self._producer.purge()
            self._producer = None

    def close(self) -> None:
        """Send nothing more, and let go of the producer: unpolled, it would keep every report."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None
