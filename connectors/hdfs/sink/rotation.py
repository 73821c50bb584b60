"""Ends the files of a partition: by count, time, schedule, schema, directory and size.

A rotation lies between two ends; all files of a partition end together. The rules see whole arrays and tell the next
end, so that there is one step a rotation, not one a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np

from headrace.config.time_zones import zone
from headrace.connectors.hdfs.file_settings import RotationSettings

_DAY_MS: Final = 86_400_000


@dataclass
class Rotation:
    """The rotation of a partition's open files."""

    count: int = 0
    first: int = -1
    """The offset of its first record."""
    began: int = 0
    """The time of its first record by the interval's clock; units: ms since 1970."""
    ends_at: int | None = None
    """Its end by the wall clock, if schedule or interval set one."""


@dataclass(frozen=True)
class Rules:
    """The settings that end rotations; picklable."""

    settings: RotationSettings

    def begin(self, first: int, time: int | None, now: int) -> Rotation:
        """Begin a rotation at a record with this offset and time; None: `rotate.interval.ms` counts by the clock."""
        settings = self.settings
        began = now if time is None else time
        ends = []
        if settings.rotate_interval_ms is not None and time is None:
            ends.append(now + settings.rotate_interval_ms)
        if settings.rotate_schedule_interval_ms is not None:
            ends.append(next_boundary(now, settings.rotate_schedule_interval_ms, settings.timezone))
        return Rotation(0, first, began, min(ends, default=None))

    def room(self, rotation: Rotation, times: Any) -> tuple[int, bool]:
        """The count of rows before the end, and True if time ends them; `times` as in `begin`."""
        settings = self.settings
        most = settings.flush_size - rotation.count
        if settings.rotate_interval_ms is None or times is None:
            return most, False
        late = np.flatnonzero(times[:most] - rotation.began >= settings.rotate_interval_ms)
        return (int(late[0]), True) if len(late) else (most, False)


def next_boundary(now: int, interval: int, timezone: str) -> int:
    """The next multiple of the interval since local midnight, the next midnight at the latest; units: ms since 1970."""
    local = datetime.fromtimestamp(now / 1000, zone(timezone or "UTC"))
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    day = round(midnight.timestamp() * 1000)
    tomorrow = round((midnight + timedelta(days=1)).timestamp() * 1000)
    return min(day + ((now - day) // interval + 1) * interval, tomorrow)
