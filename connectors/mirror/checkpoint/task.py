"""The task that writes checkpoints: the offsets of its groups, translated for the target cluster.

    checkpoints topic ─▶ what was written before     offset-syncs topic ─▶ translation
    groups' offsets in the source cluster ─▶ translated ─▶ checkpoints ─▶ (groups' offsets in the target cluster)

Decided: all of this is done on the task's own thread, between batches, because then nothing is shared between threads,
and a stop waits for no request; loses: while one of the clusters does not answer, the other waits for it, for at most
`admin.timeout.ms` at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import Message
from pyspark.sql import DataFrame

from headrace.config.values import Type, read
from headrace.connectors.mirror.byte_records import (
    OFFSET,
    OFFSET_TYPE,
    ROW_TYPE,
    ByteRecord,
    ByteRecordReader,
    byte_records,
)
from headrace.connectors.mirror.checkpoint.emitted import EmittedCheckpoints
from headrace.connectors.mirror.checkpoint.group_offsets import GroupOffsetSync
from headrace.connectors.mirror.checkpoint.groups import ConsumerGroups, GroupOffsets
from headrace.connectors.mirror.checkpoint.latencies import CheckpointLatencies
from headrace.connectors.mirror.checkpoint.offset_syncs import OffsetSyncs
from headrace.connectors.mirror.checkpoint.topic_reader import NotAllowed, TopicReader
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.filters import topic_filter
from headrace.connectors.mirror.formats import Checkpoint, FormatError, OffsetSync
from headrace.connectors.mirror.policy import ReplicationPolicy, policy_of
from headrace.connectors.mirror.settings import CHECKPOINT
from headrace.plugins.contracts import (
    ArrowReader,
    Limit,
    PartitionResult,
    Place,
    Plan,
    RetriableError,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.records import Records
from headrace.plugins.samples import Sample

log = logging.getLogger(__name__)

ASSIGNED_GROUPS: Final = "task.assigned.groups"
_Record = TypeVar("_Record", Checkpoint, OffsetSync)
_AGAIN_S: Final = 5
"""After so long groups are asked for their offsets again, where that failed."""
_SLICE_S: Final = 0.5
"""So long a topic is read at a time; between, the task looks whether it has to end."""


class MirrorCheckpointTask(SourceTask):
    """Writes the checkpoints of some groups."""

    place = Place.WORKER_PROCESS
    row_type = ROW_TYPE
    offset_type = OFFSET_TYPE

    def __init__(self) -> None:
        self._checkpoints_reader: TopicReader | None = None
        self._syncs_reader: TopicReader | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Gets ready to read the topics. Errors: ConfigError."""
        settings, self._clients = CHECKPOINT.parse(config), MirrorClients(config)
        self._groups: list[str] = read(ASSIGNED_GROUPS, Type.LIST, config.get(ASSIGNED_GROUPS, ""))
        self._policy = policy_of(config)
        self._filter = topic_filter(config)
        self._source, self._target = settings["source.cluster.alias"], settings["target.cluster.alias"]
        self._topic = self._policy.checkpoints_topic(self._source)
        self._interval_s: int = settings["emit.checkpoints.interval.seconds"]
        self._sync_interval_s: int = settings["sync.group.offsets.interval.seconds"]
        timeout_s, stopping = settings["admin.timeout.ms"] / 1000, context.stopping
        source = self._clients.source_admin("checkpoint-source-admin")
        self._source_groups = ConsumerGroups(source, self._source, timeout_s, stopping)
        self._group_sync: GroupOffsetSync | None = None
        if settings["sync.group.offsets.enabled"] and self._sync_interval_s >= 0:
            target = self._clients.target_admin("checkpoint-target-admin")
            groups = ConsumerGroups(target, self._target, timeout_s, stopping)
            self._group_sync = GroupOffsetSync(groups, self._target)
        self._emitted = EmittedCheckpoints(self._groups)
        self._latencies = CheckpointLatencies(self._source, self._target)
        self._syncs = OffsetSyncs()
        self._is_at_source = settings["offset-syncs.topic.location"] == "source"
        self._due = self._sync_due = time.monotonic()
        self._planned: tuple[Checkpoint, ...] = ()
        consumer = self._clients.target_consumer("checkpoints-target-consumer")
        waits = "nothing is translated before it is known which checkpoints there are"
        self._checkpoints_reader = TopicReader(consumer, self._topic, waits)

    def topics(self) -> Sequence[str]:
        """The checkpoints topic."""
        return (self._topic,)

    def partitions(self) -> Sequence[SourcePartition]:
        """None: what was written is read from the checkpoints topic."""
        return ()

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """The checkpoints that are new, where they are due. Errors: RetriableError while a cluster does not answer."""
        if not self._knows_checkpoints():
            return None
        plan = self._plan_checkpoints(limit) if self._knows_syncs() and time.monotonic() >= self._due else None
        if plan is None:
            # Not only where the source cluster answers: it is needed most when that is lost.
            self._sync_groups()
        return plan

    def _plan_checkpoints(self, limit: Limit) -> Plan | None:
        # Due again soon even where this fails, but not at once.
        self._due = time.monotonic() + min(self._interval_s, _AGAIN_S)
        self._looked_at_ms = time.time_ns() // 1_000_000
        news = list(self._news())
        self._planned = tuple(news[: limit.rows])
        is_all = len(self._planned) == len(news)
        self._due = time.monotonic() + (self._interval_s if is_all else 0)
        if not news:
            return None
        self._records = tuple(ByteRecord(one.key(), one.value(), self._looked_at_ms) for one in self._planned)
        splits = tuple(Split(_source_partition(one), None, OFFSET) for one in self._planned)
        return Plan(splits, len(splits), sum(len(one.key) + len(one.value) for one in self._records))

    def reader(self, plan: Plan) -> ArrowReader:
        """A reader of the checkpoints."""
        return ByteRecordReader(self._records)

    def records(self, frame: DataFrame) -> Records:
        """Records of the checkpoints topic."""
        return byte_records(frame, self._topic)

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Notes the checkpoints that are in the topic; the others are due again."""
        # Invariant 1: a group is moved in the target cluster only once its checkpoint is durable.
        written = {_key(one.source_partition) for one in reached if one.written or one.dropped or one.bad}
        done = [one for one in self._planned if _key(_source_partition(one)) in written]
        for checkpoint in done:
            self._emitted.add(checkpoint)
        self._latencies.written(done, time.time_ns() / 1e6 - self._looked_at_ms)
        if len(written) < len(self._planned):
            self.undelivered()

    def undelivered(self) -> None:
        """Lets the checkpoints be due again."""
        self._due = time.monotonic()

    def samples(self) -> Iterable[Sample]:
        """The latencies of its checkpoints."""
        return self._latencies.samples()

    def stop(self) -> None:
        """Closes the consumers."""
        for reader in (self._checkpoints_reader, self._syncs_reader):
            if reader is not None:
                reader.close()

    # -- the two topics ------------------------------------------------------------------------------------------------

    def _knows_checkpoints(self) -> bool:
        """Whether the checkpoints of before are known; reads more of them."""
        reader = self._checkpoints_reader
        if reader is None:
            return True
        try:
            for message in reader.read(_SLICE_S, _SLICE_S):
                if (checkpoint := _decoded(Checkpoint, message, reader.topic)) is not None:
                    self._emitted.add(checkpoint)
        except NotAllowed as error:
            log.warning(
                "Offsets are translated less exactly: %s. Only offsets that are copied from now on are translated; "
                "allow the consumer of cluster %s to read it",
                error,
                self._target,
            )
            self._emitted = EmittedCheckpoints(self._groups)
            self._syncs.latest_only = True
        else:
            if not reader.is_read and not reader.is_missing:
                return False
        reader.close()
        self._checkpoints_reader = None
        return True

    def _knows_syncs(self) -> bool:
        """Whether the offset syncs were read to their end once; reads those that have come."""
        if self._syncs_reader is None:
            self._syncs_reader = self._offset_syncs()
        reader = self._syncs_reader
        try:
            for message in reader.read(0.0 if reader.is_read else _SLICE_S, _SLICE_S):
                if (sync := _decoded(OffsetSync, message, reader.topic)) is not None:
                    self._syncs.add(sync)
        except NotAllowed as error:
            raise RetriableError(f"No offsets can be translated: {error}. Allow the consumer to read it") from error
        if reader.is_read:
            self._syncs.latest_only = False
        return reader.is_read

    def _offset_syncs(self) -> TopicReader:
        clients, policy = self._clients, self._policy
        if self._is_at_source:
            consumer = clients.source_consumer("offset-syncs-source-consumer")
            topic = policy.offset_syncs_topic(self._target)
        else:
            consumer = clients.target_consumer("offset-syncs-target-consumer")
            topic = policy.offset_syncs_topic(self._source)
        where = self._source if self._is_at_source else self._target
        waits = (
            f"no offsets can be translated. MirrorSourceConnector writes it in cluster {where}, where it has the same "
            "offset-syncs.topic.location and emit.offset-syncs.enabled is true"
        )
        return TopicReader(consumer, topic, waits)

    # -- the groups ----------------------------------------------------------------------------------------------------

    def _news(self) -> Iterator[Checkpoint]:
        for group, offsets in self._source_groups.offsets(self._groups).items():
            yield from filter(self._emitted.is_news, self._translated(group, offsets))

    def _translated(self, group: str, offsets: GroupOffsets) -> Iterator[Checkpoint]:
        for at, committed in offsets.items():
            if not self._filter.passes(at.topic):
                continue
            downstream = self._syncs.translate(at, committed.offset)
            if downstream is not None:
                topic = downstream_topic(self._policy, self._source, self._target, at.topic)
                metadata = committed.metadata or ""
                yield Checkpoint(group, topic, at.partition, committed.offset, downstream, metadata)

    def _sync_groups(self) -> None:
        if self._group_sync is None or time.monotonic() < self._sync_due:
            return
        self._group_sync.sync(self._groups, self._emitted)
        self._sync_due = time.monotonic() + self._sync_interval_s


def downstream_topic(policy: ReplicationPolicy, source: str, target: str, topic: str) -> str:
    """The name in the target cluster of a topic of the source cluster; one that came from there has its own name."""
    if policy.topic_source(topic) == target:
        return policy.original_topic(topic)
    return policy.format_remote_topic(source, topic)


def _source_partition(checkpoint: Checkpoint) -> SourcePartition:
    return {"partition": checkpoint.partition, "topic": checkpoint.topic, "group": checkpoint.group}


def _key(partition: SourcePartition | None) -> tuple[Any, ...]:
    return () if partition is None else tuple(sorted(partition.items()))


def _decoded(kind: type[_Record], message: Message, topic: str) -> _Record | None:
    """The record; None for a tombstone, and for what is none, which is logged."""
    key, value = message.key(), message.value()
    if key is None or value is None:
        return None
    try:
        return kind.of(key, value)
    except FormatError as error:
        log.warning("A record in topic %s is left out: it is %s", topic, error)
        return None
