"""The rows of a window: on an SQLite table in memory, since the conditions are SQL."""

from __future__ import annotations

import sqlite3

import pytest

from headrace.connectors.jdbc.contract.source_sql import Ranges
from headrace.connectors.jdbc.source.windows import (
    Mode,
    Order,
    Position,
    ReadWindow,
    begin_position,
    next_end,
    position_before,
)

ROWS = [(id, ts) for id, ts in enumerate([10, 20, 20, 20, 30, 40], 1)] + [(7, 20), (8, None)]


def ids(condition: str) -> list[int]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (id, ts)")
    database.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
    found = [id for (id,) in database.execute(f"SELECT id FROM t WHERE {condition or '1 = 1'} ORDER BY ts, id")]
    database.close()
    return found


def order(mode: Mode) -> Order:
    return Order(mode, "ts" if mode.times else "", "id" if mode.counts else "", str)


@pytest.mark.parametrize(
    ("mode", "window", "wanted"),
    [
        (Mode.BULK, ReadWindow(Position()), [8, 1, 2, 3, 4, 7, 5, 6]),
        (Mode.INCREMENTING, ReadWindow(Position(id=2), Position(id=5)), [3, 4, 5]),
        (Mode.INCREMENTING, ReadWindow(Position(), Position(id=2)), [1, 2]),
        (Mode.TIMESTAMP, ReadWindow(Position(micros=10), Position(micros=20)), [2, 3, 4, 7]),
        (Mode.TIMESTAMP, ReadWindow(Position(), Position(micros=99)), [1, 2, 3, 4, 7, 5, 6]),
        (Mode.TIMESTAMP_INCREMENTING, ReadWindow(Position(20, 3), Position(micros=30)), [4, 7, 5]),
        (Mode.TIMESTAMP_INCREMENTING, ReadWindow(Position(20, None), Position(micros=20)), [2, 3, 4, 7]),
        (Mode.INCREMENTING, ReadWindow(Position(id=9), late=(Position(id=2), Position(id=5))), [2, 5]),
        (Mode.TIMESTAMP, ReadWindow(Position(micros=40), late=(Position(micros=20),)), [2, 3, 4, 7]),
        (Mode.INCREMENTING, ReadWindow(Position(id=5), again=Position(id=2)), [3, 4, 5]),
        (Mode.TIMESTAMP, ReadWindow(Position(micros=20), again=Position(micros=5)), [1, 2, 3, 4, 7]),
        (Mode.TIMESTAMP_INCREMENTING, ReadWindow(Position(20, 3), again=Position(micros=5)), [1, 2, 3]),
        (Mode.TIMESTAMP_INCREMENTING, ReadWindow(Position(40, 6), late=(Position(20, 3), Position(30, 5))), [3, 5]),
    ],
)
def test_the_rows_of_a_window(mode: Mode, window: ReadWindow, wanted: list[int]) -> None:
    assert ids(order(mode).rows(window)) == wanted


def test_rows_before_the_end_are_asked_for_and_no_others() -> None:
    assert ids(order(Mode.TIMESTAMP).beyond(Position(micros=10), 30)) == [2, 3, 4, 7]
    assert ids(order(Mode.TIMESTAMP_INCREMENTING).beyond(Position(20, 4), 40)) == [7, 5]
    assert sorted(ids(order(Mode.INCREMENTING).beyond(Position(id=6), None))) == [7, 8]


@pytest.mark.parametrize("mode", [Mode.INCREMENTING, Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING])
def test_windows_one_after_the_other_have_each_row_once(mode: Mode) -> None:
    one, met = order(mode), []
    after = Position()
    for upto in (10, 20, 30, 40) if mode.times else (2, 5, 7, 8):
        window = ReadWindow(after, Position(micros=upto) if mode.times else Position(id=upto))
        found = ids(one.rows(window)) if mode.times else sorted(ids(one.rows(window)))
        met += found
        last = dict(ROWS)[found[-1]]
        after = Position(last if mode.times else None, found[-1] if mode.counts else None)
    assert met == ([1, 2, 3, 4, 7, 5, 6] if mode.times else [1, 2, 3, 4, 5, 6, 7, 8])


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 100])
def test_pieces_have_each_row_once_and_in_their_order(pieces: int) -> None:
    cut = Ranges("", 1, 8).cut(pieces, "id")
    assert len(cut) == min(pieces, 8)
    assert [id for piece in cut for id in sorted(ids(piece))] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_what_lies_outside_of_the_bounds_is_in_the_outer_pieces() -> None:
    first, *_, last = Ranges("", 4, 6).cut(3, "id")
    assert set(ids(first)) == {1, 2, 3, 4}
    assert set(ids(last)) == {6, 7, 8}


def test_where_to_begin() -> None:
    assert begin_position(None, Mode.INCREMENTING, 5) == Position()
    assert begin_position(None, Mode.TIMESTAMP, 5) == Position(5)
    assert begin_position(Position(7, 1), Mode.TIMESTAMP_INCREMENTING, 5) == Position(7, 1)
    assert begin_position(Position(None, 1), Mode.TIMESTAMP_INCREMENTING, 5) == Position(5, 1)
    assert position_before(Position(id=7), Mode.INCREMENTING, 5) == Position(id=2)
    assert position_before(Position(70, 7), Mode.TIMESTAMP_INCREMENTING, 50) == Position(20)


@pytest.mark.parametrize(
    ("shown", "unit", "end"),
    [
        (1_700_000_000_123_999, 1, 1_700_000_000_123_000),
        (5_012_345, 1, 5_012_000),
        (5_012_345, 10_000, 5_010_000),
        (5_012_345, 1_000_000, 5_000_000),
        (4_912_345, 1_000_000, 4_000_000),
        (-500_001, 1_000_000, -1_000_000),
    ],
)
def test_no_window_ends_within_a_millisecond_or_a_unit_of_its_column(shown: int, unit: int, end: int) -> None:
    assert next_end(shown, unit) == end
