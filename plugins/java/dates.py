"""Java's SimpleDateFormat patterns: read to tokens, and timestamps formatted by them in UTC, by Spark expressions.

Decided: names are English and weeks (`Y`, `w`, `W`) those of the United States, because Java's depend on the machine's
locale; loses: other languages. Before 15 October 1582 dates are Julian, as Java's are; loses: 29 February of a year
that is a leap year in that calendar only prints as a day beside it.

Source: the documentation of java.text.SimpleDateFormat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.catalyst.let import let

LETTERS: Final = "GyYMLwWDdFEuaHkKhmsSzZX"
"""What a pattern may have; every other ASCII letter is an error."""
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

_TOKEN: Final = re.compile(r"''|'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|[^A-Za-z']+")
_DAY_MS: Final = 86_400_000


class Letters(NamedTuple):
    """A run of one letter: what to print, and how wide."""

    letter: str
    width: int


def tokens(pattern: str) -> list[str | Letters]:
    """The pattern's runs of letters, and the texts between them as they are printed.

    Errors: ValueError, in Java's words, for a letter that means nothing and for a quote that does not end.
    """
    found: list[str | Letters] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise ValueError("Unterminated quote")
        at = token.end()
        found.append(_token(token))
    return _joined(found)


def _token(found: re.Match[str]) -> str | Letters:
    letter, quoted = found["letter"], found["quoted"]
    if letter is None:
        return (found[0] if quoted is None else quoted).replace("''", "'")
    if letter not in LETTERS:
        raise ValueError(f"Illegal pattern character '{letter}'")
    count = len(found[0])
    if letter == "X" and count > 3:
        raise ValueError(f"invalid ISO 8601 format: length={count}")
    return Letters(letter, count)


def _joined(read: Sequence[str | Letters]) -> list[str | Letters]:
    """With texts that stand side by side in one, and without empty ones."""
    joined: list[str | Letters] = []
    for token in read:
        if isinstance(token, str) and joined and isinstance(joined[-1], str):
            joined[-1] += token
        elif token != "":
            joined.append(token)
    return joined


def formatted(timestamp: Column, pattern: str) -> Column:
    """The text of timestamps; null for null.

    Errors: ValueError for what is no pattern.
    """
    read = _joined([token if isinstance(token, str) else _zone(token) or token for token in tokens(pattern)])
    # Long, and rarely asked: where there is a quick way it is only evaluated, not compiled.
    careful = let(timestamp, lambda moment: F.concat(F.lit(""), *(_text(moment, token) for token in read)))
    careful = F.when(timestamp.isNotNull(), careful)
    if not all(isinstance(token, str) or token.width in _ALIKE.get(token.letter, ()) for token in read):
        return careful
    quick = "".join(
        "'" + token.replace("'", "''") + "'" if isinstance(token, str) else token.letter * token.width for token in read
    )
    usual = timestamp.between(F.lit("1582-10-15").cast("timestamp"), F.lit("9999-12-31").cast("timestamp"))
    return F.when(usual, F.date_format(timestamp, quick)).otherwise(careful)


_ALIKE: Final[Mapping[str, Sequence[int]]] = {
    "y": (4,),
    "M": (1, 2, 3, 4),
    "d": (1, 2),
    "E": (1, 2, 3, 4),
    "a": (1,),
    "H": (1, 2),
    "h": (1, 2),
    "m": (1, 2),
    "s": (1, 2),
    "S": (3,),
}
"""The letters, and how many of each, that `date_format` prints as SimpleDateFormat does."""


def _zone(token: Letters) -> str | None:
    """What a letter for the time zone prints in UTC; None for other letters."""
    if token.letter == "z" and token.width >= 4:
        return "Coordinated Universal Time"
    return {"z": "UTC", "Z": "+0000", "X": "Z"}.get(token.letter)


def _text(timestamp: Column, token: str | Letters) -> Column:
    if isinstance(token, str):
        return F.lit(token)
    day = _day(timestamp)
    match token.letter:
        case "G":
            return F.when(F.year(day) > 0, F.lit("AD")).otherwise(F.lit("BC"))
        case "M" | "L" if token.width >= 3:
            return _named(F.month(day) - 1, MONTHS, token.width)
        case "E":
            return _named(F.dayofweek(timestamp) - 1, DAYS, token.width)
        case "a":
            return F.when(_ms(timestamp) < _DAY_MS // 2, F.lit("AM")).otherwise(F.lit("PM"))
    number = _NUMBERS[token.letter](timestamp)
    if token.letter in "yY" and token.width == 2:
        number = F.pmod(number, F.lit(100))
    return F.format_string(f"%0{token.width}d", number)


def _named(index: Column, names: Sequence[str], count: int) -> Column:
    cut = [name if count >= 4 else name[:3] for name in names]
    return F.element_at(F.array(*map(F.lit, cut)), (index + 1).cast("int"))


def _ms(timestamp: Column) -> Column:
    """Of the day."""
    return F.pmod(F.unix_millis(timestamp), F.lit(_DAY_MS))


def _of_ms(divisor: int, modulus: int) -> Callable[[Column], Column]:
    return lambda timestamp: F.pmod(F.floor(_ms(timestamp) / divisor), F.lit(modulus))


def _or_if_zero(number: Callable[[Column], Column], instead: int) -> Callable[[Column], Column]:
    return lambda timestamp: F.when(number(timestamp) == 0, F.lit(instead)).otherwise(number(timestamp))


def _day(timestamp: Column) -> Column:
    """The date whose Gregorian fields are the ones to print."""
    day = timestamp.cast("date")
    julian = F.date_sub(day, _behind(F.date_sub(day, _behind(day))))
    return F.when(day < F.lit("1582-10-15").cast("date"), julian).otherwise(day)


def _behind(day: Column) -> Column:
    """By how many days the Julian calendar is behind on this day; its leap days count from March on."""
    year = F.year(F.add_months(day, -2))
    return (F.floor(year / 100) - F.floor(year / 400) - 2).cast("int")


def _year(timestamp: Column) -> Column:
    """Of the era."""
    year = F.year(_day(timestamp))
    return F.greatest(year, 1 - year)


def _week(day_number: Callable[[Column], Column]) -> Callable[[Column], Column]:
    """The number of the week, of which the first is the one that has day 1, however little of it."""

    def week(timestamp: Column) -> Column:
        of_first = F.pmod(F.dayofweek(timestamp) - day_number(_day(timestamp)), F.lit(7))
        return F.floor((day_number(_day(timestamp)) - 1 + of_first) / 7) + 1

    return week


def _reaches_next_year(timestamp: Column) -> Column:
    """Whether this week has a day of the next year, whose first week it then is."""
    day = _day(timestamp)
    return (F.month(day) == 12) & (F.dayofmonth(day) - F.dayofweek(timestamp) >= 25)


def _week_year(timestamp: Column) -> Column:
    """Of no era: the one before the first is 0."""
    return F.year(_day(timestamp)) + _reaches_next_year(timestamp).cast("int")


def _week_in_year(timestamp: Column) -> Column:
    return F.when(_reaches_next_year(timestamp), F.lit(1)).otherwise(_week(F.dayofyear)(timestamp))


_NUMBERS: Final[Mapping[str, Callable[[Column], Column]]] = {
    "y": _year,
    "Y": _week_year,
    "M": lambda timestamp: F.month(_day(timestamp)),
    "L": lambda timestamp: F.month(_day(timestamp)),
    "w": _week_in_year,
    "W": _week(F.dayofmonth),
    "D": lambda timestamp: F.dayofyear(_day(timestamp)),
    "d": lambda timestamp: F.dayofmonth(_day(timestamp)),
    "F": lambda timestamp: F.floor((F.dayofmonth(_day(timestamp)) - 1) / 7) + 1,
    "u": lambda timestamp: F.weekday(timestamp) + 1,
    "H": _of_ms(3_600_000, 24),
    "k": _or_if_zero(_of_ms(3_600_000, 24), 24),
    "K": _of_ms(3_600_000, 12),
    "h": _or_if_zero(_of_ms(3_600_000, 12), 12),
    "m": _of_ms(60_000, 60),
    "s": _of_ms(1000, 60),
    "S": _of_ms(1, 1000),
}
