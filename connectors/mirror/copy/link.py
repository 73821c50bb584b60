"""The link between two clusters: copies ranges of partitions, as whole record batches.

    link.poll(fetches, …)      source cluster ─▶ fetches: new batches, and the end of each partition
    link.copy(ranges, …)     fetches ─▶ outlets ─▶ target cluster: each range up to its end, or to an error

An owner's thread drives the event loop for as long as it is in one of these calls; between them nothing moves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafka import errors
from kafka.future import Future

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.copy.batches import RecordBatch
from headrace.connectors.mirror.copy.compression import Codec
from headrace.connectors.mirror.copy.connection import ClusterConnection
from headrace.connectors.mirror.copy.fetching import Fetcher, FetchLimits, PartitionFetch
from headrace.connectors.mirror.copy.producing import BatchProducer, Outlet
from headrace.connectors.mirror.copy.runs import OffsetRuns
from headrace.plugins.interop.kafka.kafka_python_internals import NetworkSelector
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

_LOOK_MS: Final = 100
"""A stop, or a broker that takes requests again, is noticed within this time."""
_STOP_S: Final = 2.0
"""A stop waits so long for batches on their way: those that arrived need not be sent again."""
_NOT_AS_A_WHOLE: Final = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.CorruptRecordError,
    errors.UnsupportedForMessageFormatError,
    errors.UnsupportedCompressionTypeError,
)
"""Refusals that may concern single records, or their packing: record by record they may be taken."""


_ADVICE: Final = {
    errors.TopicAuthorizationFailedError: "grant this connector's user Read on topics of the source, and Write on "
    "those of the target",
    errors.UnknownTopicOrPartitionError: "the topic is not there: the connector looks for topics, and creates those of "
    "the target, every refresh.topics.interval.seconds",
    errors.UnknownTopicIdError: "the topic was deleted; where there is another of its name, that is copied next",
    errors.SaslAuthenticationFailedError: "the login is refused: look at this cluster's sasl.mechanism, and at the "
    "user and password in its sasl.jaas.config",
    errors.NodeNotReadyError: "see that this broker runs and can be reached from here",
    errors.KafkaStorageError: "look at the disks of the brokers",
    errors.NotEnoughReplicasError: "too few replicas are in sync for min.insync.replicas: look at the brokers",
    errors.NotEnoughReplicasAfterAppendError: "too few replicas are in sync for min.insync.replicas: look at the "
    "brokers",
}


class CopyRange(NamedTuple):
    """A range of a source partition to copy: the offsets `(after, upto]`."""

    source: TopicPartition
    target: TopicPartition
    after: int
    upto: int
    topic_id: UUID | None = None
    """The topic id of the source partition."""


@dataclass
class CopyProgress:
    """The result of copying a range."""

    upto: int | None = None
    """Everything up to this source offset is durable, or nothing to be copied; None: nothing was passed."""
    runs: OffsetRuns = field(default_factory=OffsetRuns)
    bytes: int = 0
    timestamp: int = -1
    """The greatest of the last batch; units: milliseconds since 1970."""
    not_whole: bool = False
    """True if the next records can be copied only one by one."""
    why: str | None = None
    """The reason why it ended early."""


@dataclass
class _Way:
    """One range on its way."""

    range: CopyRange
    fetch: PartitionFetch
    outlet: Outlet
    result: CopyProgress = field(default_factory=CopyProgress)
    ended: bool = False
    """Nothing more is sent."""
    passed: int | None = None
    """After all was sent: nothing up to this offset is left to send."""

    @property
    def done(self) -> bool:
        """True if nothing is under way any more."""
        return self.ended and not self.outlet.in_flight


class Link:
    """Connections to two clusters, and the fetches between them; for one thread."""

    def __init__(
        self,
        source: ClientConfig,
        source_name: str,
        target_name: str,
        limits: FetchLimits,
    ) -> None:
        """The names of the clusters stand in errors."""
        # A large answer may take longer to sort than kafka-python's loop expects of a step.
        self._net = NetworkSelector(slow_task_threshold_secs=0)
        self._target_name = target_name
        read_committed = source["isolation.level"] == "read_committed"
        self._fetcher = Fetcher(ClusterConnection(self._net, source, source_name), read_committed, limits)
        self._producer: BatchProducer | None = None
        self._wake: Any = None

    # -- fetches
    # ---------------------------------------------------------------------------------------------------------

    def poll(self, fetches: Mapping[TopicPartition, PartitionFetch], wait_s: float, stop: StopToken) -> None:
        """Let these fetches learn what is new, waiting so long for the first news; errors are left in the fetches.

        The same fetches come in the same mapping each time, others in another one; `look` ends the wait after a stop.

        Errors: RetriableError if the source cluster does not answer.
        """
        self._net.run(self._poll, fetches, time.monotonic() + wait_s, stop)

    async def _poll(self, fetches: Mapping[TopicPartition, PartitionFetch], until: float, stop: StopToken) -> None:
        await self._fetcher.know(fetches)
        while True:
            self._top_up(fetches)
            if self.news(fetches):
                return
            left_ms = (until - time.monotonic()) * 1000
            if left_ms <= 0 or stop.is_set():
                return
            # A broker that takes no requests for a while does not tell when it does again.
            await self._woken(left_ms if self._fetcher.asks_all else min(left_ms, _LOOK_MS))

    def look(self) -> None:
        """Have the waiting call check if it was asked to stop; any thread may call."""
        self._net.call_soon_threadsafe(lambda: self._notify(None))

    def news(self, fetches: Mapping[TopicPartition, PartitionFetch]) -> list[TopicPartition]:
        """The fetches among these that have batches waiting, or an error."""
        found = []
        for one in self._fetcher.news & fetches.keys():
            if fetches[one].waiting or fetches[one].error is not None:
                found.append(one)
            else:
                self._fetcher.news.discard(one)
        return found

    def _top_up(
        self, fetches: Mapping[TopicPartition, PartitionFetch], needed: Collection[TopicPartition] = ()
    ) -> None:
        for future in self._fetcher.top_up(fetches, needed):
            future.add_both(self._notify)

    def _notify(self, _: Any) -> None:
        if self._wake is not None and not self._wake.is_done:
            self._wake.success(None)

    async def _woken(self, wait_ms: float) -> None:
        """Wait until something arrives, so long at most."""
        self._wake = Future()
        await self._fetcher.cluster.settled(self._wake, wait_ms)

    # -- copying -------------------------------------------------------------------------------------------------------

    def copy(
        self,
        ranges: Iterable[CopyRange],
        fetches: Mapping[TopicPartition, PartitionFetch],
        target: ClientConfig,
        stop: StopToken,
    ) -> list[CopyProgress]:
        """Copy these ranges to the cluster of this producer; return how far each got. Other fetches go on being filled.

        Errors: RetriableError if one of the clusters does not answer.
        """
        if self._producer is None:
            self._producer = BatchProducer(ClusterConnection(self._net, target, self._target_name), target)
        producer = self._producer
        ways = [_Way(one, fetches[one.source], Outlet(one.target)) for one in ranges]
        try:
            self._net.run(self._copy, producer, ways, fetches, stop)
        except BaseException:
            producer.abandon()
            raise
        return [way.result for way in ways]

    async def _copy(
        self,
        producer: BatchProducer,
        ways: Collection[_Way],
        fetches: Mapping[TopicPartition, PartitionFetch],
        stop: StopToken,
    ) -> None:
        await self._fetcher.know(fetches)
        await producer.cluster.know({way.range.target.topic for way in ways})
        await producer.begin()
        for way in ways:
            way.fetch.seek(way.range.after + 1)
        give_up_at: float | None = None
        while True:
            if stop.is_set():
                give_up_at = give_up_at or time.monotonic() + _STOP_S
                for way in ways:
                    self._end(way, "the task was asked to stop")
            unfinished = [way for way in ways if not way.ended]
            self._top_up(fetches, [way.range.source for way in unfinished if not way.fetch.waiting])
            self._send(producer, unfinished)
            for way in ways:
                self._count(way)
            if all(way.done for way in ways):
                return
            if give_up_at is not None and time.monotonic() >= give_up_at:
                producer.abandon()
                return
            await self._woken(_LOOK_MS)

    def _send(self, producer: BatchProducer, ways: Collection[_Way]) -> None:
        takers = [way for way in ways if producer.takes_more(way.outlet)]
        ready = [(way.outlet, partial(self._following, way, producer.codec)) for way in takers]
        for future in producer.send(ready):
            future.add_both(self._notify)

    def _following(self, way: _Way, codec: Codec | None) -> RecordBatch | None:
        """The way's next batch, if it can be sent now; ends the way if there will be none."""
        fetch = way.fetch
        if way.ended:
            return None
        # A log that ends before the range was cut since the range was planned.
        was_cut = not fetch.waiting and fetch.error is None and 0 <= fetch.end <= fetch.next
        if fetch.next > way.range.upto or was_cut:
            way.passed, way.ended = fetch.next - 1, True
            return None
        if not fetch.waiting:
            if fetch.error is not None:
                self._end(way, f"it cannot be read: {shown(fetch.error)}")
            return None
        if (why := fetch.waiting[0].why_not_whole(fetch.taken + 1, codec)) is not None:
            self._end(way, why, not_whole=True)
            return None
        return fetch.take()

    def _count(self, way: _Way) -> None:
        outlet, result = way.outlet, way.result
        while outlet.acknowledged:
            batch, offset = outlet.acknowledged.popleft()
            result.runs.add(batch.base, offset, batch.count)
            result.bytes += len(batch.data)
            result.upto, result.timestamp = batch.last, batch.max_timestamp
        if outlet.error is not None and result.why is None:  # also where all was sent already
            way.ended = True
            result.why = f"{way.range.target.topic} takes no more: {shown(outlet.error)}"
            result.not_whole = isinstance(outlet.error, _NOT_AS_A_WHOLE)
        if way.done and way.passed is not None and outlet.error is None:
            result.upto = way.passed

    def _end(self, way: _Way, why: str, not_whole: bool = False) -> None:
        if not way.ended:
            way.ended, way.result.why, way.result.not_whole = True, why, not_whole

    def close(self) -> None:
        """Close all connections."""
        self._fetcher.cluster.close()
        if self._producer is not None:
            self._producer.cluster.close()
        self._net.close()


def shown(error: errors.KafkaError) -> str:
    """The error's name, message and remedy."""
    name, said = type(error).__name__.removesuffix("Error"), str(error)
    advice = next((text for kind, text in _ADVICE.items() if isinstance(error, kind)), "")
    return name + (f" ({said})" if said else "") + (f"; {advice}" if advice else "")
