"""Chooses the small files of a partition in one directory that are merged; pure.

Decided: files are merged once none of them is larger than the others together, or the merged one is large enough, so
that a row is written again only when its file at least doubles, or for the last time: from files of 100 KB each row is
copied about six times on average, and twelve times at most, until it is in one of 128 MiB. Loses: a directory that gets
no more files keeps a few that are smaller.

Decided: a merged file may be up to twice as large as it has to be, so that none is left that is nearly large enough:
such ones would count as small for good. Loses: an upper bound that is the number in the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from headrace.connectors.hdfs.compact_settings import CompactSettings

_MORE: Final = 100
"""So many files beyond the limit are looked at; the others' turn comes once these are merged."""
_MOST_MERGED: Final = 200
"""The most files that one merged file replaces. The partition's next commit waits for their deletion: 0.5 s on HDFS."""


class CommittedFile(NamedTuple):
    """A file of the partition."""

    first: int
    last: int
    path: str
    size: int


def runs(found: Iterable[CommittedFile], is_small: Callable[[CommittedFile], bool]) -> list[list[CommittedFile]]:
    """The runs of small files in a row, without a file between them that has to stay.

    Files with the same offsets, as after offsets were reset, stay as they are.
    """
    made: list[list[CommittedFile]] = [[]]
    reached = -1
    for one in sorted(found):
        if is_small(one) and one.first > reached:
            made[-1].append(one)
        else:
            made.append([])
        reached = max(reached, one.last)
    return made


def newest(some: Sequence[list[CommittedFile]], settings: CompactSettings) -> list[list[CommittedFile]]:
    """The newest runs that are long enough, in their order, up to the number of files that one look takes."""
    left, made = settings.files + _MORE, list[list[CommittedFile]]()
    for run in reversed(some):
        if left > 0 and len(run) >= settings.files:
            made.append(run[-left:])
            left -= len(run)
    return made[::-1]


def by_layout(
    run: Sequence[CommittedFile], layout: Callable[[CommittedFile], Hashable | None]
) -> Iterator[list[CommittedFile]]:
    """Split a run into parts whose files have one layout; files without a layout are left out."""
    for found, part in groupby(run, layout):
        if found is not None:
            yield list(part)


def mergeable(run: Sequence[CommittedFile], settings: CompactSettings) -> list[CommittedFile] | None:
    """The oldest files of a run that are worth merging; None if no files of it are."""
    if len(run) < settings.files:
        return None
    for begin in range(len(run) - 1):
        total = largest = 0
        end = begin
        while end < len(run) and end - begin < _MOST_MERGED and total < settings.size_bytes:
            total, largest = total + run[end].size, max(largest, run[end].size)
            end += 1
        if end - begin > 1 and (total >= settings.size_bytes or largest <= total - largest):
            return list(run[begin:end])
    return None
