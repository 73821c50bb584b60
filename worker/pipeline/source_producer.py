"""The producer of a source task: kept from one batch to the next, sized for the topics that it writes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.kafka.topic_names import is_allowed
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics
from headrace.plugins.offsets import Deliveries, PartitionResult, Stop
from headrace.worker.kafka.librdkafka import Producer
from headrace.worker.kafka.source_topics import SourceTopics
from headrace.worker.kafka.transactions import Transactions
from headrace.worker.kafka.writer import (
    BATCH_SIZE,
    CLIENT_BYTES,
    MOST_BYTES,
    OVERHEAD_BYTES,
    open_producer,
)


class ProducerSettings(NamedTuple):
    """The settings with which one batch is sent."""

    config: Mapping[str, Any]
    """librdkafka's configuration."""
    most_bytes: int
    """The largest record batch that the topics take."""

    @classmethod
    def of(cls, config: Mapping[str, Any], most_bytes: int = MOST_BYTES) -> ProducerSettings:
        """Derive them from this librdkafka configuration, for topics that take batches of `most_bytes`."""
        most = min(most_bytes, config.get("message.max.bytes", MOST_BYTES))
        size = min(config.get("batch.size", BATCH_SIZE), max(1, most - OVERHEAD_BYTES))
        return cls({**config, "batch.size": size}, most)


def producer_config(client: ClientConfig, creates_topics: bool) -> Mapping[str, Any]:
    """The librdkafka configuration; without automatic creation by brokers if the task creates topics."""
    config = client.librdkafka(CLIENT_BYTES)
    return {**config, "allow.auto.create.topics": False} if creates_topics else config


class SourceProducer:
    """Sends the rows of a source task; for the task's own thread only."""

    def __init__(
        self,
        client: ClientConfig,
        topics: SourceTopics,
        wants_deliveries: Deliveries = Deliveries.NONE,
        transactions: Transactions | None = None,
    ) -> None:
        """`wants_deliveries`: the source task's; `transactions`: those in which its batches are sent."""
        self.topics = topics
        self.client = client
        self.transactions = transactions
        self._config = producer_config(client, topics.known is not None)
        self._wants_deliveries = wants_deliveries
        self._missing: frozenset[str] = frozenset()
        self._producer: Producer | None = None
        self._opened_with: Mapping[str, Any] | None = None

    def settings(self, topics: Collection[str]) -> ProducerSettings:
        """Create these topics, and those that the last batch missed; return the settings for a batch.

        A broker that refuses a batch for its size refuses all records in it, and later ones overtake them (Invariant
        4). Errors: as `SourceTopics`.
        """
        allowed = {topic for topic in topics if is_allowed(topic)}  # a transform may rename the others
        self.topics.ensure({*allowed, *self._missing})
        return ProducerSettings.of(self._config, self.topics.most_bytes(allowed))

    def opened(self, settings: ProducerSettings) -> Producer:
        """Open a producer with these settings, or return the last batch's if it fits.

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
        """Serve the producer's reports: they queue up until it is polled."""
        if self.transactions is not None:
            self.transactions.listen()
        if self._producer is not None:
            self._producer.poll(0)

    def misses_topics(self, reached: Collection[PartitionResult]) -> bool:
        """True if the batch stopped at missing topics; the next `settings` create them."""
        known = self.topics.known
        used = {topic for one in reached if one.stop is Stop.RETRY for topic in one.topics}
        self._missing = frozenset() if known is None else frozenset(used - known)
        return bool(self._missing)

    def discard_queued(self) -> None:
        """Drop the queued records of a failed batch.

        They would be sent again, and their refusals taken for those of the next batch.
        """
        if self._producer is not None and self._producer.waiting():
            self._producer.purge()
            self._producer = None

    def close(self) -> None:
        """Send nothing more, and drop the producer: unpolled, it would keep every report."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None
