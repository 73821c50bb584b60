"""Runs of offsets, compared with a plain list of pairs."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.mirror.copy.runs import OffsetRuns

GAPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 300)), max_size=20)


def filled(gaps: list[tuple[int, int, int]]) -> tuple[OffsetRuns, list[tuple[int, int]]]:
    runs, pairs, up, down = OffsetRuns(), list[tuple[int, int]](), 10, 1000
    for up_gap, down_gap, count in gaps:
        up, down = up + up_gap, down + down_gap
        runs.add(up, down, count)
        pairs += [(up + number, down + number) for number in range(count)]
        up, down = up + count, down + count
    return runs, pairs


@given(GAPS)
def test_each_record_has_its_two_offsets(gaps: list[tuple[int, int, int]]) -> None:
    runs, pairs = filled(gaps)
    assert [runs.pair(number) for number in range(runs.count)] == pairs


@given(GAPS, st.integers(1, 200))
def test_pairs_are_exact_near_the_end_and_few(gaps: list[tuple[int, int, int]], spacing: int) -> None:
    runs, pairs = filled(gaps)
    told = runs.pairs(spacing)
    assert told == sorted(set(told))
    assert set(told) <= set(pairs)
    if not pairs:
        return
    assert told[-1] == pairs[-1]
    assert told[0] == pairs[0]
    assert len(told) <= 3 + 4 * max(1, len(pairs)).bit_length()
    numbers = [pairs.index(pair) for pair in told]
    for before, after in itertools.pairwise(numbers):
        from_end = len(pairs) - 1 - after
        assert after - before <= max(spacing, from_end / 4), "apart by a quarter of what is after them"


def test_what_follows_both_ways_is_one_run() -> None:
    runs = OffsetRuns()
    for number in range(1000):
        runs.add(number, 50 + number, 1)
    assert runs._upstream == [0]
