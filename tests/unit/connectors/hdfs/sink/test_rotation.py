"""The ends of rotations, by count, time and schedule."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from headrace.connectors.hdfs.file_settings import RotationSettings
from headrace.connectors.hdfs.sink.rotation import Rules, next_boundary

HOUR = 3_600_000


def ms(text: str, zone: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def test_the_count_leaves_room_for_the_rest() -> None:
    rules = Rules(RotationSettings(10))
    rotation = rules.begin(100, None, now=5)
    rotation.count = 7
    assert rules.room(rotation, None) == (3, False)
    assert rotation.ends_at is None


def test_a_record_so_much_later_than_the_first_ends_it() -> None:
    rules = Rules(RotationSettings(100, rotate_interval_ms=10))
    rotation = rules.begin(0, 1000, now=5)
    assert rules.room(rotation, np.array([1000, 990, 1009, 1010, 1001])) == (3, True)
    assert rules.room(rotation, np.array([1000, 1009])) == (100, False)
    assert rotation.ends_at is None, "records' time only"


def test_without_records_time_the_clock_ends_it() -> None:
    rules = Rules(RotationSettings(100, rotate_interval_ms=10))
    assert rules.begin(0, None, now=5).ends_at == 15


def test_what_comes_first_ends_it() -> None:
    settings = RotationSettings(100, rotate_interval_ms=HOUR, rotate_schedule_interval_ms=HOUR, timezone="UTC")
    now = ms("2026-11-23T10:40:00", "UTC")
    assert Rules(settings).begin(0, None, now).ends_at == ms("2026-11-23T11:00:00", "UTC")
    assert Rules(settings).begin(0, now, now).ends_at == ms("2026-11-23T11:00:00", "UTC")


@pytest.mark.parametrize(
    ("now", "interval", "zone", "then"),
    [
        ("2026-11-23T10:40:00", HOUR, "UTC", "2026-11-23T11:00:00"),
        ("2026-11-23T11:00:00", HOUR, "UTC", "2026-11-23T12:00:00"),
        ("2026-11-23T10:40:00", HOUR, "Asia/Kolkata", "2026-11-23T11:00:00"),
        ("2026-11-23T22:00:00", 7 * HOUR, "Europe/Berlin", "2026-11-24T00:00:00"),
        ("2026-10-25T23:30:00", HOUR, "Europe/Berlin", "2026-10-26T00:00:00"),
        ("2026-03-29T23:30:00", 24 * HOUR, "Europe/Berlin", "2026-03-30T00:00:00"),
    ],
)
def test_schedules_count_from_local_midnight(now: str, interval: int, zone: str, then: str) -> None:
    assert next_boundary(ms(now, zone), interval, zone) == ms(then, zone)
