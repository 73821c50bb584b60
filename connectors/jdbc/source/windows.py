"""The windows in which a source reads a table, and their SQL. Pure.

A window is `(after, upto]` in the order of the mode, and closed before it is read: rows committed while it is read
belong to the next one, and reading it twice gives the same rows unless the table's rows change. In modes with a
timestamp `upto` is only a timestamp, so that rows of equal timestamps are never split.

| mode | order | rows of a window |
|---|---|---|
| bulk | none | all, or a range of the table's key |
| incrementing | INC | `after < INC <= upto` |
| timestamp | TS | `after < TS <= upto`, where upto is before `next_end` of the database's time less the delay |
| timestamp+incrementing | TS, INC | `TS = after and INC > id, or TS > after`, and `TS <= upto` |

Source: the queries of Confluent's connector, whose offsets these positions are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class Mode(StrEnum):
    """The way to find new rows of a table, by the setting `mode`."""

    BULK = "bulk"
    INCREMENTING = "incrementing"
    TIMESTAMP = "timestamp"
    TIMESTAMP_INCREMENTING = "timestamp+incrementing"

    @property
    def counts(self) -> bool:
        """True if the incrementing column matters."""
        return self in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)

    @property
    def times(self) -> bool:
        """True if timestamp columns matter."""
        return self in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)


BEFORE_ALL: Final = -1
"""Ids begin after this one, as in Confluent's connector."""
LEAST_MILLIS: Final = -62_135_510_400_000
MOST_MILLIS: Final = 253_370_764_800_000
"""The bounds of initial timestamps: the years 1 to 9998, which have a literal by any zone's clock."""


class Position(NamedTuple):
    """The end of the rows of a table that were read."""

    micros: int | None = None
    """The timestamp, in the units and by the clock of its column."""
    id: int | None = None


class ReadWindow(NamedTuple):
    """Rows of a table, in the order of the mode: `(after, upto]`."""

    after: Position
    upto: Position | None = None
    """None: to the end, or of a bulk read."""
    late: tuple[Position, ...] = ()
    """Only the rows at these positions, which were committed late into earlier windows."""
    again: Position | None = None
    """Only the rows from here up to `after`: earlier windows had most of them, it is unknown which."""

    @property
    def is_late(self) -> bool:
        """True if its rows lie before the position already reached, so that the offset stays."""
        return bool(self.late) or self.again is not None


@dataclass(frozen=True)
class Order:
    """The order of a table's rows, in SQL."""

    mode: Mode
    timestamp: str = ""
    """The compared timestamp column; of several the first that is not null."""
    incrementing: str = ""
    bound: Callable[[int], str] = str
    """Writes microseconds as the constant that `timestamp` is compared with."""

    @property
    def by(self) -> tuple[str, ...]:
        """The columns that order rows."""
        return tuple(part for part in (self.timestamp, self.incrementing) if part)

    def rows(self, window: ReadWindow) -> str:
        """The condition of a window's rows; empty if there is none."""
        if window.late:
            return self._at(window.late)
        if window.again is not None:
            return f"{self._after(window.again)}{self._up_to(window.after)}"
        if self.mode is Mode.BULK:
            return ""
        return f"{self._after(window.after)}{self._up_to(window.upto)}"

    def beyond(self, after: Position, end_micros: int | None) -> str:
        """The condition of all rows after a position, in modes with a timestamp before `end_micros`."""
        end = "" if end_micros is None else f" AND {self.timestamp} < {self.bound(end_micros)}"
        return f"{self._after(after)}{end}"

    def _after(self, after: Position) -> str:
        last = BEFORE_ALL if after.id is None else after.id
        if self.mode is Mode.INCREMENTING:
            return f"{self.incrementing} > {last}"
        begin = self.bound(after.micros or 0)
        if self.mode is Mode.TIMESTAMP:
            return f"{self.timestamp} > {begin}"
        # The first condition follows from the second; an index can be searched by it.
        return (
            f"{self.timestamp} >= {begin} AND "
            f"(({self.timestamp} = {begin} AND {self.incrementing} > {last}) OR {self.timestamp} > {begin})"
        )

    def _up_to(self, upto: Position | None) -> str:
        if upto is None:
            return ""
        if self.mode is Mode.INCREMENTING:
            return "" if upto.id is None else f" AND {self.incrementing} <= {upto.id}"
        if upto.micros is None:
            return ""
        end = self.bound(upto.micros)
        beyond = "" if upto.id is None else f" AND ({self.timestamp} < {end} OR {self.incrementing} <= {upto.id})"
        return f" AND {self.timestamp} <= {end}{beyond}"

    def _at(self, late: tuple[Position, ...]) -> str:
        ids, times = [], []
        for micros, number in late:
            ids.append(str(number))
            times.append("" if micros is None else self.bound(micros))
        if self.mode is Mode.INCREMENTING:
            return f"{self.incrementing} IN ({', '.join(ids)})"
        if self.mode is Mode.TIMESTAMP:
            return f"{self.timestamp} IN ({', '.join(times)})"
        pairs = zip(times, ids, strict=True)
        return " OR ".join(f"({self.timestamp} = {at} AND {self.incrementing} = {number})" for at, number in pairs)


def position_before(position: Position, mode: Mode, distance: int) -> Position:
    """The position at this distance before another: ids, or microseconds."""
    if mode is Mode.INCREMENTING:
        return Position(id=(position.id or 0) - distance)
    return Position(micros=(position.micros or 0) - distance)


def next_end(shown: int, unit: int = 1) -> int:
    """The end of windows by timestamp when the column's clock shows this. Units: microseconds.

    Whole milliseconds and units of the column: a second that is not over may get more rows.
    """
    return shown - shown % max(unit, 1000)


def begin_position(stored: Position | None, mode: Mode, initial_micros: int | None) -> Position:
    """The position to continue from: the stored one, else `timestamp.initial`, else before all rows."""
    at = stored or Position()
    return at._replace(micros=initial_micros) if mode.times and at.micros is None else at
