"""The compared ranges of records: parts of the source, and their counterparts in the copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.connectors.mirror.verify.cluster import ClusterReader
from headrace.connectors.mirror.verify.comparison import Comparison
from headrace.connectors.mirror.verify.positions import Wanted, find, heads, tails
from headrace.connectors.mirror.verify.reading import OffsetRange
from headrace.connectors.mirror.verify.report import PartitionReport
from headrace.connectors.mirror.verify.request import Asked
from headrace.connectors.mirror.verify.state import ReplicationState
from headrace.plugins.offsets import TopicPartition

_NOTHING: Final = OffsetRange(0, 0)


@dataclass(frozen=True)
class Aligner:
    """Finds the copy's counterpart of ranges of the source; partitions are the source's."""

    source: ClusterReader
    target: ClusterReader
    state: ReplicationState
    copies: Mapping[TopicPartition, TopicPartition]
    times: Callable[[TopicPartition], bool]
    times_of_copy: Callable[[TopicPartition], bool]
    from_earliest: bool
    """True if the replication begins a partition at its first record: a copy that begins later lacks something."""

    def asked(
        self, asked: Asked, reports: Mapping[TopicPartition, PartitionReport]
    ) -> dict[TopicPartition, Comparison]:
        """The requested and copied ranges of the source, without the target's yet."""
        since = asked.since_ms()
        starts = self.source.offsets_since(dict.fromkeys(reports, since)) if since is not None else {}
        found = {}
        for at, one in reports.items():
            copied = one.copied.upstream + 1 if one.copied else one.source.start
            end = copied if asked.to_offset is None else max(one.source.start, min(copied, asked.to_offset + 1))
            start = one.source.start
            if asked.last is not None:
                start = max(start, end - asked.last)
            elif asked.from_offset is not None:
                start = max(start, asked.from_offset)
            elif since is not None:
                start = max(start, starts.get(at, end))
            found[at] = Comparison(OffsetRange(min(start, end), end), _NOTHING)
        return found

    def by_order(
        self, comparisons: Mapping[TopicPartition, Comparison], reports: Mapping[TopicPartition, PartitionReport]
    ) -> None:
        """Fill in the target's ranges; note why if that cannot be done soundly."""
        left = {}
        for at, one in comparisons.items():
            if reports[at].copied is None and reports[at].target.end > reports[at].target.start:
                one.notes.append("it is not known how far it is copied")
            elif reports[at].copied_by == "sync":
                one.notes.append("the end of the copy is not found at the source")
            elif one.upstream.end > one.upstream.start:
                left[at] = one
            else:
                lacking = reports[at].copied is None and reports[at].source.end > reports[at].source.start
                one.equal = None if lacking else True
                one.notes += ["nothing is copied"] if lacking else []
        ends = self._ends(left, reports)
        self._starts({at: left[at] for at in ends}, ends, reports)

    def _ends(
        self, comparisons: Mapping[TopicPartition, Comparison], reports: Mapping[TopicPartition, PartitionReport]
    ) -> dict[TopicPartition, int]:
        """The offset at the target after the last record of each range."""
        found, wanted = {}, {}
        earlier = {}
        for at, one in comparisons.items():
            copied = reports[at].copied
            assert copied is not None
            if one.upstream.end == copied.upstream + 1:
                found[at] = copied.downstream + 1
            else:
                earlier[at] = one.upstream
        for at, window in tails(self.source, earlier, self.times).items():
            whole = reports[at].target
            expected = self._expected(at, int(window.offsets[-1]))
            wanted[self.copies[at]] = Wanted(window.marks[::-1], whole, expected, backward=True)
        places = find(self.target, wanted, self.times_of_copy)
        for at in earlier:
            if self.copies[at] in places:
                found[at] = places[self.copies[at]][0] + 1
            else:
                comparisons[at].notes.append("the range's last record is not found at the target")
        return found

    def _starts(
        self,
        comparisons: Mapping[TopicPartition, Comparison],
        ends: Mapping[TopicPartition, int],
        reports: Mapping[TopicPartition, PartitionReport],
    ) -> None:
        """Find each range's first record at the target, or if the copy begins later, the copy's at the source."""
        first = heads(self.source, {at: one.upstream for at, one in comparisons.items()}, self.times)
        times = {self.copies[at]: int(one.timestamps[0]) for at, one in first.items() if self.times(at)}
        since = self.target.offsets_since(times) if times else {}
        wanted = {}
        for at, window in first.items():
            expected = self._expected(at, int(window.offsets[0]))
            whole = reports[at].target
            within = OffsetRange(max(whole.start, since.get(self.copies[at], whole.start)), ends[at])
            wanted[self.copies[at]] = Wanted(window.marks, within, expected)
        places = find(self.target, wanted, self.times_of_copy)
        late = {}
        for at, one in comparisons.items():
            copy = self.copies[at]
            if at not in first:
                one.downstream, one.equal = OffsetRange(ends[at], ends[at]), True
                one.notes.append("the range holds no records")
            elif copy in places:
                one.downstream = OffsetRange(places[copy][0], ends[at])
                _older(one, reports[at])
            else:
                late[at] = OffsetRange(reports[at].target.start, ends[at])
        self._late_starts({at: comparisons[at] for at in late}, late, reports)

    def _late_starts(
        self,
        comparisons: Mapping[TopicPartition, Comparison],
        copied: Mapping[TopicPartition, OffsetRange],
        reports: Mapping[TopicPartition, PartitionReport],
    ) -> None:
        """Compare from the copy's first record on, for ranges whose first record it lacks."""
        first = heads(self.target, {self.copies[at]: one for at, one in copied.items()}, self.times_of_copy)
        wanted = {
            at: Wanted(first[self.copies[at]].marks, one.upstream)
            for at, one in comparisons.items()
            if self.copies[at] in first
        }
        places = find(self.source, wanted, self.times)
        for at, one in comparisons.items():
            if at not in places:
                one.notes.append("neither the first record of the range nor that of the copy is found in the other")
                continue
            begins = places[at][0]
            lacking = OffsetRange(one.upstream.start, begins)
            if reports[at].target.start == 0 and self.from_earliest:
                one.missing, one.missing_at = lacking.end - lacking.start, [lacking.start]
            one.notes.append(
                f"the copy begins with upstream offset {begins}; {lacking.start}..{lacking.end - 1} are not compared"
            )
            one.upstream = OffsetRange(begins, one.upstream.end)
            one.downstream = copied[at]

    def _expected(self, at: TopicPartition, upstream: int) -> int | None:
        sync = self.state.sync_before(at, upstream)
        return sync.downstream + upstream - sync.upstream if sync else None


def _older(one: Comparison, report: PartitionReport) -> None:
    if one.upstream.start == report.source.start and one.downstream.start > report.target.start:
        older = OffsetRange(report.target.start, one.downstream.start)
        one.notes.append(f"the target's {older.start}..{older.end - 1} are older than what the source still has")


def by_key(one: Comparison, report: PartitionReport) -> Comparison:
    """The comparison for a compacted topic: of the whole copy as far as it is copied."""
    end = report.copied.downstream + 1 if report.copied else report.target.end
    return replace(one, downstream=OffsetRange(report.target.start, end), by="key")
