"""Java's lenient calendar: the fields of a date and of a clock, whatever they hold, as a point in time.

Fields are named by the letters of SimpleDateFormat's patterns; months count from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.catalyst.let import let

DAY_MS: Final = 86_400_000
_UNITS_MS: Final = {"m": 60_000, "s": 1000, "S": 1}
EpochDay = Callable[[Column, Column, Column], Column]
"""The days since 1 January 1970, of a year, a month (from 0) and a day."""


def clock_ms(of: Mapping[str, Column], order: Sequence[str]) -> Column:
    """Milliseconds of the day, or beyond it."""
    parts = [of[letter] * unit for letter, unit in _UNITS_MS.items() if letter in of]
    of_day, of_half, half = _last("Hk", order), _last("Kh", order), _last("a", order)
    if of_day and (not of_half or not half or _last("HkKha", order) == of_day):
        parts.append(_hour(of[of_day], 24 if of_day == "k" else None))
    else:
        parts += [_hour(of[of_half], 12 if of_half == "h" else None)] if of_half else []
        parts += [of["a"] * (DAY_MS // 2)] if half else []
    return reduce(add, parts, F.lit(0).cast("long"))


def _last(letters: str, order: Sequence[str]) -> str:
    """That of the letters which the pattern has last; none of them: empty."""
    return next((one for one in reversed(order) if one in letters), "")


def _hour(number: Column, that_is_0: int | None) -> Column:
    hour = number if that_is_0 is None else F.when(number == that_is_0, F.lit(0)).otherwise(number)
    return hour * 3_600_000


def days(of: Mapping[str, Column], order: Sequence[str], day_of: EpochDay) -> Column:
    """Since 1 January 1970, by what the pattern has: of year, month and day what is missing is 1970, 1 and 1."""
    if _last("yY", order) == "Y":
        # The Sunday on or before 1 January; that of 1970 was a Thursday.
        return let(day_of(of["Y"], F.lit(0), F.lit(1)), lambda day: day - F.pmod(day + 4, F.lit(7)))
    year, month = of.get("y", F.lit(1970)), of.get(_last("ML", order), F.lit(0))
    if _last("dD", order) == "D":
        return day_of(year, F.lit(0), of["D"])
    return day_of(year, month, of.get("d", F.lit(1)))


def usual_day(year: Column, month: Column, day: Column) -> Column:
    """For years and months that there are, in the calendar of today."""
    first = F.make_date(year.cast("int"), (month + 1).cast("int"), F.lit(1))
    return F.unix_date(first).cast("long") + day - 1


def epoch_day(year: Column, month: Column, day: Column) -> Column:
    """For a month and a day that may be beyond their usual bounds, and for the old calendar."""

    def of_years(year: Column, of_year: Column) -> Column:
        julian = year * 365 + divided(year, 4) + divided(153 * of_year + 2, 5) + day.cast("long") - 719_471
        return let(julian, lambda old: in_calendar(old, old - divided(year, 100) + divided(year, 400) + 2))

    def in_calendar(julian: Column, gregorian: Column) -> Column:
        return F.when(gregorian >= -141_427, gregorian).otherwise(julian)

    def of_months(months: Column) -> Column:
        return let(divided(months, 12), lambda year: of_years(year, F.pmod(months, F.lit(12))))

    # Years begin in March: a leap day is their last.
    return let(year.cast("long") * 12 + month.cast("long") - 2, of_months)


def divided(number: Column, by: int) -> Column:
    """Rounded down."""
    return F.call_function("div", number - F.pmod(number, F.lit(by)), F.lit(by))
