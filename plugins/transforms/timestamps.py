"""Points in time as milliseconds since the epoch and as Spark's timestamps, for conversion between forms."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

DAY_MS: Final = 86_400_000
_PER_MS: Final = {"nanoseconds": 1_000_000, "microseconds": 1000}
_MOST: Final = 2**63 - 1


class Instant(NamedTuple):
    """A point in time; null if there is none."""

    ms: Column
    """Milliseconds since the epoch."""
    timestamp: Column
    """The same time; null if Spark cannot hold it."""
    bounded: bool = False
    """True if Spark can certainly hold it."""
    unread: Column | None = None
    """Reason why it could not be read; null if it was."""

    def beyond(self) -> Column:
        """Return a message if Spark cannot hold it; null if it can, and for null."""
        message = F.concat(F.lit("The timestamp "), self.ms.cast("string"), F.lit(" ms is beyond the year 294246"))
        return F.when(_micros(self.ms).isNull(), message)


def of_timestamp(value: Column) -> Instant:
    """Return the instant of a Timestamp."""
    return Instant(F.unix_millis(value), value, bounded=True)


def of_date(value: Column) -> Instant:
    """Return midnight of a Date."""
    return Instant(F.unix_date(value).cast("long") * DAY_MS, value.cast("timestamp"), bounded=True)


def of_ms(ms: Column, *, bounded: bool = False) -> Instant:
    """Return the instant of milliseconds since the epoch."""
    return Instant(ms, F.timestamp_micros(_micros(ms)), bounded)


def of_unix(number: Column, precision: str) -> Instant:
    """Return the instant of a count since the epoch: rounded toward zero and clamped as by Java's TimeUnit."""
    if precision == "seconds":
        return of_ms(_times(number, 1000))
    return of_ms(_divided(number, _PER_MS[precision]) if precision in _PER_MS else number)


def as_unix(ms: Column, precision: str) -> Column:
    """Return the number that `of_unix` reads."""
    if precision == "seconds":
        return _divided(ms, 1000)
    return _times(ms, _PER_MS[precision]) if precision in _PER_MS else ms


def _micros(ms: Column) -> Column:
    """Return the microseconds of Spark's timestamps; null if a long cannot hold them."""
    return F.try_multiply(ms, F.lit(1000))


def _divided(number: Column, by: int) -> Column:
    return F.call_function("div", number, F.lit(by))


def _times(number: Column, factor: int) -> Column:
    most = F.when(number > 0, F.lit(_MOST)).when(number < 0, F.lit(-_MOST - 1))
    return F.coalesce(F.try_multiply(number, F.lit(factor)), most)
