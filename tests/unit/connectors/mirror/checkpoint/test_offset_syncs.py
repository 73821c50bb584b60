"""The translation of offsets: it never skips a record, stays near the truth, and keeps its slots in order."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.mirror.checkpoint.offset_syncs import SLOTS, OffsetSyncs
from headrace.connectors.mirror.formats import OffsetSync
from headrace.plugins.offsets import TopicPartition

AT = TopicPartition("t", 0)


class Copied(NamedTuple):
    """One record that was copied; `has_sync` says whether a sync was written for it."""

    upstream: int
    downstream: int
    has_sync: bool


@st.composite
def logs(draw: st.DrawFn) -> list[Copied]:
    """A log with gaps on both sides: compaction and markers there, records that were left out here."""
    steps = draw(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 5), st.booleans()), min_size=1, max_size=300))
    upstream, downstream, log = draw(st.integers(0, 1 << 40)), draw(st.integers(0, 1 << 40)), []
    for up, down, has_sync in steps:
        upstream, downstream = upstream + up, downstream + down
        log.append(Copied(upstream, downstream, has_sync))
    return log


def store(log: list[Copied]) -> OffsetSyncs:
    syncs = OffsetSyncs()
    for record in log:
        if record.has_sync:
            syncs.add(OffsetSync(*AT, record.upstream, record.downstream))
    return syncs


@given(logs(), st.data())
def test_no_record_is_skipped(log: list[Copied], data: st.DataObject) -> None:
    syncs = store(log)
    group = data.draw(st.integers(log[0].upstream - 5, log[-1].upstream + 5))
    translated = syncs.translate(AT, group)
    if translated is not None:
        assert all(record.downstream >= translated for record in log if record.upstream >= group)


@given(logs())
def test_slots_keep_their_distances(log: list[Copied]) -> None:
    slots = store(log).slots(AT)
    for i, j in combinations(range(len(slots)), 2):
        apart = slots[i][0] - slots[j][0]
        assert 0 <= apart <= (1 << j) - (1 << i) or slots[i] == slots[j]
    for i, (younger, older) in enumerate(pairwise(slots)):
        assert younger == older or younger[0] - older[0] >= 1 << max(i - 2, 0)


@given(st.integers(1, 5000), st.integers(0, 5000))
def test_the_error_is_at_most_twice_the_distance_from_the_end(count: int, behind: int) -> None:
    """The bound if every record has a sync; with one in a hundred, the hundred comes on top."""
    syncs = store([Copied(offset, offset, True) for offset in range(count)])
    group = count - 1 - behind
    translated = syncs.translate(AT, group)
    if group < 0:
        assert translated is None
    else:
        assert translated is not None
        assert 0 <= group - translated <= 2 * behind


def test_offsets_near_the_end_are_exact() -> None:
    syncs = store([Copied(offset, 2 * offset, True) for offset in range(1000)])
    assert syncs.translate(AT, 999) == 1998
    assert syncs.translate(AT, 998) == 1996
    assert syncs.translate(AT, 1000) == 1999, "one record after the last sync"
    assert syncs.translate(AT, 5000) == 1999
    assert syncs.translate(TopicPartition("t", 1), 999) is None


@pytest.mark.parametrize("rewound", [(50, 2000), (1500, 900)])
def test_syncs_before_a_rewind_count_no_more(rewound: tuple[int, int]) -> None:
    syncs = store([Copied(offset, 1000 + offset, True) for offset in range(1000)])
    syncs.add(OffsetSync(*AT, *rewound))
    assert syncs.translate(AT, rewound[0]) == rewound[1]
    assert syncs.translate(AT, rewound[0] - 1) is None
    assert set(syncs.slots(AT)) == {rewound}


def test_only_the_latest_sync_is_kept_while_it_is_not_known_what_was_written() -> None:
    syncs = OffsetSyncs()
    syncs.latest_only = True
    for offset in range(10):
        syncs.add(OffsetSync(*AT, offset, offset))
    syncs.latest_only = False
    assert syncs.translate(AT, 8) is None
    syncs.add(OffsetSync(*AT, 10, 10))
    assert [syncs.translate(AT, offset) for offset in (8, 9, 10)] == [None, 9, 10]
    assert len(syncs.slots(AT)) == SLOTS
