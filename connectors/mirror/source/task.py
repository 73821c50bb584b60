"""MirrorSourceTask: copies partitions of the source cluster into those of the target.

    plan      the news of each partition, by one long poll of the source cluster; no Spark
    reader    copies whole record batches (`copy/link.py`), or reads the others record by record
    delivered offset syncs, rests for partitions that failed

Each partition is on its own: one that cannot be read or written rests, longer with each failure, and the others go on.
Source offsets are MirrorMaker's: `{"cluster": "A", "partition": 0, "topic": "t"}`, with the last record's offset and
its topic id (`positions.py`).

Decided: committed records only, unless `source.consumer.isolation.level` says otherwise, because records of aborted
transactions were never written as far as their readers are concerned; loses: Apache's default, which copies them.

Decided: unchanged headers, whatever `header.converter` says, because Apache's default converter makes texts of their
bytes; loses: the changes of a header converter.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.worker.internal_topics import InternalTopics
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.copy.fetching import PartitionFetch
from headrace.connectors.mirror.copy.link import shown
from headrace.connectors.mirror.metrics import PartitionMetrics, lag
from headrace.connectors.mirror.policy import policy_of
from headrace.connectors.mirror.settings import SOURCE
from headrace.connectors.mirror.source.cluster import ClusterAdmin, Topic
from headrace.connectors.mirror.source.offset_syncs import OffsetSyncWriter
from headrace.connectors.mirror.source.partitions import MirroredPartition, rest
from headrace.connectors.mirror.source.positions import SourcePositions, tell_of_gap, with_topic_id
from headrace.connectors.mirror.source.profile import fetch_limits, tuned
from headrace.connectors.mirror.source.reader import CopyRoute, MirrorReader, Opened
from headrace.connectors.mirror.source.selection import TopicSelection
from headrace.plugins.arrow_types import arrow_type_of
from headrace.plugins.contracts import (
    Deliveries,
    Limit,
    PartitionResult,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    Stop,
    TaskContext,
    TopicPartition,
)
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import Measured, PacedSource, PreviewedSource, SourceProgress
from headrace.plugins.records import ERROR, HEADERS, Records
from headrace.plugins.samples import Sample
from headrace.plugins.schema import OPTIONAL_BYTES

log = logging.getLogger(__name__)

ASSIGNED: Final = "task.assigned.partitions"
_WAIT_S: Final = 0.5
"""The longest wait of a plan for news."""


class MirrorSourceTask(SourceTask, PacedSource, SourceProgress, PreviewedSource, Measured):
    """Copies the partitions that its connector assigned to it."""

    row_type = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("timestamp", pa.int64()),
            ("headers", arrow_type_of(HEADERS)),
            ("key", pa.binary()),
            ("value", pa.binary()),
        ]
    )
    offset_type = pa.struct([("offset", pa.int64())])
    waits_for_news = True
    wants_deliveries = Deliveries.LAST

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares to plan. Errors: ConfigError."""
        settings = SOURCE.without("name", "connector.class").parse(config)
        self._alias: str = settings["source.cluster.alias"]
        self._stopping = context.stopping
        self._interrupted_by = context.interrupted_by
        self._clients = MirrorClients(config)
        policy = policy_of(config)
        self._assigned = {
            partition: TopicPartition(policy.format_remote_topic(self._alias, partition.topic), partition.partition)
            for partition in partitions_in(config.get(ASSIGNED, ""))
        }
        consumer = tuned(config, _committed_only(self._clients.source_consumer("replication-consumer")))
        self._positions = SourcePositions(self._alias, self._clients, consumer["auto.offset.reset"], self._stopping)
        self._flow = CopyRoute(
            consumer,
            self._alias,
            settings["target.cluster.alias"],
            fetch_limits(config, consumer),
            settings["offset.lag.max"],
            dict(config),
        )
        self._metrics = {
            source: PartitionMetrics(
                {
                    "source": self._alias,
                    "target": settings["target.cluster.alias"],
                    "topic": target.topic,
                    "partition": str(target.partition),
                }
            )
            for source, target in self._assigned.items()
        }
        self._partitions: dict[TopicPartition, MirroredPartition] = {}
        self._fetches: Mapping[TopicPartition, PartitionFetch] = {}
        """The fetches of the partitions that do not rest; a new mapping whenever these change."""
        self._resting: list[MirroredPartition] = []
        self._known = False
        self._opened: Opened | None = None
        self._planned: dict[TopicPartition, MirroredPartition] = {}
        self._records_last = False
        self._by_records = False
        self._topics: tuple[str, ...] = ()
        self._syncs = self._offset_syncs(settings, policy.offset_syncs_topic)

    def _offset_syncs(self, settings: Mapping[str, Any], topic_for: Any) -> OffsetSyncWriter | None:
        if not settings["emit.offset-syncs.enabled"]:
            return None
        at_source = settings["offset-syncs.topic.location"] == "source"
        if at_source:
            producer = self._clients.source_producer("offset-syncs-source-producer")
        else:
            producer = self._clients.target_producer("offset-syncs-target-producer")
        topic = topic_for(settings["target.cluster.alias"] if at_source else self._alias)
        return OffsetSyncWriter(producer, topic, settings["offset.lag.max"])

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`, with all partitions of the topics that the config chooses, and without offset syncs."""
        values, clients = SOURCE.parse(config), MirrorClients(config)
        admin = clients.source_admin("replication-source-admin")
        source = ClusterAdmin(
            values["source.cluster.alias"], admin, values["admin.timeout.ms"] / 1000, context.stopping
        )
        closed = InternalTopics.closed_to(config.get("name", ""), context.worker)
        _, _, names = source.listed()
        seen = source.topics(TopicSelection(config, closed).chosen(names))
        assigned = [
            str(TopicPartition(name, number))
            for name, topic in sorted(seen.items())
            if isinstance(topic, Topic)
            for number in range(topic.partitions)
        ]
        without = {"emit.offset-syncs.enabled": "false", ASSIGNED: ",".join(assigned)}
        self.start({**config, **without}, context)

    def topics(self) -> Sequence[str]:
        """The topics of the last plan."""
        return self._topics

    def partitions(self) -> Sequence[SourcePartition]:
        """All partitions until their stored offsets are known, and again after a failure; else no partitions."""
        if self._known:
            return ()
        return [self._stored_as(partition) for partition in self._assigned]

    def _stored_as(self, partition: TopicPartition) -> SourcePartition:
        return {"cluster": self._alias, "partition": partition.partition, "topic": partition.topic}

    # -- plan ----------------------------------------------------------------------------------------------------------

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Plans ranges of the partitions that have news and do not rest, in proportion to each one's backlog."""
        if not self._assigned:
            self._stopping.wait(_WAIT_S)
            return None
        if not self._known:
            self._begin_at(dict(zip(self._assigned, after, strict=True)))
        self._wake()
        fetches = self._fetches
        if not fetches:
            self._stopping.wait(_WAIT_S)
            return None
        if self._opened is None:
            self._opened = Opened(self._flow, self._flow.link(), fetches, self._stopping)
        link = self._opened.link
        with self._interrupted_by(link.look):
            link.poll(fetches, _WAIT_S, self._stopping)
        self._read_at_ms = time.time() * 1000
        news = [self._partitions[partition] for partition in link.news(fetches)]
        self._mend(news)
        self._opened.fetches = self._fetches
        ready = [one for one in news if one.fetch.waiting and one.source in self._fetches]
        return self._planned_for(ready, limit) if ready else None

    def _wake(self) -> None:
        """Take the partitions back whose rest is over."""
        over = [one for one in self._resting if one.is_awake]
        for one in over:
            self._resting.remove(one)
        if over:
            self._fetches = {**self._fetches, **{one.source: one.fetch for one in over}}

    def _rest(self, failures: Collection[tuple[MirroredPartition, str]]) -> None:
        """Leave these partitions alone for a while, for these reasons."""
        rest(failures)
        failed = {one.source: one for one, _ in failures if one.source in self._fetches}
        if failed:
            self._resting.extend(failed.values())
            self._fetches = {source: fetch for source, fetch in self._fetches.items() if source not in failed}

    def _begin_at(self, stored: Mapping[TopicPartition, SourceOffset | None]) -> None:
        """Place each partition after its stored offset, or at the position that `SourcePositions` finds."""
        fetches = self._positions.after(stored, self._partitions.keys())
        for one in self._partitions.values():
            one.go_back()
        self._place(fetches)
        self._known = len(self._partitions) == len(self._assigned)

    def _place(self, fetches: Iterable[PartitionFetch]) -> None:
        """Go on at the positions of these fetches."""
        placed = {}
        for fetch in fetches:
            known = self._partitions.get(fetch.partition)
            if known is None:
                known = self._partitions[fetch.partition] = MirroredPartition(fetch, self._assigned[fetch.partition])
            elif known.fetch.topic_id == fetch.topic_id:
                known.begin_at(fetch.position)
                continue
            else:
                known.begin_anew(fetch)
            if known not in self._resting:
                placed[fetch.partition] = fetch
        if placed:
            self._fetches = {**self._fetches, **placed}

    def _mend(self, partitions: Iterable[MirroredPartition]) -> None:
        """Let partitions that cannot be read rest; those whose offset no longer exists begin anew."""
        failed = [one for one in partitions if one.fetch.error is not None]
        if of_former := [one.fetch for one in failed if one.fetch.is_of_former_topic]:
            self._place(self._positions.in_namesakes(of_former))
        lost = [one for one in failed if one.fetch.is_lost]
        begins = self._positions.begins([one.source for one in lost])
        for one in lost:
            if (begin := begins.get(one.source)) is not None:
                tell_of_gap(one.fetch, begin)
                one.begin_at(begin)
        self._rest([(one, f"{self._alias} cannot be read: {shown(e)}") for one in failed if (e := one.fetch.error)])

    def _planned_for(self, ready: Sequence[MirroredPartition], limit: Limit) -> Plan:
        records: list[MirroredPartition] = []
        copies: list[MirroredPartition] = []
        for one in ready:
            (records if one.goes_by_records() else copies).append(one)
        # Neither kind waits for the other to have nothing left.
        self._by_records = bool(records) and (not copies or not self._records_last)
        self._records_last = self._by_records
        chosen = records if self._by_records else copies
        rows = sum(one.backlog for one in chosen)
        size = sum(one.backlog * one.row_bytes for one in chosen)
        share = min(1.0, limit.rows / max(1, rows), limit.bytes / max(1.0, size))
        self._ranges = tuple(one.range(share, self._by_records) for one in chosen)
        self._planned = {one.source: one for one in chosen}
        self._topics = tuple(sorted({one.target.topic for one in self._ranges}))
        splits = tuple(
            Split(
                self._stored_as(one.source),
                {"offset": one.after},
                {"offset": one.upto},
                # Compaction may have taken all of them.
                offset_if_empty={"offset": one.upto} if self._by_records else None,
            )
            for one in self._ranges
        )
        planned = sum(one.upto - one.after for one in self._ranges)
        return Plan(splits, planned, int(size * planned / max(1, rows)))

    def reader(self, plan: Plan) -> MirrorReader:
        """A reader of the planned ranges."""
        return MirrorReader(self._flow, self._ranges, self._by_records, self._opened)

    def records(self, frame: DataFrame) -> Records:
        """Kafka's records, with optional bytes as keys and values."""
        nothing = F.lit(None)
        columns = [
            *(F.col(name) for name in ("topic", "partition", "timestamp", "headers")),
            F.lit(0).alias("key_schema"),
            F.lit(0).alias("value_schema"),
            F.col("key").alias("key_0"),
            F.col("value").alias("value_0"),
            nothing.cast(ERROR).alias("error"),
            F.lit(False).alias("drop"),
            F.col("source_offset"),
            F.col("split"),
        ]
        return Records(frame.select(*columns), keys=(OPTIONAL_BYTES,), values=(OPTIONAL_BYTES,))

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Writes offset syncs; lets partitions that got stuck rest.

        Errors: RetriableError if records may have been read from a new topic of the same name.
        """
        if self._by_records:
            self._check_topics()
        failures = []
        for result in reached:
            stored = result.source_partition or {}
            one = self._planned[TopicPartition(stored["topic"], stored["partition"])]
            if result.source_offset is not None:
                one.reached(result.source_offset["offset"], self._by_records)
            else:
                one.go_back()
            if result.stop is Stop.AS_RECORDS:
                one.not_whole()
            elif result.stop is Stop.RETRY and not self._stopping.is_set():
                failures.append((one, result.reason or "they went no further"))
            timestamp = result.deliveries[-1].timestamp if result.deliveries else -1
            self._metrics[one.source].copied(result.written, result.bytes, timestamp, self._read_at_ms)
            if self._syncs is not None:
                pairs = [(delivery.source_offset["offset"], delivery.offset) for delivery in result.deliveries]
                self._syncs.arrived(one.source, pairs)
        self._rest(failures)

    def _check_topics(self) -> None:
        """Refuse planned topics that were made again, since records are read by name. Errors: RetriableError."""
        if remade := self._positions.remade([one.fetch for one in self._planned.values()]):
            self._known = False
            raise RetriableError(
                f"topics on {self._alias} were deleted and made again while they were read, and are read anew: "
                f"{', '.join(sorted(remade))}"
            )

    def offsets_reached(self, reached: PartitionResult) -> Sequence[tuple[SourcePartition, SourceOffset | None]]:
        """The last record's offset, with its topic id."""
        if reached.source_partition is None or reached.source_offset is None:
            return ()
        stored = reached.source_partition
        fetch = self._planned[TopicPartition(stored["topic"], stored["partition"])].fetch
        return ((stored, with_topic_id(reached.source_offset, fetch.topic_id)),)

    def undelivered(self) -> None:
        """Begins anew from the stored offsets."""
        self._known = False

    def committed(self, reached: Sequence[PartitionResult]) -> None:
        """Writes the delayed offset syncs."""
        if self._syncs is not None:
            self._syncs.write_delayed()

    def samples(self) -> Iterable[Sample]:
        """MirrorMaker's metrics of each partition, and the lag of its consumer."""
        if not hasattr(self, "_partitions"):
            return  # not started yet, or it could not be
        client_id = str(self._flow.source.java["client.id"])
        for source, metrics in self._metrics.items():
            yield from metrics.samples()
            one = self._partitions.get(source)
            yield lag(client_id, *source, None if one is None else one.lag)

    def stop(self) -> None:
        """Closes all connections."""
        opened, self._opened = getattr(self, "_opened", None), None
        if opened is not None:
            opened.close()
        if (syncs := getattr(self, "_syncs", None)) is not None:
            syncs.close()


def partitions_in(text: str) -> list[TopicPartition]:
    """The partitions in a task's config: `topic-partition`, separated by commas."""
    names = [name.rpartition("-") for name in text.split(",") if name.strip()]
    return [TopicPartition(topic.strip(), int(number)) for topic, _, number in names]


def _committed_only(consumer: ClientConfig) -> ClientConfig:
    return ClientConfig(consumer.kind, {"isolation.level": "read_committed", **consumer.java})
