"""Writes offset syncs: pairs of source and target offsets of the same record, for checkpoints.

Decided: of each range that was copied at once, a sync for the last record and for some before it at growing distances
(`OffsetRuns.pairs`), because MirrorMaker's own store thins out older syncs in this way, too, and one sync for each 100
records, as Java writes them, makes 5,000 a second at full speed; loses: for a single place in a large backlog the sync
that Java's store may happen to keep, on the average of all places nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.formats import OffsetSync
from headrace.plugins.interop.kafka.known_brokers import KnownBrokers
from headrace.plugins.offsets import TopicPartition

log = logging.getLogger(__name__)

_MEMORY_BYTES: Final = 1 << 20
_END_S: Final = 2.0


@dataclass
class _State:
    written: tuple[int, int] | None = None
    """The offsets of the last sync."""
    delayed: tuple[int, int] | None = None
    """The offsets of the last record, if they are not worth a sync yet."""


class OffsetSyncWriter:
    """The syncs of one task; for its thread only. A failed write is logged: the next sync makes up for it."""

    def __init__(self, producer: ClientConfig, topic: str, most_lag: int) -> None:
        self._topic = topic
        self._most_lag = most_lag
        self._states: dict[TopicPartition, _State] = {}
        config = producer.librdkafka(_MEMORY_BYTES) | {"linger.ms": 5}
        self._producer: Any = Producer(config, logger=logging.getLogger(f"{__name__}.client"))
        self._brokers = KnownBrokers.of(self._producer, config)

    def arrived(self, partition: TopicPartition, offsets: Iterable[tuple[int, int]]) -> None:
        """Take pairs of source and target offsets, in order; write those that help, the last one later."""
        state = self._states.setdefault(partition, _State())
        for pair in offsets:
            if self._is_due(state.written, pair):
                self._write(partition, pair)
                state.written, state.delayed = pair, None
            else:
                state.delayed = pair
        self._poll()

    def write_delayed(self) -> None:
        """Write the delayed syncs: a consumer group that has read everything then goes on there, not before."""
        for partition, state in self._states.items():
            if state.delayed is not None:
                self._write(partition, state.delayed)
                state.written, state.delayed = state.delayed, None
        self._poll()

    def close(self) -> None:
        """Write the delayed syncs, and wait a little for them to arrive."""
        self.write_delayed()
        self._producer.flush(_END_S)

    def _poll(self) -> None:
        self._producer.poll(0)
        if self._brokers is not None:
            self._brokers.check()

    def _is_due(self, written: tuple[int, int] | None, pair: tuple[int, int]) -> bool:
        # Java's distance is one more; the pairs of a range that is copied at once are `most_lag` apart, each worth a
        # sync.
        if written is None:
            return True
        upstream, downstream = pair
        return upstream < written[0] or downstream < written[1] or downstream - written[1] >= self._most_lag

    def _write(self, partition: TopicPartition, pair: tuple[int, int]) -> None:
        sync = OffsetSync(partition.topic, partition.partition, *pair)
        try:
            self._producer.produce(self._topic, sync.value(), sync.key(), partition=0, on_delivery=self._delivered)
        except (BufferError, KafkaException) as error:
            log.warning("An offset sync of %s-%d could not be sent: %s", *partition, error)

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            log.warning(
                "An offset sync could not be written to %s: %s; consumer groups are translated less exactly until the "
                "next one",
                self._topic,
                error.str(),
            )
