"""Compares two ranges of records: by digests first, and record by record if those differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from headrace.connectors.mirror.verify.positions import PartitionSlice
from headrace.connectors.mirror.verify.reading import OffsetRange
from headrace.connectors.mirror.verify.records import Fingerprints, Integers, RangeDigest

EXAMPLES: Final = 5


@dataclass
class Comparison:
    """The result of comparing one partition's ranges."""

    upstream: OffsetRange
    downstream: OffsetRange
    equal: bool | None = None
    """None: it could not be compared; `notes` tell why."""
    by: str = "order"
    """`order`: every record in its place. `key`: the last record of each key, as the topic is compacted."""
    upstream_records: int = 0
    downstream_records: int = 0
    upstream_bytes: int = 0
    digest: str = ""
    """The digest of the source's range; also of the target's, if that is equal without repeated records."""
    repeated: int = 0
    """Records that are in the copy more than once, as at-least-once delivery has it."""
    missing: int = 0
    missing_at: list[int] = field(default_factory=list)
    """The first upstream offsets of records that are not in the copy."""
    extra: int = 0
    extra_at: list[int] = field(default_factory=list)
    """The first downstream offsets of records that are not at the source."""
    notes: list[str] = field(default_factory=list)

    def take_digests(self, source: RangeDigest, target: RangeDigest) -> None:
        """Compare the digests: the ranges are equal if all columns are."""
        self.upstream_records, self.downstream_records = source.count, target.count
        self.upstream_bytes = source.bytes
        self.digest = source.hex()
        self.equal = self.digest == target.hex()
        if not self.equal and source.count == target.count:
            ours, theirs = source.columns(), target.columns()
            self.notes.append(f"{' and '.join(name for name in ours if ours[name] != theirs[name])} differ")


def compare_in_order(result: Comparison, source: PartitionSlice, target: PartitionSlice) -> None:
    """Find repeated, missing and extra records, and another order.

    Two ranges are equal if their records, each at its first appearance, are the same in the same order: so much
    at-least-once delivery promises.
    """
    source_marks, ours, our_counts = np.unique(source.marks, return_index=True, return_counts=True)
    target_marks, theirs, their_counts = np.unique(target.marks, return_index=True, return_counts=True)
    if np.array_equal(source_marks, target_marks):
        more = their_counts - our_counts
        result.repeated = int(more[more > 0].sum())
        too_few = np.flatnonzero(more < 0)
        _take_missing(result, np.sort(source.offsets[ours[too_few]]))
        result.missing = int(-more[too_few].sum())
    ours, theirs = np.sort(ours), np.sort(theirs)
    result.equal = not result.missing and np.array_equal(source.marks[ours], target.marks[theirs])
    if result.equal or result.missing:
        result.notes.clear()
        return
    _take_missing(result, source.offsets[ours[_absent(source.marks[ours], target.marks)]])
    _take_extra(result, target.offsets[theirs[_absent(target.marks[theirs], source.marks)]])
    if not result.missing and not result.extra:
        shorter = min(len(ours), len(theirs))
        place = int(np.argmax(source.marks[ours[:shorter]] != target.marks[theirs[:shorter]]))
        at = f"upstream offset {source.offsets[ours[place]]}, downstream offset {target.offsets[theirs[place]]}"
        result.notes.append(f"the order differs from {at} on")


def compare_by_key(result: Comparison, source: PartitionSlice, target: PartitionSlice) -> None:
    """Compare the last record of each key as far as the topic is copied, without newer and deleted ones.

    The cleaner runs on each cluster when it likes, so older records of a key may be on one side alone.
    """
    result.by = "key"
    ours, theirs = _last_of_keys(source), _last_of_keys(target)
    in_range = (source.offsets[ours] >= result.upstream.start) & (source.offsets[ours] < result.upstream.end)
    result.upstream_records = int(in_range.sum())
    settled = target.offsets[theirs] < result.downstream.end
    result.downstream_records = int(settled.sum())
    place = {key: at for at, key in enumerate(target.keys[theirs].tolist())}
    there = np.array([place.get(key, -1) for key in source.keys[ours].tolist()], dtype=np.int64)
    absent = in_range & (there < 0) & source.alive[ours]
    differs = np.zeros(len(ours), bool)
    both = in_range & (there >= 0)
    if both.any():
        mate = theirs[there[both]]
        same = (source.marks[ours[both]] == target.marks[mate]) | (target.offsets[mate] >= result.downstream.end)
        differs[both] = ~same
    _take_missing(result, np.sort(source.offsets[ours[absent | differs]]))
    unknown = settled & target.alive[theirs] & ~np.isin(target.keys[theirs], source.keys[ours])
    _take_extra(result, np.sort(target.offsets[theirs[unknown]]))
    result.equal = not result.missing and not result.extra
    result.notes.clear()
    if result.missing:
        result.notes.append("the last record of a key differs or is not there")


def _take_missing(result: Comparison, offsets: Integers) -> None:
    result.missing, result.missing_at = len(offsets), offsets[:EXAMPLES].tolist()


def _take_extra(result: Comparison, offsets: Integers) -> None:
    result.extra, result.extra_at = len(offsets), offsets[:EXAMPLES].tolist()


def _last_of_keys(window: PartitionSlice) -> Integers:
    backward = np.unique(window.keys[::-1], return_index=True)[1]
    return len(window) - 1 - backward


def _absent(wanted: Fingerprints, among: Fingerprints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return ~np.isin(wanted, among)
