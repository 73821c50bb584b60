"""Offsets as Confluent's connector stores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.source.offsets import (
    OffsetError,
    arrow_offsets,
    check_offsets,
    instant_of,
    least_shown,
    no_offsets,
    offset_of,
    offset_type,
    partitions_of,
    position_of,
    same_offsets,
    shown_at,
)
from headrace.connectors.jdbc.source.windows import LEAST_MILLIS, MOST_MILLIS, Mode, Position

NEW_YORK = ZoneInfo("America/New_York")
NOON = 1_709_208_000_123_456
"""2024-02-29 12:00:00.123456"""


def test_partitions() -> None:
    now, before = partitions_of(TableId(None, "public", "orders"))
    assert now == {"protocol": "1", "table": "public.orders"}
    assert before == {"table": "orders"}


def test_offsets_are_confluents() -> None:
    assert offset_of(Position(id=5), Mode.INCREMENTING, None) == {"incrementing": 5}
    moment = {"timestamp": 1_709_208_000_123, "timestamp_nanos": 123_456_000}
    assert offset_of(Position(NOON), Mode.TIMESTAMP, None) == moment
    assert offset_of(Position(NOON, 5), Mode.TIMESTAMP_INCREMENTING, None) == {**moment, "incrementing": 5}
    assert offset_of(Position(NOON, 5), Mode.TIMESTAMP, None) == moment
    assert offset_of(Position(-1), Mode.TIMESTAMP, None) == {"timestamp": -1, "timestamp_nanos": 999_999_000}


@pytest.mark.parametrize(
    ("instant", "least"),
    [
        ("2024-11-03 05:59:59.999999", "2024-11-03 00:59:59.999999"),  # 01:59 for the first time: it is set back soon
        ("2024-11-03 05:00:00", "2024-11-03 00:00:00"),
        ("2024-11-03 04:59:59", "2024-11-03 00:59:59"),
        ("2024-11-03 06:00:00", "2024-11-03 01:00:00"),  # 01:00 for the second time
        ("2024-11-03 06:59:59", "2024-11-03 01:59:59"),
        ("2024-03-10 06:59:59", "2024-03-10 01:59:59"),
        ("2024-03-10 07:00:00", "2024-03-10 03:00:00"),  # it was set forward
    ],
)
def test_a_clock_that_is_set_back_shows_no_less_later(instant: str, least: str) -> None:
    at, shown = (_micros(text) for text in (instant, least))
    assert least_shown(at, NEW_YORK) == shown
    assert min(shown_at(at + quarters * 900_000_000, NEW_YORK) for quarters in range(12)) >= shown
    assert least_shown(at, None) == at


@pytest.mark.parametrize("zone", [None, NEW_YORK, timezone(timedelta(hours=2)), UTC], ids=str)
@pytest.mark.parametrize("mode", [Mode.INCREMENTING, Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING])
@pytest.mark.parametrize("micros", [NOON, 0, -1, -86_400_000_001, LEAST_MILLIS * 1000, MOST_MILLIS * 1000])
def test_a_position_comes_back(micros: int, mode: Mode, zone: Any) -> None:
    position = Position(micros if mode.times else None, 7 if mode.counts else None)
    assert position_of(offset_of(position, mode, zone), mode, zone) == position


def test_offsets_of_old_versions() -> None:
    assert position_of({"timestamp": 1_709_208_000_123}, Mode.TIMESTAMP, None) == Position(NOON // 1000 * 1000)
    assert position_of({"incrementing": 5}, Mode.TIMESTAMP_INCREMENTING, None) == Position(None, 5)
    assert position_of({"timestamp": 5}, Mode.INCREMENTING, None) is None
    assert position_of({"incrementing": 5}, Mode.BULK, None) is None
    assert position_of(None, Mode.INCREMENTING, None) is None


def test_an_offset_is_an_instant_and_a_position_a_clock() -> None:
    assert offset_of(Position(NOON), Mode.TIMESTAMP, NEW_YORK)["timestamp"] == 1_709_208_000_123 + 5 * 3_600_000
    assert shown_at(instant_of(NOON, NEW_YORK), NEW_YORK) == NOON
    summer = NOON + 150 * 86_400_000_000
    assert instant_of(summer, NEW_YORK) - summer == 4 * 3_600_000_000


@pytest.mark.parametrize("zone", [None, NEW_YORK])
def test_rows_have_the_offsets_of_their_positions(zone: Any) -> None:
    mode, moments = Mode.TIMESTAMP_INCREMENTING, [NOON, -1, NOON + 150 * 86_400_000_000, 0]
    made = arrow_offsets(mode, pa.array(moments), pa.array([1, 2, 3, 4]), zone).to_pylist()
    assert made == [offset_of(Position(at, id), mode, zone) for id, at in enumerate(moments, 1)]
    assert list(made[0]) == [field.name for field in offset_type(mode)]
    nothing = arrow_offsets(mode, pa.array([None], pa.int64()), pa.array([None], pa.int64()), zone).to_pylist()
    assert nothing == [{"timestamp": None, "timestamp_nanos": None, "incrementing": None}]
    assert arrow_offsets(Mode.INCREMENTING, None, pa.array([1]), zone).to_pylist() == [{"incrementing": 1}]


def test_rows_without_offsets_and_with_one_for_all() -> None:
    assert no_offsets(Mode.BULK, 2).to_pylist() == [None, None]
    assert same_offsets(Mode.INCREMENTING, {"incrementing": 9}, 2).to_pylist() == [{"incrementing": 9}] * 2


TABLE = {"protocol": "1", "table": "public.orders"}


@pytest.mark.parametrize(
    ("mode", "partition", "offset"),
    [
        (Mode.INCREMENTING, TABLE, {"incrementing": 5}),
        (Mode.TIMESTAMP, {"table": "orders"}, {"timestamp": 5}),
        (Mode.TIMESTAMP_INCREMENTING, {"query": "query"}, {"timestamp": 5, "timestamp_nanos": 7, "incrementing": 1}),
        (Mode.TIMESTAMP_INCREMENTING, TABLE, {"timestamp": 5}),
        (Mode.BULK, TABLE, None),
    ],
)
def test_offsets_that_an_operator_may_set(mode: Mode, partition: Any, offset: Any) -> None:
    assert check_offsets({"offsets": [{"partition": partition, "offset": offset}]}, mode)


@pytest.mark.parametrize(
    ("mode", "partition", "offset", "said"),
    [
        (Mode.INCREMENTING, {"filename": "x"}, {"incrementing": 5}, "A partition of a JDBC source is"),
        (Mode.INCREMENTING, None, {"incrementing": 5}, "A partition of a JDBC source is"),
        (Mode.INCREMENTING, TABLE, {"timestamp": 5}, "An offset of mode incrementing has the members incrementing"),
        (Mode.TIMESTAMP, TABLE, {}, "has the members timestamp, timestamp_nanos, not none"),
        (Mode.INCREMENTING, TABLE, {"incrementing": "5"}, "'incrementing' key in the offset is expected to be a Long"),
        (Mode.INCREMENTING, TABLE, {"incrementing": True}, "expected to be a Long"),
        (Mode.INCREMENTING, TABLE, {"incrementing": 2**63}, "expected to be a Long"),
        (Mode.TIMESTAMP, TABLE, {"timestamp": 2**62}, "of the years 1 to 9998"),
        (Mode.TIMESTAMP, TABLE, {"timestamp": -(2**62)}, "of the years 1 to 9998"),
        (Mode.TIMESTAMP, TABLE, {"timestamp": 5, "timestamp_nanos": 10**9}, "fraction of a second"),
        (Mode.BULK, TABLE, {"incrementing": 5}, "has no offsets"),
    ],
)
def test_offsets_that_it_may_not(mode: Mode, partition: Any, offset: Any, said: str) -> None:
    with pytest.raises(OffsetError, match=said):
        check_offsets({"offsets": [{"partition": partition, "offset": offset}]}, mode)


def _micros(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
