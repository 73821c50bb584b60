"""Produces record batches to a target cluster, with its own idempotent producer.

A partition's batches follow each other in order, some of them at once on their way. After an error nothing more is sent
to that partition: its batches count up to the first that was not acknowledged (Invariants 1, 4). From there on they are
sent again. After a retriable error, such as a lost connection, they keep their sequence numbers, and the broker leaves
out those that it has. If that is impossible (they are cut otherwise now, or one was refused) they are sent in another
epoch of the producer, and may stand there twice, after all of them stood there once in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka import errors
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.copy.batches import MOST_SEQUENCE, CorruptBatch, RecordBatch
from headrace.connectors.mirror.copy.compression import codec_of
from headrace.connectors.mirror.copy.connection import ClusterConnection
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition

_LAST_VERSION: Final = 12
"""The last version that names topics by their names."""
_ALL_REPLICAS: Final = -1
_REQUEST_BYTES: Final = 8 << 20
"""No batch is added to a request of this size."""
_ID_TRIES: Final = 30
_ID_PAUSE_MS: Final = 100
_LAST_EPOCH: Final = 2**15 - 2
_IN_FLIGHT: Final = 5
"""The most batches of a partition on their way; the broker remembers as many of an idempotent producer."""


class _Doubt(NamedTuple):
    """A batch that may or may not have arrived."""

    base: int
    last: int
    checksum: bytes
    sequence: int

    def is_of(self, batch: RecordBatch) -> bool:
        """True if `batch` is this one, fetched again."""
        return (self.base, self.last, self.checksum) == (batch.base, batch.last, batch.checksum)


@dataclass
class Outlet:
    """A partition of the target, and the batches on their way to it."""

    partition: TopicPartition
    node: int | None = None
    """The broker that these batches were sent to."""
    identity: tuple[int, int] | None = None
    """The producer's id and epoch that they were sent with."""
    in_flight: deque[tuple[RecordBatch, int]] = field(default_factory=deque)
    """Batches with their sequence numbers."""
    doubts: list[_Doubt] = field(default_factory=list)
    """The first batch that was not acknowledged, and those sent after it."""
    error: errors.KafkaError | None = None
    acknowledged: deque[tuple[RecordBatch, int]] = field(default_factory=deque)
    """The batches that arrived, each with the offset of its first record there, in order."""


class _Stamped(NamedTuple):
    outlet: Outlet
    batch: RecordBatch
    sequence: int
    data: tuple[bytearray, bytes | memoryview]
    """Its header and its records."""


class BatchProducer:
    """Sends batches; everything on the cluster's event loop."""

    def __init__(self, cluster: ClusterConnection, client: ClientConfig) -> None:
        self.cluster = cluster
        self._timeout_ms: int = client["request.timeout.ms"]
        self.codec = codec_of(client)
        """The compression that batches get; None: their own."""
        self._most_bytes: int = client["buffer.memory"]
        self._on_the_way = 0
        """Bytes of the requests that are not answered yet."""
        self._id: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._begun: set[TopicPartition] = set()
        """Partitions in which a batch of this id arrived. A broker that knows none takes any sequence number: until it
        has the first, as while a new topic gets its leader, another batch might get there before it.
        """
        self._doubts: dict[TopicPartition, deque[_Doubt]] = {}
        """Batches to be sent again under their sequence numbers, before anything else of the partition."""
        self._begins_anew = False
        """True if some batch cannot be sent again under its sequence number."""

    async def begin(self) -> None:
        """Have an identity: the present one, or its next epoch if sequence numbers have to begin anew.

        Errors: RetriableError.
        """
        if self._id is not None and not self._begins_anew:
            return
        self._sequences.clear()
        self._doubts.clear()
        if self._id is None or self._id[1] >= _LAST_EPOCH:
            self._begun.clear()
            self._id = await self._new_id()
        else:
            self._id = self._id[0], self._id[1] + 1
        self._begins_anew = False

    async def _new_id(self) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1, max_version=4
        )
        try:
            for _ in range(_ID_TRIES):
                answer = await self.cluster.send(request)
                if not answer.error_code:
                    return answer.producer_id, answer.producer_epoch
                error = errors.for_code(answer.error_code)()
                if not isinstance(error, errors.RetriableError):
                    break
                await self.cluster.pause(_ID_PAUSE_MS)  # a broker that has just started has no ids yet
            raise error
        except errors.KafkaError as error:
            forbidden = isinstance(error, errors.ClusterAuthorizationFailedError)
            remedy = "the right IdempotentWrite on the cluster is needed" if forbidden else "see its brokers"
            raise RetriableError(
                f"the {self.cluster.name} cluster gives no producer id ({type(error).__name__}): {remedy}"
            ) from error

    def takes_more(self, outlet: Outlet) -> bool:
        """True if another batch may be sent there now."""
        most = _IN_FLIGHT if outlet.partition in self._begun else 1
        return outlet.error is None and len(outlet.in_flight) < most

    def abandon(self) -> None:
        """Leave the batches on their way alone."""
        self._begins_anew = self._begins_anew or self._on_the_way > 0

    def send(self, ready: Sequence[tuple[Outlet, Callable[[], RecordBatch | None]]]) -> Iterator[Any]:
        """Send the next batch of each outlet, as long as there is one; yield the futures of the requests.

        Each outlet comes with a function that returns its next batch, None if there is none now.
        """
        by_node: dict[int, list[tuple[Outlet, Callable[[], RecordBatch | None]]]] = {}
        for outlet, following in ready:
            try:
                node = self.cluster.ready_leader(outlet.partition)
            except errors.KafkaError as error:
                outlet.error = error
                self.cluster.doubt()
                continue
            # An answer is about the oldest batch on its way, so all of them go to one broker.
            if node is not None and (not outlet.in_flight or outlet.node == node):
                outlet.node = node
                by_node.setdefault(node, []).append((outlet, following))
        for node, its in by_node.items():
            while self._on_the_way < self._most_bytes and (batches := list(self._round(its))):
                if stamped := self._stamped(batches):
                    yield self._request(node, stamped)

    def _round(
        self, outlets: Sequence[tuple[Outlet, Callable[[], RecordBatch | None]]]
    ) -> Iterator[tuple[Outlet, RecordBatch]]:
        """One batch of each outlet that has one, as many as fit into one request."""
        size = 0
        for outlet, following in outlets:
            if size < _REQUEST_BYTES and self.takes_more(outlet) and (batch := following()) is not None:
                size += len(batch.data)
                yield outlet, batch

    def _stamped(self, batches: Sequence[tuple[Outlet, RecordBatch]]) -> list[_Stamped]:
        """Stamp the batches; one that cannot be sent stops its outlet."""
        assert self._id is not None, "begin comes first"
        made = []
        for outlet, batch in batches:
            doubts = self._doubts.get(outlet.partition)
            if doubts and not doubts[0].is_of(batch):
                outlet.error = errors.KafkaError("its batches are not those that were sent before; they are sent anew")
                self._begins_anew = True
                continue
            sequence = doubts[0].sequence if doubts else self._sequences.get(outlet.partition, 0)
            try:
                data = batch.stamped(*self._id, sequence, self.codec)
            except CorruptBatch as error:
                outlet.error = errors.KafkaError(f"{error}; it is fetched again")
                continue
            if doubts:
                doubts.popleft()
            else:
                self._sequences[outlet.partition] = (sequence + batch.count) % MOST_SEQUENCE
            made.append(_Stamped(outlet, batch, sequence, data))
        return made

    def _request(self, node: int, batches: Sequence[_Stamped]) -> Any:
        topics: dict[str, list[Any]] = {}
        part = ProduceRequest.TopicProduceData.PartitionProduceData
        for outlet, batch, sequence, data in batches:
            outlet.identity = self._id
            outlet.in_flight.append((batch, sequence))
            topics.setdefault(outlet.partition.topic, []).append(part(index=outlet.partition.partition, records=data))
        size = sum(len(piece) for one in batches for piece in one.data)
        self._on_the_way += size
        request = ProduceRequest(
            max_version=_LAST_VERSION,
            transactional_id=None,
            acks=_ALL_REPLICAS,
            timeout_ms=self._timeout_ms,
            topic_data=[
                ProduceRequest.TopicProduceData(name=topic, partition_data=parts) for topic, parts in topics.items()
            ],
        )
        future = self.cluster.send(request, node)
        outlets = {one.outlet.partition: one.outlet for one in batches}
        future.add_both(lambda _: self._landed(size))
        future.add_callback(lambda answer: self._arrived(outlets, answer))
        future.add_errback(lambda error: self._failed(outlets.values(), error))
        return future

    def _landed(self, size: int) -> None:
        self._on_the_way -= size

    def _arrived(self, outlets: dict[TopicPartition, Outlet], answer: Any) -> None:
        for topic in answer.responses:
            for part in topic.partition_responses:
                outlet = outlets.pop(TopicPartition(topic.name, part.index))
                if part.error_code:
                    self._refused(outlet, errors.for_code(part.error_code)(part.error_message or ""))
                    continue
                batch, _ = outlet.in_flight.popleft()
                self._begun.add(outlet.partition)
                if not outlet.doubts:
                    outlet.acknowledged.append((batch, part.base_offset))
                else:
                    self._begins_anew = True
        self._failed(outlets.values(), errors.UnknownError("the broker's answer does not name the partition"))

    def _failed(self, outlets: Any, error: errors.KafkaError) -> None:
        for outlet in outlets:
            self._refused(outlet, error)

    def _refused(self, outlet: Outlet, error: errors.KafkaError) -> None:
        """Note that the oldest batch on its way did not arrive, or perhaps did."""
        batch, sequence = outlet.in_flight.popleft()
        if outlet.error is None:  # what follows a refused batch is refused for its sequence, which says nothing
            outlet.error = error
        self.cluster.doubt()
        if outlet.identity != self._id:
            return  # it was abandoned
        outlet.doubts.append(_Doubt(batch.base, batch.last, batch.checksum, sequence))
        if not isinstance(outlet.error, errors.RetriableError):
            self._begins_anew = True
        elif not outlet.in_flight:
            left = self._doubts.get(outlet.partition, ())
            self._doubts[outlet.partition] = deque([*outlet.doubts, *left])
