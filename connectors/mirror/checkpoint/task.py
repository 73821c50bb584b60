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
from typing import Any, Final

from pyspark.sql import DataFrame

from headrace.config.connector.foreign_names import group_objection
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
from headrace.connectors.mirror.checkpoint.followed_syncs import SLICE_S, FollowedSyncs, decoded
from headrace.connectors.mirror.checkpoint.group_offsets import GroupOffsetSync
from headrace.connectors.mirror.checkpoint.groups import ConsumerGroups, GroupOffsets
from headrace.connectors.mirror.checkpoint.latencies import CheckpointLatencies
from headrace.connectors.mirror.checkpoint.topic_reader import NotAllowed, TopicReader
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.filters import topic_filter
from headrace.connectors.mirror.formats import Checkpoint
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
    TopicPartition,
)
from headrace.plugins.extensions import Measured, PacedSource, SourceProgress
from headrace.plugins.records import Records
from headrace.plugins.samples import Sample

log = logging.getLogger(__name__)

ASSIGNED_GROUPS: Final = "task.assigned.groups"
_WAIT_S: Final = 0.5
"""The wait of a plan without anything to write."""
_SOON_S: Final = 0.02
"""The wait of a plan while the topics are read from their beginning."""
_AGAIN_S: Final = 5
"""Groups are asked for their offsets again after so long, if that failed."""


class MirrorCheckpointTask(SourceTask, PacedSource, SourceProgress, Measured):
    """Writes the checkpoints of some groups."""

    place = Place.WORKER_PROCESS
    waits_for_news = True
    row_type = ROW_TYPE
    offset_type = OFFSET_TYPE

    def __init__(self) -> None:
        self._checkpoints_reader: TopicReader | None = None
        self._syncs: FollowedSyncs | None = None
        self._opposite: FollowedSyncs | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares to read the topics. Errors: ConfigError."""
        settings, self._clients = CHECKPOINT.parse(config), MirrorClients(config)
        self._groups: list[str] = read(ASSIGNED_GROUPS, Type.LIST, config.get(ASSIGNED_GROUPS, ""))
        self._policy = policy_of(config)
        self._filter = topic_filter(config)
        self._source, self._target = settings["source.cluster.alias"], settings["target.cluster.alias"]
        self._topic = self._policy.checkpoints_topic(self._source)
        self._interval_s: int = settings["emit.checkpoints.interval.seconds"]
        self._sync_interval_s: int = settings["sync.group.offsets.interval.seconds"]
        timeout_s, stopping = settings["admin.timeout.ms"] / 1000, context.stopping
        self._stopping = stopping
        source = self._clients.source_admin("checkpoint-source-admin")
        self._source_groups = ConsumerGroups(source, self._source, timeout_s, stopping)
        self._group_sync: GroupOffsetSync | None = None
        if settings["sync.group.offsets.enabled"] and self._sync_interval_s >= 0:
            target = self._clients.target_admin("checkpoint-target-admin")
            groups = ConsumerGroups(target, self._target, timeout_s, stopping)
            name, worker = context.connector, context.worker
            self._group_sync = GroupOffsetSync(
                groups, self._target, lambda group: group_objection(group, name, worker) is not None
            )
        self._emitted = EmittedCheckpoints(self._groups)
        self._latencies = CheckpointLatencies(self._source, self._target)
        self._latest_only = False
        self._may_not_go_back = False
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
        """No partitions: the checkpoints topic tells what was written."""
        return ()

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Plans the new checkpoints if they are due. Errors: RetriableError while a cluster does not answer."""
        if not self._knows_checkpoints():
            self._stopping.wait(_SOON_S)
            return None
        is_read = self._knows_syncs()
        plan = self._plan_checkpoints(limit) if is_read and time.monotonic() >= self._due else None
        if plan is None:
            # Also if the source cluster does not answer: it is needed most when that is lost.
            self._sync_groups()
            self._stopping.wait(_WAIT_S if is_read else _SOON_S)
        return plan

    def _plan_checkpoints(self, limit: Limit) -> Plan | None:
        # Due again soon even if this fails, but not at once.
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
        """Makes the checkpoints due again."""
        self._due = time.monotonic()

    def samples(self) -> Iterable[Sample]:
        """The latencies of its checkpoints."""
        return self._latencies.samples() if hasattr(self, "_latencies") else ()

    def stop(self) -> None:
        """Closes the consumers."""
        for reader in (self._checkpoints_reader, self._syncs, self._opposite):
            if reader is not None:
                reader.close()

    # -- the two topics ------------------------------------------------------------------------------------------------

    def _knows_checkpoints(self) -> bool:
        """True if the earlier checkpoints are known; reads more of them."""
        reader = self._checkpoints_reader
        if reader is None:
            return True
        try:
            for message in reader.read(SLICE_S, SLICE_S):
                if (checkpoint := decoded(Checkpoint, message, reader.topic)) is not None:
                    self._emitted.add(checkpoint)
        except NotAllowed as error:
            log.warning(
                "Offsets are translated less exactly: %s. Only offsets that are copied from now on are translated; "
                "allow the consumer of cluster %s to read it",
                error,
                self._target,
            )
            self._emitted = EmittedCheckpoints(self._groups)
            self._latest_only = True
        else:
            if not reader.is_read and not reader.is_missing:
                return False
        reader.close()
        self._checkpoints_reader = None
        return True

    def _knows_syncs(self) -> bool:
        """True if the offset syncs were read to their end once; reads the new ones."""
        if self._syncs is None:
            self._syncs = self._offset_syncs()
        try:
            is_read = self._syncs.read()
        except NotAllowed as error:
            raise RetriableError(f"No offsets can be translated: {error}. Allow the consumer to read it") from error
        for at, end in self._syncs.take_ends().items():
            topic = downstream_topic(self._policy, self._source, self._target, at.topic)
            self._emitted.forget_after(TopicPartition(topic, at.partition), end)
        self._read_opposite()
        return is_read

    def _read_opposite(self) -> None:
        if self._opposite is None:
            return
        try:
            self._opposite.read()
            for at, end in self._opposite.take_ends().items():
                self._emitted.forget_after(at, end)
        except NotAllowed as error:
            log.warning("Offsets of copies from cluster %s are not translated: %s", self._target, error)
            self._opposite.close()
            self._opposite, self._may_not_go_back = None, True

    def _offset_syncs(self) -> FollowedSyncs:
        where = self._source if self._is_at_source else self._target
        waits = (
            f"no offsets can be translated. MirrorSourceConnector writes it in cluster {where}, where it has the same "
            "offset-syncs.topic.location and emit.offset-syncs.enabled is true"
        )
        return FollowedSyncs(self._syncs_reader(self._is_at_source, waits), self._latest_only)

    def _syncs_of_opposite_flow(self) -> FollowedSyncs:
        waits = f"offsets of copies from cluster {self._target} are not translated without it"
        return FollowedSyncs(self._syncs_reader(not self._is_at_source, waits), self._latest_only, is_opposite=True)

    def _syncs_reader(self, is_at_source: bool, waits: str) -> TopicReader:
        """A reader of the offset syncs in this cluster, whose topic bears the other one's name."""
        if is_at_source:
            consumer = self._clients.source_consumer("offset-syncs-source-consumer")
            return TopicReader(consumer, self._policy.offset_syncs_topic(self._target), waits)
        consumer = self._clients.target_consumer("offset-syncs-target-consumer")
        return TopicReader(consumer, self._policy.offset_syncs_topic(self._source), waits)

    # -- the groups ----------------------------------------------------------------------------------------------------

    def _news(self) -> Iterator[Checkpoint]:
        for group, offsets in self._source_groups.offsets(self._groups).items():
            yield from filter(self._emitted.is_news, self._translated(group, offsets))

    def _translated(self, group: str, offsets: GroupOffsets) -> Iterator[Checkpoint]:
        for at, committed in offsets.items():
            if not self._filter.passes(at.topic):
                continue
            topic, downstream = self._place_of(at, committed.offset)
            if downstream is not None:
                metadata = committed.metadata or ""
                yield Checkpoint(group, topic, at.partition, committed.offset, downstream, metadata)

    def _place_of(self, at: TopicPartition, offset: int) -> tuple[str, int | None]:
        """The topic in the target cluster, and the offset there; None if unknown."""
        assert self._syncs is not None
        topic = downstream_topic(self._policy, self._source, self._target, at.topic)
        if self._policy.topic_source(at.topic) != self._target:
            return topic, self._syncs.translate(at, offset)
        if self._opposite is None and not self._may_not_go_back:
            self._opposite = self._syncs_of_opposite_flow()
        opposite = self._opposite
        return topic, None if opposite is None else opposite.translate(TopicPartition(topic, at.partition), offset)

    def _sync_groups(self) -> None:
        if self._group_sync is None or time.monotonic() < self._sync_due:
            return
        self._group_sync.sync(self._groups, self._emitted)
        self._sync_due = time.monotonic() + self._sync_interval_s


def downstream_topic(policy: ReplicationPolicy, source: str, target: str, topic: str) -> str:
    """The name in the target cluster of a topic of the source cluster; one that came from there has its own name."""
    if policy.topic_source(topic) == target:
        return policy.upstream_topic(topic) or topic
    return policy.format_remote_topic(source, topic)


def _source_partition(checkpoint: Checkpoint) -> SourcePartition:
    return {"partition": checkpoint.partition, "topic": checkpoint.topic, "group": checkpoint.group}


def _key(partition: SourcePartition | None) -> tuple[Any, ...]:
    return () if partition is None else tuple(sorted(partition.items()))
