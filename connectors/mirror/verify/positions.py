"""Finds the same record in both logs: the end of a partition's copy, and the beginning of a range in the copy.

Offsets differ between the clusters after compaction, transactions, retention and repeated deliveries, and offset syncs
tell of some records only. So a record is found by its content, together with its neighbours; offset syncs and
timestamps tell where to begin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from headrace.connectors.mirror.verify.cluster import ClusterReader
from headrace.connectors.mirror.verify.reading import OffsetRange
from headrace.connectors.mirror.verify.records import Fingerprints, Integers, fingerprints, key_fingerprints
from headrace.plugins.offsets import TopicPartition

NEIGHBOURS: Final = 64
"""So many records beside it tell it from equal records elsewhere."""
_FIRST_LOOK: Final = 1024
_FARTHEST_LOOK: Final = 4_000_000
"""A record is looked for among so many offsets."""
_CANDIDATES: Final = 1000


@dataclass(frozen=True)
class PartitionSlice:
    """A part of a partition: the offset, the timestamp and the fingerprint of each record."""

    offsets: Integers
    timestamps: Integers
    marks: Fingerprints
    keys: Fingerprints
    alive: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """True if it has a value, and is no tombstone."""

    def __len__(self) -> int:
        return len(self.offsets)

    def tail(self, count: int) -> PartitionSlice:
        """Its last records."""
        part = slice(max(0, len(self) - count), None)
        return PartitionSlice(
            self.offsets[part], self.timestamps[part], self.marks[part], self.keys[part], self.alive[part]
        )


@dataclass
class _Parts:
    columns: list[list[np.ndarray[tuple[int], np.dtype[np.generic]]]] = field(
        default_factory=lambda: [[], [], [], [], []]
    )

    def window(self) -> PartitionSlice:
        kinds = (np.int64, np.int64, np.uint64, np.uint64, np.bool_)
        joined = [
            np.concatenate(parts) if parts else np.empty(0, kind)
            for parts, kind in zip(self.columns, kinds, strict=True)
        ]
        return PartitionSlice(*joined)


def windows(
    cluster: ClusterReader,
    ranges: Mapping[TopicPartition, OffsetRange],
    timestamps: Callable[[TopicPartition], bool],
    progress: Callable[[int], None] = lambda offsets: None,
) -> dict[TopicPartition, PartitionSlice]:
    """Read these ranges; `timestamps` is true for partitions whose timestamps belong to a record's identity."""
    parts = {at: _Parts() for at in ranges}
    for at, batch in cluster.read(ranges, progress):
        columns = (
            batch["offset"].to_numpy(),
            batch["timestamp"].fill_null(-1).to_numpy(),
            fingerprints(batch, timestamps(at)),
            key_fingerprints(batch),
            batch["value"].is_valid().to_numpy(zero_copy_only=False),
        )
        for kept, column in zip(parts[at].columns, columns, strict=True):
            kept.append(column)
    return {at: found.window() for at, found in parts.items()}


def tails(
    cluster: ClusterReader, ranges: Mapping[TopicPartition, OffsetRange], timestamps: Callable[[TopicPartition], bool]
) -> dict[TopicPartition, PartitionSlice]:
    """The last records of each range that holds any; gaps and markers at its end are skipped."""
    found: dict[TopicPartition, PartitionSlice] = {}
    size, left = NEIGHBOURS, {at: one for at, one in ranges.items() if one.start < one.end}
    while left:
        asked = {at: OffsetRange(max(one.start, one.end - size), one.end) for at, one in left.items()}
        for at, window in windows(cluster, asked, timestamps).items():
            if len(window):
                found[at] = window.tail(NEIGHBOURS)
            if len(window) or asked[at].start == left[at].start:
                del left[at]
        size *= 16
    return found


def heads(
    cluster: ClusterReader, ranges: Mapping[TopicPartition, OffsetRange], timestamps: Callable[[TopicPartition], bool]
) -> dict[TopicPartition, PartitionSlice]:
    """The first records of each range that holds any."""
    found: dict[TopicPartition, PartitionSlice] = {}
    size, left = NEIGHBOURS, {at: one for at, one in ranges.items() if one.start < one.end}
    while left:
        asked = {at: OffsetRange(one.start, min(one.end, one.start + size)) for at, one in left.items()}
        for at, window in windows(cluster, asked, timestamps).items():
            if len(window):
                found[at] = window
            if len(window) or asked[at].end == left[at].end:
                del left[at]
        size *= 16
    return found


@dataclass(frozen=True)
class Wanted:
    """A record to be found in the other log, by its neighbours."""

    marks: Fingerprints
    """Its own first, then those of its neighbours, going away from the end of the log that it stands at."""
    within: OffsetRange
    """The range in which it may be."""
    expected: int | None = None
    """Its offset if there were no gaps."""
    backward: bool = False
    """True if its neighbours stand before it, not after it."""


def find(
    cluster: ClusterReader, wanted: Mapping[TopicPartition, Wanted], timestamps: Callable[[TopicPartition], bool]
) -> dict[TopicPartition, tuple[int, int]]:
    """Offset and timestamp of each record that is found; searches the whole range, near offsets first."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    size, left = _FIRST_LOOK, {at: one for at, one in wanted.items() if one.within.start < one.within.end}
    while left:
        asked = {at: _look(one, size) for at, one in left.items()}
        for at, window in windows(cluster, asked, timestamps).items():
            place = best_match(left[at], window)
            if place is not None:
                found[at] = (int(window.offsets[place]), int(window.timestamps[place]))
            if place is not None or asked[at].end == left[at].within.end or size >= _FARTHEST_LOOK:
                del left[at]
        size *= 8
    return found


def _look(one: Wanted, size: int) -> OffsetRange:
    ahead = max(0, (one.expected or 0) - one.within.start)
    return OffsetRange(one.within.start, min(one.within.end, one.within.start + ahead + size))


def best_match(wanted: Wanted, window: PartitionSlice) -> int | None:
    """The index in the window of the record with the same content and the most equal neighbours.

    Of several the nearest to the expected offset; if none is expected, the first.
    """
    if not len(wanted.marks):
        return None
    places = np.flatnonzero(window.marks == wanted.marks[0])[:_CANDIDATES]
    best: tuple[int, int] | None = None
    chosen = None
    step = -1 if wanted.backward else 1
    for place in map(int, places):
        beside = window.marks[place::step][: len(wanted.marks)]
        same = beside == wanted.marks[: len(beside)]
        run = len(same) if same.all() else int(np.argmin(same))
        distance = place if wanted.expected is None else abs(int(window.offsets[place]) - wanted.expected)
        if best is None or (run, -distance) > best:
            best, chosen = (run, -distance), place
    return chosen
