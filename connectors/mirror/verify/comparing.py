"""Reads both sides of the ranges and compares them: all by digest, in parallel, and those that differ by record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from headrace.connectors.mirror.verify.cluster import ClusterReader
from headrace.connectors.mirror.verify.comparison import Comparison, compare_by_key, compare_in_order
from headrace.connectors.mirror.verify.positions import windows
from headrace.connectors.mirror.verify.ranges import Aligner, by_key
from headrace.connectors.mirror.verify.reading import OffsetRange
from headrace.connectors.mirror.verify.records import RangeDigest
from headrace.connectors.mirror.verify.report import PartitionReport
from headrace.connectors.mirror.verify.request import Asked
from headrace.plugins.offsets import TopicPartition

MOST_BY_RECORD: Final = 20_000_000
"""A partition of more offsets is not compared record by record: each takes some 50 bytes of memory."""

Progress = Callable[[str, int, int], None]
"""Gets the side (`source`, `target`), the offsets newly done, and the offsets newly to do."""


class Comparing:
    """Compares the records of partitions; keys are the source's partitions."""

    def __init__(self, aligner: Aligner, compacted: Collection[TopicPartition], progress: Progress) -> None:
        self._aligner, self._compacted, self._progress = aligner, compacted, progress

    def compare(self, asked: Asked, reports: Mapping[TopicPartition, PartitionReport]) -> None:
        """Give each report its comparison. Errors: UnreachableError."""
        found = self._aligner.asked(asked, reports)
        ordered = {at: one for at, one in found.items() if at not in self._compacted}
        self._aligner.by_order(ordered, reports)
        self._by_digest({at: one for at, one in ordered.items() if one.equal is None and one.downstream.end})
        for at, one in ordered.items():
            if one.equal is False:
                self._by_record(at, one, reports[at])
            if one.missing:
                one.equal = False
        for at in found.keys() & set(self._compacted):
            found[at] = by_key(found[at], reports[at])
            self._by_key(at, found[at], reports[at])
        for at, one in found.items():
            reports[at].comparison = one

    def _by_digest(self, comparisons: Mapping[TopicPartition, Comparison]) -> None:
        aligner = self._aligner
        upstream = {at: one.upstream for at, one in comparisons.items()}
        downstream = {aligner.copies[at]: one.downstream for at, one in comparisons.items()}
        with ThreadPoolExecutor(2, thread_name_prefix="verify") as sides:
            ours = sides.submit(self._digests, "source", aligner.source, upstream, aligner.times)
            theirs = sides.submit(self._digests, "target", aligner.target, downstream, aligner.times_of_copy)
            source, target = ours.result(), theirs.result()
        for at, one in comparisons.items():
            one.take_digests(source[at], target[aligner.copies[at]])

    def _digests(
        self,
        side: str,
        cluster: ClusterReader,
        ranges: Mapping[TopicPartition, OffsetRange],
        times: Callable[[TopicPartition], bool],
    ) -> dict[TopicPartition, RangeDigest]:
        self._progress(side, 0, sum(one.end - one.start for one in ranges.values()))
        found = {at: RangeDigest(times(at)) for at in ranges}
        for at, batch in cluster.read(ranges, lambda done: self._progress(side, done, 0)):
            found[at].add(batch)
        return found

    def _by_record(self, at: TopicPartition, one: Comparison, report: PartitionReport) -> None:
        ranges = (one.upstream, one.downstream)
        if max(part.end - part.start for part in ranges) > MOST_BY_RECORD:
            one.notes.append(
                f"more than {MOST_BY_RECORD} offsets are not looked at one by one: ask for a smaller range"
            )
            return
        aligner, copy = self._aligner, self._aligner.copies[at]
        ours = windows(aligner.source, {at: one.upstream}, aligner.times, self._more("source", one.upstream))[at]
        theirs = windows(
            aligner.target, {copy: one.downstream}, aligner.times_of_copy, self._more("target", one.downstream)
        )[copy]
        before = (one.missing, one.missing_at, list(one.notes))
        compare_in_order(one, ours, theirs)
        if before[0]:  # the copy begins too late, which is the more telling
            one.missing, one.missing_at = one.missing + before[0], [*before[1], *one.missing_at]
            one.notes = [*before[2], *one.notes]
        if one.equal is False:
            self._overtaken(at, one, report)

    def _by_key(self, at: TopicPartition, one: Comparison, report: PartitionReport) -> None:
        if max(part.end - part.start for part in (report.source, report.target)) > MOST_BY_RECORD:
            one.notes.append(f"the topic is compacted, and more than {MOST_BY_RECORD} offsets are not compared by key")
            return
        aligner, copy = self._aligner, self._aligner.copies[at]
        ours = windows(aligner.source, {at: report.source}, aligner.times, self._more("source", report.source))[at]
        theirs = windows(
            aligner.target, {copy: report.target}, aligner.times_of_copy, self._more("target", report.target)
        )[copy]
        compare_by_key(one, ours, theirs)

    def _overtaken(self, at: TopicPartition, one: Comparison, report: PartitionReport) -> None:
        """Forgive records that were deleted while they were read."""
        source = self._aligner.source.ranges([at])[at]
        copy = self._aligner.copies[at]
        target = self._aligner.target.ranges([copy])[copy]
        if source.start > one.upstream.start or target.start > one.downstream.start:
            one.equal = None
            one.missing = one.extra = 0
            one.notes = ["records of the range were deleted while it was compared, by retention or by an operator"]

    def _more(self, side: str, part: OffsetRange) -> Callable[[int], None]:
        self._progress(side, 0, part.end - part.start)
        return lambda done: self._progress(side, done, 0)
