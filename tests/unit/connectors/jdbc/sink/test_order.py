"""Rows that go many at a time must end as if they went one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.jdbc.sink.order import by_key, last_of_each, not_deleted, numbered, rough_bytes, waves

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=30)


def test_equal_rows_have_equal_numbers() -> None:
    one, two = pa.array(["a", None, "a", "b", None]), pa.array([1, 2, 1, 1, 2])
    assert numbered([one], 5).tolist() == [0, 1, 0, 2, 1]
    both = numbered([one, two], 5)
    assert both[0] == both[2]
    assert both[1] == both[4]
    assert len(set(both.tolist())) == 3
    assert sorted(set(both.tolist())) == [0, 1, 2]
    assert numbered([], 2).tolist() == [0, 0]


@given(ROWS)
def test_waves_keep_each_keys_order(rows: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in rows], np.int64)
    layouts = np.array([layout for _, layout in rows], np.int64)
    wave = waves(keys, layouts)
    for key in range(4):
        own = [(int(wave[n]), layout) for n, (of, layout) in enumerate(rows) if of == key]
        assert own == sorted(own, key=lambda one: one[0]), "a key's later row never goes in an earlier wave"
        for before, after in itertools.pairwise(own):
            assert (before[0] == after[0]) == (before[1] == after[1]), "a wave has one layout of a key"
        assert not own or own[0][0] == 0


@given(ROWS)
def test_what_is_left_is_what_was_written_last(rows: list[tuple[int, int]]) -> None:
    one_by_one, at_once = dict[tuple[int, int], int](), dict[tuple[int, int], int]()
    for value, (key, layout) in enumerate(rows):
        one_by_one[key, layout] = value  # a layout writes columns of its own
        one_by_one[key, 99] = value  # and one that all write
    keys = np.array([key for key, _ in rows], np.int64)
    layouts = np.array([layout for _, layout in rows], np.int64)
    wave = waves(keys, layouts)
    for turn in range(int(wave.max(initial=-1)) + 1):
        for layout in range(3):
            chosen = np.flatnonzero((wave == turn) & (layouts == layout))
            for row in chosen[last_of_each(keys[chosen])]:
                at_once[int(keys[row]), layout] = int(row)
                at_once[int(keys[row]), 99] = int(row)
    assert at_once == one_by_one


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=20))
def test_what_a_later_row_deletes_does_not_go(rows: list[tuple[int, bool]]) -> None:
    keys, deletes = np.array([key for key, _ in rows], np.int64), np.array([gone for _, gone in rows], np.bool_)
    left = [n for n, (key, _) in enumerate(rows) if (key, True) not in rows[n + 1 :]]
    assert not_deleted(keys, deletes).tolist() == left


@given(st.lists(st.integers(0, 9), max_size=20))
def test_of_each_key_one_row_is_left(keys: list[int]) -> None:
    last = {key: row for row, key in enumerate(keys)}
    assert last_of_each(np.array(keys, np.int64)).tolist() == sorted(last.values())


@pytest.mark.parametrize(
    "alike",
    [
        "zoë Zoe ZOË zoé",
        "ß ss SS s ẞ",
        "straße STRASSE",
        "ﬀ ff FF",
        "æ Ae",
        "øł OL",
        "i İ ı I",
        "a\u00adb AB a\u200bb",
        "x\t x",
    ],
)
def test_texts_that_a_collation_may_take_for_one_are_one(alike: str) -> None:
    texts = alike.split(" ")
    assert len({rough_bytes(pa.array([text]))[0].as_py() for text in texts}) == 1
    assert len({*rough_bytes(pa.array([*texts, "other", None])).to_pylist()}) == 3


def test_what_is_alike_does_not_depend_on_the_other_texts() -> None:
    texts = pa.array([f"a{chr(code)}b" for code in range(128)])
    assert rough_bytes(pa.concat_arrays([texts, pa.array(["é"])]))[:128] == rough_bytes(texts)


def test_rows_go_in_the_order_of_their_keys() -> None:
    rows = pa.record_batch({"a": ["y", "x", "x"], "b": [1, 3, 2]})
    assert by_key(rows, ["a", "b"]).to_pylist() == [{"a": "x", "b": 2}, {"a": "x", "b": 3}, {"a": "y", "b": 1}]
