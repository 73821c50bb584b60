"""The offset syncs of a flow, as many as translation needs: precise for recent offsets, ever coarser into the past.

Each partition has 64 slots, in falling order of their syncs' upstream offsets; neighbours may hold the same sync. Slot
0 holds the latest. For slots i < j:

- the sync in j is at most `2^j - 2^i` upstream offsets older than that in i, so that there is one near every offset;
- syncs that differ are at least `2^max(i - 2, 0)` upstream offsets apart, so that 64 slots cover any log.

A translated offset never skips a record: a group at a sync's upstream offset goes on at its downstream offset, a group
beyond it one record later, however many records have followed the sync.

Source: MirrorMaker's own invariants; the same syncs translate to the same offsets as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.connectors.mirror.formats import OffsetSync
from headrace.plugins.offsets import TopicPartition

SLOTS: Final = 64


class _Pair(NamedTuple):
    """The offsets of one record in both clusters."""

    upstream: int
    downstream: int


class OffsetSyncs:
    """The offset syncs of all partitions."""

    def __init__(self) -> None:
        self.latest_only = False
        """True while a latest sync replaces all others: it is unknown what was translated before it."""
        self._slots: dict[TopicPartition, list[_Pair]] = {}
        self.went_back: dict[TopicPartition, int] = {}
        """The downstream offsets to which copies went back: they were made again, or cut."""

    def add(self, sync: OffsetSync) -> None:
        """Take a sync; they come in the order of the topic."""
        partition = TopicPartition(sync.topic, sync.partition)
        pair, slots = _Pair(sync.upstream_offset, sync.downstream_offset), self._slots.get(partition)
        if slots is not None and pair.downstream < slots[0].downstream:
            self.went_back[partition] = min(pair.downstream, self.went_back.get(partition, pair.downstream))
        if slots is None or self.latest_only or _is_rewound(slots[0], pair):
            self._slots[partition] = [pair] * SLOTS
        else:
            self._slots[partition] = _with(slots, pair)

    def translate(self, partition: TopicPartition, upstream: int) -> int | None:
        """The offset at which a group at this upstream offset goes on; None if no sync is old enough to tell."""
        for pair in self._slots.get(partition, ()):
            if pair.upstream <= upstream:
                return pair.downstream + (upstream > pair.upstream)
        return None

    def ends(self) -> dict[TopicPartition, int]:
        """The downstream offset of each partition's latest sync."""
        return {partition: slots[0].downstream for partition, slots in self._slots.items()}

    def slots(self, partition: TopicPartition) -> Sequence[tuple[int, int]]:
        """The partition's slots: upstream and downstream offset each."""
        return list(self._slots.get(partition, ()))


def _is_rewound(latest: _Pair, pair: _Pair) -> bool:
    """True if earlier syncs are void: a topic was made again, or records were copied once more."""
    return pair.upstream < latest.upstream or pair.downstream < latest.downstream


def _with(old: list[_Pair], latest: _Pair) -> list[_Pair]:
    """The slots after a later sync: from slot 1 on, those that became too old get the best younger sync."""
    slots = [latest, *old[1:]]
    best, at = latest, 0
    for slot in range(1, SLOTS):
        above = slots[slot - 1]
        passed = True
        while passed and at < slot:
            candidate = old[at]
            is_apart = _are_apart(above, candidate, slot - 1)
            fits = is_apart and _is_near(above, candidate, slot - 1, slot)
            fits = fits and (slot + 1 == SLOTS or _are_apart(candidate, slots[slot + 1], slot))
            if fits:
                best = candidate
            # A sync too close to the slot above, or also in the next slot, is of no more use here.
            passed = not is_apart or (at + 1 < SLOTS and candidate == old[at + 1])
            at += fits or passed
        if _is_near(above, slots[slot], slot - 1, slot):
            break
        slots[slot] = best
    return slots


def _is_near(younger: _Pair, older: _Pair, i: int, j: int) -> bool:
    return younger.upstream - older.upstream <= (1 << j) - (1 << i)


def _are_apart(younger: _Pair, older: _Pair, i: int) -> bool:
    return younger == older or younger.upstream - older.upstream >= 1 << max(i - 2, 0)
