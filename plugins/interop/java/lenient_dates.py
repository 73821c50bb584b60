"""Parses dates and times in the three forms of Connect's values, as leniently as SimpleDateFormat.

Month 13 is January of the next year, and day 0 the last of the month before. Text after a date is ignored. UTC, with
the Julian calendar before 15 October 1582.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.plugins.schema import DATE, TIME, TIMESTAMP, Schema, SchemaType

_DATE: Final = r"[ \t]*(-?\d+)-[ \t]*(-?\d+)-[ \t]*(-?\d+)"
_CLOCK: Final = r"[ \t]*(-?\d+):[ \t]*(-?\d+):[ \t]*(-?\d+)\.[ \t]*(-?\d+)Z"
_FORMS: Final = {
    10: (re.compile(_DATE), Schema(SchemaType.INT32, name=DATE, version=1)),
    13: (re.compile(_CLOCK), Schema(SchemaType.INT32, name=TIME, version=1)),
    24: (re.compile(_DATE + "T" + _CLOCK), Schema(SchemaType.INT64, name=TIMESTAMP, version=1)),
}
"""By the length of the text, which alone decides the form."""
_DAY_MS: Final = 86_400_000
_MOST_MS: Final = (1 << 63) // 1000 - _DAY_MS
_UNIX_EPOCH: Final = 719_468
"""Days from 1 March of the year 0, where `_epoch_day` starts to count, to 1 January 1970."""
_GREGORIAN_FROM: Final = -141_427
"""15 October 1582, in days since 1970."""


def read_temporal(text: str) -> tuple[Schema, int] | None:
    """Parse a Date, Time or Timestamp; None for other texts, and for times that Spark cannot hold.

    Units: days for a Date, ms for the others.
    """
    text = text.replace("\\:", ":")
    pattern, schema = _FORMS.get(len(text), (None, None))
    if pattern is None or schema is None or not text[0].isdigit() or (found := pattern.match(text)) is None:
        return None
    numbers = [int(group) for group in found.groups()]
    if schema.name == DATE:
        return schema, _epoch_day(*numbers)
    hour, minute, second, ms = numbers[-4:]
    clock_ms = ((hour * 60 + minute) * 60 + second) * 1000 + ms
    if schema.name == TIME:
        return (schema, clock_ms) if abs(clock_ms) < 1 << 31 else None
    moment_ms = _epoch_day(*numbers[:3]) * _DAY_MS + clock_ms
    return (schema, moment_ms) if abs(moment_ms) < _MOST_MS else None


def _epoch_day(year: int, month: int, day: int) -> int:
    """Return the days since 1 January 1970; month and day may exceed their usual bounds."""
    year, of_year = divmod(year * 12 + month - 3, 12)  # years begin in March, so a leap day is their last
    julian = 365 * year + year // 4 + (153 * of_year + 2) // 5 + day - 1 - _UNIX_EPOCH
    gregorian = julian - year // 100 + year // 400
    return gregorian if gregorian >= _GREGORIAN_FROM else julian - 2
