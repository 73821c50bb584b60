"""Fetches record batches from a source cluster, over fetch sessions: an idle partition costs next to nothing.

Each broker has one request at a time, which names only partitions that are to be fetched from another offset than
before. Its answer is sorted here into batches to copy and skipped ones: control batches and, for readers of committed
records, aborted ones.

Invariant 2: a fetch's position belongs to the topic with its id. Brokers from Kafka 3.1 on are asked by that id: they
refuse it once the topic was deleted, even if there is a new topic of its name. Older brokers are asked by name.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafka import errors
from kafka.protocol.consumer.fetch import FetchRequest

from headrace.connectors.mirror.copy.batches import RecordBatch, batches_in
from headrace.connectors.mirror.copy.connection import ClusterConnection
from headrace.connectors.mirror.topic_ids import NO_ID
from headrace.plugins.offsets import TopicPartition

log = logging.getLogger(__name__)

_BY_ID: Final = 13
"""The latest version of the Fetch request here, the first that names topics by their ids."""
_BY_NAME: Final = 12
"""The latest that names them by their names."""
_SOON_MS: Final = 10
_SHARE: Final = 4
"""Records that are a smaller part of an answer are copied out of it: they may wait longer than the rest."""


class FetchLimits(NamedTuple):
    """The bounds of fetching."""

    wait_ms: int = 500
    least_bytes: int = 1
    most_bytes: int = 16 << 20
    """The most bytes of one answer."""
    partition_bytes: int = 4 << 20
    """The most bytes of one partition in one answer."""
    ahead_bytes: int = 8 << 20
    """A partition with so many waiting bytes is not fetched."""
    memory_bytes: int = 48 << 20
    """Beyond so many waiting bytes in all, only partitions are fetched that are being copied and have nothing waiting.

    Batches that wait keep their answer, which may be `_SHARE` times as large.
    """


@dataclass
class PartitionFetch:
    """One partition on its way: its fetch position, and the fetched batches that are not yet taken."""

    partition: TopicPartition
    position: int
    """The next offset to fetch."""
    topic_id: UUID | None = None
    """The id of the topic to which the position belongs; it never changes. None: unknown."""
    taken: int = field(init=False)
    """The last offset that was taken, or the one before the fetch's beginning."""
    waiting: deque[RecordBatch] = field(default_factory=deque)
    waiting_bytes: int = 0
    end: int = -1
    """The partition's end for its readers: offsets from here on cannot be read yet; -1: unknown."""
    error: errors.KafkaError | None = None
    asked: int = -1
    """The position that a broker was asked for last."""

    def __post_init__(self) -> None:
        self.taken = self.position - 1

    @property
    def is_lost(self) -> bool:
        """True if there is nothing at its position: retention went past it, or the log was cut."""
        return isinstance(self.error, errors.OffsetOutOfRangeError)

    @property
    def is_of_former_topic(self) -> bool:
        """True if its broker knows no topic with its id: deleted, or not yet known to the broker."""
        return isinstance(self.error, errors.UnknownTopicIdError | errors.InconsistentTopicIdError)

    def take(self) -> RecordBatch:
        """Take the first of the waiting batches."""
        batch = self.waiting.popleft()
        self.waiting_bytes -= len(batch.data)
        self.taken = batch.last
        return batch

    @property
    def next(self) -> int:
        """The first offset that is yet to be taken; offsets between the last one and it are skipped."""
        return max(self.waiting[0].base, self.taken + 1) if self.waiting else self.position

    def seek(self, position: int) -> None:
        """Go on at this offset; batches that wait from there on are kept."""
        if not self.taken < position <= self.next:
            self.clear(position)
        self.taken, self.error = position - 1, None

    def clear(self, position: int) -> None:
        """Go on at this offset, and forget the waiting batches."""
        self.waiting.clear()
        self.waiting_bytes, self.position = 0, position
        self.taken, self.error = position - 1, None


@dataclass
class _Session:
    version: int = _BY_ID
    """The latest version of its requests: by name if the id of a topic is unknown."""
    id: int = 0
    epoch: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """The broker's fetch position of each partition, since the last request."""
    fetches: Mapping[TopicPartition, PartitionFetch] | None = None
    """The fetches of the last request."""
    topic_ids: dict[TopicPartition, UUID | None] = field(default_factory=dict)
    """The topic ids of its partitions."""
    names: Mapping[UUID | None, str] = field(default_factory=dict)
    """The topics' names by their ids."""


class _Placed(NamedTuple):
    """The brokers of some fetches, valid for the same fetches and the same known leaders."""

    fetches: Mapping[TopicPartition, PartitionFetch]
    updates: int
    """The updates of the cluster before it was made."""
    by_node: Mapping[int, Mapping[TopicPartition, PartitionFetch]]
    leaderless: Sequence[PartitionFetch]
    topics: Set[str]


class Fetcher:
    """Keeps the fetches filled; everything on the cluster's event loop."""

    def __init__(self, cluster: ClusterConnection, read_committed: bool, limits: FetchLimits) -> None:
        self.cluster = cluster
        self._read_committed = read_committed
        self._limits = limits
        self._sessions: dict[int, _Session] = {}
        self._requests: dict[int, Any] = {}
        self._placed: _Placed | None = None
        self.news: set[TopicPartition] = set()
        """The fetches that have batches waiting, or an error, or had either a moment ago."""

    async def know(self, fetches: Mapping[TopicPartition, PartitionFetch]) -> None:
        """Learn the fetches' leaders if they are unknown. Errors: RetriableError."""
        placed = self._placed
        if placed is not None and placed.fetches is fetches:
            await self.cluster.know(placed.topics)
        else:
            await self.cluster.know({partition.topic for partition in fetches})

    def top_up(
        self, fetches: Mapping[TopicPartition, PartitionFetch], needed: Collection[TopicPartition] = ()
    ) -> Iterator[Any]:
        """Ask each broker without a request for the fetches that want more; yield the futures of the new requests.

        The same fetches come in the same mapping, others in another one. If memory is used up, only those that are
        `needed` now are asked for.
        """
        idle = [node for node in self.cluster.nodes() if node not in self._requests]
        if not idle:
            return
        placed = self._where(fetches)
        for fetch in placed.leaderless:
            if fetch.error is None:
                self._stop(fetch, self.cluster.why_not_led(fetch.partition))
        held_back, has_room = self._held_back(fetches)
        for node in idle:
            wanting = placed.by_node.get(node, {})
            if held_back or not has_room:
                wanted = wanting.keys() if has_room else wanting.keys() & set(needed)
                wanting = {partition: wanting[partition] for partition in wanted - held_back}
            if wanting and self._is_ready(node, wanting):
                # A full fetch that is emptied has to wait for the answer to this request.
                request = self._request(node, wanting, _SOON_MS if held_back or not has_room else self._limits.wait_ms)
                future = self._requests[node] = self.cluster.send(request, node)
                future.add_callback(lambda answer, node=node, asked=wanting: self._arrived(node, asked, answer))
                future.add_errback(lambda error, node=node, asked=wanting: self._failed(node, asked, error))
                yield future

    @property
    def asks_all(self) -> bool:
        """True if each broker that leads some of the last topped-up fetches has a request."""
        placed = self._placed
        return placed is not None and all(node in self._requests for node, its in placed.by_node.items() if its)

    def _where(self, fetches: Mapping[TopicPartition, PartitionFetch]) -> _Placed:
        """The fetches by the broker that leads them."""
        placed = self._placed
        if placed is None or placed.fetches is not fetches or placed.updates != self.cluster.updates:
            by_node = {node: fetches.keys() & self.cluster.led_by(node) for node in self.cluster.nodes()}
            leaderless = fetches.keys() - set().union(*by_node.values())
            placed = self._placed = _Placed(
                fetches,
                self.cluster.updates,
                {node: {partition: fetches[partition] for partition in its} for node, its in by_node.items()},
                [fetches[partition] for partition in leaderless],
                {partition.topic for partition in fetches},
            )
        return placed

    def _held_back(self, fetches: Mapping[TopicPartition, PartitionFetch]) -> tuple[set[TopicPartition], bool]:
        """The fetches that want nothing now (they failed, or have enough), and True if there is memory for more."""
        busy = [fetches[partition] for partition in self.news if partition in fetches]
        enough = {
            fetch.partition
            for fetch in busy
            if fetch.error is not None or fetch.waiting_bytes >= self._limits.ahead_bytes
        }
        return enough, sum(fetch.waiting_bytes for fetch in busy) < self._limits.memory_bytes

    def _is_ready(self, node: int, fetches: Mapping[TopicPartition, PartitionFetch]) -> bool:
        """True if the broker takes requests now; one that cannot be reached stops its fetches."""
        try:
            return self.cluster.is_ready(node)
        except errors.KafkaError as error:
            for fetch in fetches.values():
                self._stop(fetch, error)
            return False

    def _stop(self, fetch: PartitionFetch, error: errors.KafkaError) -> None:
        fetch.error = error
        self.news.add(fetch.partition)

    def _request(self, node: int, fetches: Mapping[TopicPartition, PartitionFetch], wait_ms: int) -> Any:
        session = self._sessions.setdefault(node, _Session())
        forgotten: dict[tuple[str, UUID | None], list[int]] = {}
        if fetches is session.fetches:  # the usual case, which has to be quick
            known = session.positions
            changed = [fetch for fetch in fetches.values() if fetch.position != fetch.asked]
        else:
            version = _BY_NAME if any(fetch.topic_id is None for fetch in fetches.values()) else _BY_ID
            if session.version != version or any(
                session.topic_ids.get(partition, fetch.topic_id) != fetch.topic_id
                for partition, fetch in fetches.items()
            ):  # the id of a topic has changed
                session = self._sessions[node] = _Session(version)
            known = session.positions
            changed = [fetch for partition, fetch in fetches.items() if known.get(partition) != fetch.position]
            for partition in known.keys() - fetches.keys():
                its = session.topic_ids[partition]
                forgotten.setdefault((partition.topic, its), []).append(partition.partition)
                del known[partition]
            session.fetches = fetches
            session.topic_ids = {partition: fetch.topic_id for partition, fetch in fetches.items()}
            session.names = {its: partition.topic for partition, its in session.topic_ids.items()}
        for fetch in changed:
            known[fetch.partition] = fetch.asked = fetch.position
        return FetchRequest(
            max_version=session.version,
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=self._limits.least_bytes,
            max_bytes=self._limits.most_bytes,
            isolation_level=int(self._read_committed),
            session_id=session.id,
            session_epoch=session.epoch,
            topics=[self._wanted(*topic, its) for topic, its in _by_topic(changed).items()],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id or NO_ID, partitions=its)
                for (topic, topic_id), its in forgotten.items()
            ],
            rack_id="",
        )

    def _wanted(self, topic: str, topic_id: UUID | None, fetches: list[PartitionFetch]) -> Any:
        return FetchRequest.FetchTopic(
            topic=topic,
            topic_id=topic_id or NO_ID,
            partitions=[
                FetchRequest.FetchTopic.FetchPartition(
                    partition=fetch.partition.partition,
                    current_leader_epoch=-1,
                    fetch_offset=fetch.position,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=self._limits.partition_bytes,
                )
                for fetch in fetches
            ],
        )

    def _failed(self, node: int, asked: Mapping[TopicPartition, PartitionFetch], error: errors.KafkaError) -> None:
        self._requests.pop(node, None)
        self._sessions.pop(node, None)
        self.cluster.doubt()
        for fetch in asked.values():
            self._stop(fetch, error)

    def _arrived(self, node: int, asked: Mapping[TopicPartition, PartitionFetch], answer: Any) -> None:
        del self._requests[node]
        if answer.error_code:
            # The broker forgot the session, or never had room for it: the next request begins another.
            log.debug("Fetch session with broker %d: %s", node, errors.for_code(answer.error_code).__name__)
            self._sessions.pop(node, None)
            return
        session = self._sessions[node]
        for topic in answer.responses:
            name = topic.topic or session.names[topic.topic_id]  # by name or id, as the version has it
            for part in topic.partitions:
                partition = TopicPartition(name, part.partition_index)
                fetch = asked.get(partition)
                if fetch is not None and fetch.position == session.positions[partition]:  # else it was moved meanwhile
                    self._sort(fetch, part)
        session.epoch = 0 if answer.session_id == 0 else _next_epoch(session.epoch)
        session.id = answer.session_id
        if answer.session_id == 0:
            session.positions.clear()
            session.fetches = None

    def _sort(self, fetch: PartitionFetch, part: Any) -> None:
        if part.error_code:
            self._stop(fetch, errors.for_code(part.error_code)())
            self.cluster.doubt()
            return
        fetch.end = part.last_stable_offset if self._read_committed else part.high_watermark
        if not part.records:
            return
        aborted = deque(sorted((one.first_offset, one.producer_id) for one in part.aborted_transactions or ()))
        skipping: set[int] = set()
        records = part.records
        if len(records) * _SHARE < len(records.obj):
            records = memoryview(bytes(records))
        for batch in batches_in(records):
            while aborted and aborted[0][0] <= batch.last:
                skipping.add(aborted.popleft()[1])
            if batch.last < fetch.position:
                continue
            if batch.is_control:
                if batch.ends_aborted:
                    skipping.discard(batch.producer_id)
            elif not (self._read_committed and batch.is_transactional and batch.producer_id in skipping):
                fetch.waiting.append(batch)
                fetch.waiting_bytes += len(batch.data)
                self.news.add(fetch.partition)
            fetch.position = batch.last + 1


def _next_epoch(epoch: int) -> int:
    return 1 if epoch == 2**31 - 1 else epoch + 1


def _by_topic(fetches: list[PartitionFetch]) -> dict[tuple[str, UUID | None], list[PartitionFetch]]:
    """The fetches by topic name and topic id; for a while, fetches of one name may have an old and a new id."""
    found: dict[tuple[str, UUID | None], list[PartitionFetch]] = {}
    for fetch in fetches:
        found.setdefault((fetch.partition.topic, fetch.topic_id), []).append(fetch)
    return found
