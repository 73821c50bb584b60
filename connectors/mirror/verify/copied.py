"""Finds how far partitions are copied: the last record of the copy at the source, and the records after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.connectors.mirror.verify.cluster import ClusterReader
from headrace.connectors.mirror.verify.positions import NEIGHBOURS, Wanted, find, tails
from headrace.connectors.mirror.verify.reading import OffsetRange
from headrace.connectors.mirror.verify.report import PartitionReport
from headrace.connectors.mirror.verify.state import Pair, ReplicationState
from headrace.plugins.offsets import TopicPartition

_COUNTED: Final = 2_000
"""Waiting records are counted one by one up to so many offsets of a partition."""


class CopiedRanges:
    """Fills in the reports of partitions, which are keyed by the source's partitions."""

    def __init__(
        self,
        source: ClusterReader,
        target: ClusterReader,
        state: ReplicationState,
        copies: Mapping[TopicPartition, TopicPartition],
        timestamps_of_copy: Callable[[TopicPartition], bool],
    ) -> None:
        """`copies` has the target's partition of each of the source's."""
        self._source, self._target, self._state, self._copies = source, target, state, copies
        self._sources = {copy: at for at, copy in copies.items()}
        self._times_of_copy = timestamps_of_copy
        self.newest = source.newest(copies) if copies else {}

    def times(self, at: TopicPartition) -> bool:
        """True if timestamps belong to the identity of the records of this partition of the source."""
        return self._times_of_copy(self._copies[at])

    def fill(self, reports: Mapping[TopicPartition, PartitionReport]) -> None:
        """Fill in each partition's end of the copy and its lag. Errors: UnreachableError."""
        for at, one in reports.items():
            one.stored = self._state.stored.get(at)
            syncs = self._state.syncs.get(at)
            one.sync = syncs[-1] if syncs else None
            one.newest_ms = self.newest[at].timestamp_ms if at in self.newest else None
        self._find(reports)
        for one in reports.values():
            if one.copied is None:
                _fall_back(one)
        self._count(reports)

    def _find(self, reports: Mapping[TopicPartition, PartitionReport]) -> None:
        ends = tails(self._target, {self._copies[at]: one.target for at, one in reports.items()}, self._times_of_copy)
        last = {self._sources[copy]: window for copy, window in ends.items()}
        times = {at: int(window.timestamps[-1]) for at, window in last.items() if self.times(at)}
        since = self._source.offsets_since(times) if times else {}
        wanted = {}
        for at, window in last.items():
            one, downstream = reports[at], int(window.offsets[-1])
            sync = one.sync if one.sync is not None and _holds(one.sync, one) else None
            earliest = max(since.get(at, one.source.start), sync.upstream if sync else 0, one.source.start)
            within = OffsetRange(max(one.source.start, earliest - NEIGHBOURS), one.source.end)
            expected = sync.upstream + downstream - sync.downstream if sync else within.start
            wanted[at] = Wanted(window.marks[::-1], within, expected, backward=True)
        for at, (upstream, timestamp) in find(self._source, wanted, self.times).items():
            one = reports[at]
            one.copied, one.copied_by = Pair(upstream, int(last[at].offsets[-1])), "content"
            one.last_copied_ms = timestamp
        for at in last.keys() - {at for at, one in reports.items() if one.copied is not None}:
            reports[at].notes.append("the last record of the copy is not found at the source")

    def _count(self, reports: Mapping[TopicPartition, PartitionReport]) -> None:
        waiting = {}
        for at, one in reports.items():
            after = one.copied.upstream if one.copied else one.stored if one.copied_by == "stored" else None
            start = one.source.start if after is None else max(one.source.start, after + 1)
            waiting[at] = OffsetRange(min(start, one.source.end), one.source.end)
        few = {at: one for at, one in waiting.items() if one.end - one.start <= _COUNTED}
        counts = dict.fromkeys(few, 0)
        for at, batch in self._source.read(few):
            counts[at] += batch.num_rows
        for at, one in reports.items():
            one.lag_is_exact = at in counts
            one.lag_records = counts[at] if at in counts else waiting[at].end - waiting[at].start
            if one.lag_records == 0:
                one.lag_seconds = 0.0
            elif one.newest_ms is not None and one.last_copied_ms is not None:
                one.lag_seconds = max(0, one.newest_ms - one.last_copied_ms) / 1000


def _holds(sync: Pair, one: PartitionReport) -> bool:
    return sync.upstream < one.source.end and sync.downstream < one.target.end


def _fall_back(one: PartitionReport) -> None:
    """Use the replication's own state if the copy's last record is not found."""
    if one.sync is not None and not _holds(one.sync, one):
        one.notes.append(
            f"its offset sync {one.sync.upstream} -> {one.sync.downstream} is beyond the end of a log: a topic was "
            "deleted and made again"
        )
    elif one.sync is not None:
        one.copied, one.copied_by = one.sync, "sync"
    elif one.stored is not None and one.stored < one.source.end:
        one.copied_by = "stored"
