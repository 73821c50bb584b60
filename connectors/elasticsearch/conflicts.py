"""Tells apart why a document is there already with a higher version than its record has.

- A later record of the same batch was faster, or its request was: as it should be.
- The partition's records come again, after a restart or a failed attempt: as it should be. This lasts until as many
  pieces in a row have no conflict as a writer may have sent at once, for the last ones need not all have arrived.
- Else another record is newer by its offset only: its key is in several partitions, or the topic was made again and its
  offsets begin anew.

Decided: versions are plain offsets, as Confluent's connector writes them, so that a sink can go on in its indices;
loses: a topic's generation and partition, which such a version cannot tell. The third case is found by its conflicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from headrace.connectors.elasticsearch.bulk import Piece, Settled
from headrace.plugins.offsets import TopicPartition


@dataclass
class Replay:
    """A partition's records that come again."""

    superseded: int = 0
    """Documents that were there with a higher version."""
    highest: int = -1
    """The highest version met."""
    last: int = -1
    """The last offset written."""
    clean: int = 0
    """The number of pieces in a row without a conflict."""
    is_over: bool = False

    def add(self, other: Replay) -> None:
        """Take over what another batch found."""
        self.superseded += other.superseded
        self.highest = max(self.highest, other.highest)
        self.last = max(self.last, other.last)
        self.clean = other.clean
        self.is_over = self.is_over or other.is_over


@dataclass
class Replays:
    """The partitions of one writer whose records may come again."""

    of: dict[TopicPartition, Replay] = field(default_factory=dict)

    def covers(self, one: Settled) -> bool:
        """True if the record may have come again; notes the conflict."""
        replay = self.of.get(TopicPartition(*one.place[:2]))
        if replay is None or replay.is_over:
            return False
        replay.superseded += 1
        replay.highest = max(replay.highest, -1 if one.item.current is None else one.item.current)
        return True

    def follow(self, piece: Piece, conflicts: Iterable[Settled], in_flight: int) -> None:
        """Note how far a piece got its partitions; end replays after `in_flight` pieces without a conflict."""
        met = {TopicPartition(*one.place[:2]) for one in conflicts}
        for partition, replay in self.of.items():
            offsets = _offsets(piece, partition)
            if len(offsets):
                replay.last = max(replay.last, int(offsets[-1]))
                replay.clean = 0 if partition in met else replay.clean + 1
                replay.is_over = replay.is_over or replay.clean >= in_flight


def is_same_write(one: Settled) -> bool:
    """True if the document that is there is this record's own, from an earlier attempt."""
    if one.item.current is not None:
        return one.item.current == one.document.version
    return one.document.id == "+".join(map(str, one.place))


def explained(one: Settled, pieces: Iterable[Piece]) -> bool:
    """True if a later record of these pieces wrote the document."""
    topic, number, _ = one.place
    if one.item.current is None:
        return False
    for piece in pieces:
        rows = piece.rows
        found = np.asarray(rows["origin_offset"]) == one.item.current
        found &= np.asarray(rows["origin_partition"]) == number
        for index in np.flatnonzero(found):
            other = piece.document(int(index))
            is_mine = rows["origin_topic"][int(index)].as_py() == topic
            if is_mine and (other.where, other.id) == (one.document.where, one.document.id):
                return True
    return False


def _offsets(piece: Piece, partition: TopicPartition) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rows = piece.rows
    of_it = pc.and_(
        pc.equal(rows["origin_topic"], partition.topic), pc.equal(rows["origin_partition"], partition.partition)
    )
    return np.asarray(rows["origin_offset"].filter(of_it))
