"""Joins the parts of one partition, which a job's writers wrote side by side without knowing of each other.

Parts are cut at the beginnings of files if each record counts. A part that ended all of its files, in the schema of the
next part's files, left the next one as a single writer for both would have. Later parts are discarded: their rows come
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.connectors.hdfs.sink.writer import WrittenPart
from headrace.plugins.offsets import TopicPartition


class MergedParts(NamedTuple):
    """The parts of one partition."""

    partition: TopicPartition
    whole: list[WrittenPart]
    """The parts to commit, in their order."""
    discarded: list[WrittenPart]
    held: int | None
    """The first offset that is not in whole files."""


def merge_parts(parts: Sequence[WrittenPart]) -> MergedParts:
    """Join parts of one partition."""
    ordered = sorted((part for part in parts if part.first is not None), key=lambda part: part.first or 0)
    whole = ordered[:1]
    for part in ordered[1:]:
        if not _follows(part, whole[-1]):
            break
        whole.append(part)
    discarded = ordered[len(whole) :]
    held = whole[-1].held if whole else None
    if held is None and discarded:
        held = discarded[0].first
    return MergedParts(parts[0].partition, whole, discarded, held)


def _follows(part: WrittenPart, before: WrittenPart) -> bool:
    return before.held is None and all(file.layout == before.files[-1].layout for file in part.files)
