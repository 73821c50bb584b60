"""Texts read by Java's SimpleDateFormat patterns, in UTC, as leniently as Java reads them; Spark expressions.

A number may be out of its range (a month 13 is January of the next year), blanks before a field are skipped, names are
found whatever their case, and text after the last field is not looked at. Before 15 October 1582 days are Julian.

Texts of the usual spelling (as many digits as the pattern has letters) are cut apart by position; all others go through
one regular expression of the pattern's own and a lambda.

Decided: names are English and weeks those of the United States, as they are written (`headrace.plugins.java.dates`).
Not read: `G`, `w`, `W`, `F`, and days of the week where they would have to decide the day, because nobody writes
timestamps so. A named zone is read where it is UTC, GMT or one of North America's or Europe's, because what Java knows
of others depends on its machine; loses: other names. Two digits that are the first year of the window of 100 years that
began 80 years ago are always that year. Digits are ASCII's, and no exponents are read.

Source: the documentation of java.text.SimpleDateFormat; what it leaves open, Java itself.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.catalyst.let import let
from headrace.plugins.java.calendar import DAY_MS, EpochDay, clock_ms, days, divided, epoch_day, usual_day
from headrace.plugins.java.dates import DAYS, MONTHS, Letters, tokens

_NUMBERS: Final = "yYMLdDHkKhmsSu"
_REFUSED: Final = "GwWF"
_ZONES: Final = "zZX"
_ZONE_HOURS: Final = {
    name: hours
    for hours, names in {
        0: ("UTC", "GMT", "WET"),
        1: ("CET", "WEST"),
        2: ("CEST", "EET"),
        3: ("EEST",),
        -4: ("EDT",),
        -5: ("EST", "CDT"),
        -6: ("CST", "MDT"),
        -7: ("MST", "PDT"),
        -8: ("PST",),
    }.items()
    for name in names
}
_BETWEEN: Final = "\x01"
"""Stands between the fields that the regular expression found."""


class _Field(NamedTuple):
    letter: str
    width: int
    at: int
    """Where it stands in texts of the usual spelling, from 1."""


@dataclass(frozen=True)
class Reading:
    """A pattern made ready; it holds no Columns."""

    fields: tuple[_Field, ...]
    usual: str | None
    """What texts of the usual spelling look like; None: there is no such spelling."""
    any: str
    """What a text that can be read begins with; a group for each field."""

    def millis(self, text: Column) -> Column:
        """The milliseconds since the epoch; null where the text does not match, or they are more than 64 bits hold."""
        marks = _BETWEEN.join(f"${number + 1}" for number in range(len(self.fields)))
        parts = F.split(F.regexp_replace(text, f"(?s)^{self.any}.*", marks), _BETWEEN)
        numbers = let(parts, lambda found: F.array(*(_number(f, found[n]) for n, f in enumerate(self.fields))))
        careful = F.when(text.rlike(f"^{self.any}"), let(numbers, lambda found: self._sum(self._of(found), epoch_day)))
        if self.usual is None:
            return careful
        cut = [
            F.substring(text, field.at, field.width).try_cast("long") - (1 if field.letter == "M" else 0)
            for field in self.fields
        ]
        return F.when(text.rlike(self.usual), self._sum(self._of(cut), usual_day)).otherwise(careful)

    def _of(self, numbers: Column | Sequence[Column]) -> dict[str, Column]:
        """The numbers by letter, in the order of the pattern; of a letter that comes twice the last one counts."""
        of: dict[str, Column] = {}
        for at, field in enumerate(self.fields):
            of.pop(field.letter, None)
            of[field.letter] = numbers[at]
        return of

    def _sum(self, of: dict[str, Column], day_of: EpochDay) -> Column:
        order = list(of)
        zones = [letter for letter in order if letter in _ZONES and day_of is epoch_day]
        clock = clock_ms(of, order)
        moment = F.try_multiply(days(of, order, day_of), F.lit(DAY_MS))
        return F.try_add(moment, clock - of[zones[-1]] if zones else clock)


def reading(pattern: str) -> Reading:
    """How texts of this pattern are read.

    Errors: ValueError for what is no pattern, in Java's words, and for one that cannot be read here.
    """
    read = tokens(pattern)
    _refuse(read)
    fields: list[_Field] = []
    usual: list[str] | None = []
    anything, at = [], 1
    for token, after in zip(read, [*read[1:], None], strict=True):
        if isinstance(token, str):
            anything.append(re.escape(token))
            exact: str | None = None if token[0].isdigit() else re.escape(token)
            at += len(token)
        else:
            fields.append(_Field(*token, at))
            anything.append(_pattern(token, after))
            exact = _exactly(token)
            at += {"X": 1, "Z": 5}.get(token.letter, token.width)
        usual = None if usual is None or exact is None else [*usual, exact]
    return Reading(tuple(fields), None if usual is None else f"^{''.join(usual)}(?![0-9])", "".join(anything))


def _refuse(read: Sequence[str | Letters]) -> None:
    """Errors: ValueError for what cannot be read here."""
    letters = [token.letter for token in read if isinstance(token, Letters)]
    for letter in letters:
        if letter in _REFUSED:
            raise ValueError(f"Headrace reads no timestamps with the letter {letter} in their pattern")
    weekday = next((letter for letter in letters if letter in "Eu"), None)
    if weekday is not None and ("Y" in letters or not {"d", "D"} & set(letters)):
        raise ValueError(f"Headrace reads no timestamps whose day follows from the letter {weekday}")


def _exactly(token: Letters) -> str | None:
    """The field in texts of the usual spelling: of fixed length, UTC, years and months that `usual_day` takes."""
    exactly = {
        "yyyy": "(?:158[3-9]|159[0-9]|1[6-9][0-9]{2}|[2-9][0-9]{3})",
        "MM": "(?:0[1-9]|1[0-2])",
        "SSS": "[0-9]{3}",
        **dict.fromkeys(("dd", "HH", "mm", "ss"), "[0-9]{2}"),
    }
    zone = {"X": "Z", "Z": r"\+0000"}
    return zone.get(token.letter) or exactly.get(token.letter * token.width)


def _pattern(token: Letters, after: str | Letters | None) -> str:
    """The field as Java reads it: it never goes back to try another length."""
    letter, width = token
    blanks = r"[ \t]*+"
    if _is_number(token):
        return f"({_counted(width)})" if _is_number(after) else rf"{blanks}(-?[0-9]++)"
    if letter in "ML":
        return f"{blanks}((?i:{_alternatives(MONTHS)}))"
    if letter == "E":
        return f"{blanks}((?i:{_alternatives(DAYS)}))"
    if letter == "a":
        return f"{blanks}((?i:AM|PM))"
    hours, minutes = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
    if letter == "X":
        return f"{blanks}(Z|[+-]{hours}{['', minutes, ':' + minutes][width - 1]})"
    gmt = f"(?i:GMT)(?:[+-](?:{hours}|[0-9]):{minutes}|(?![+-]))"
    names = "|".join(sorted((name for name in _ZONE_HOURS if name != "GMT"), key=len, reverse=True))
    return f"{blanks}([+-]{hours}{minutes}|{gmt}|(?i:{names}))"


def _is_number(token: str | Letters | None) -> bool:
    return isinstance(token, Letters) and token.letter in _NUMBERS and not (token.letter in "ML" and token.width > 2)


def _counted(width: int) -> str:
    """A number in the next `width` characters, blanks before it included; another field follows at once."""
    ways = []
    for blanks in range(width):
        digits = width - blanks
        ways.append(rf"[ \t]{{{blanks}}}[0-9]{{1,{digits}}}")
        if digits > 1:
            ways.append(rf"[ \t]{{{blanks}}}-[0-9]{{1,{digits - 1}}}")
    return f"(?=(?s:.{{{width}}}))(?>{'|'.join(ways)})"


def _alternatives(names: Sequence[str]) -> str:
    return "|".join([*names, *(name[:3] for name in names)])


def _number(field: _Field, text: Column) -> Column:
    """What the text of a field stands for: for a month from 0 on, for a zone the milliseconds that it is ahead."""
    letter, width = field.letter, field.width
    if letter in _ZONES:
        return _offset(text)
    if letter == "a":
        return (F.upper(text) == "PM").cast("long")
    if letter == "E" or (letter in "ML" and width > 2):
        short = F.array(*(F.lit(name[:3].lower()) for name in (DAYS if letter == "E" else MONTHS)))
        return F.array_position(short, F.lower(F.substring(F.trim(text), 1, 3))) - 1
    number = _integer(F.trim(text, F.lit(" \t")))
    if letter in "ML":
        return number - 1
    if letter in "yY" and width <= 2:
        two_digits = text.rlike(r"^[ \t]*[0-9]{2}\z")
        return let(number, lambda year: F.when(two_digits, _in_window(year)).otherwise(year))
    return number


def _integer(text: Column) -> Column:
    """Java's `intValue` of any number of digits."""
    low_bits = F.shiftright(F.shiftleft(text.try_cast("long"), 32), 32)
    most = F.when(text.startswith("-"), F.lit(-(2**31))).otherwise(F.lit(2**31 - 1))
    return F.coalesce(low_bits, most.cast("long"))


def _in_window(year: Column) -> Column:
    """Two digits are a year from 80 years ago on."""
    begins = datetime.datetime.now(datetime.UTC).year - 80
    return year + begins // 100 * 100 + F.when(year < begins % 100, F.lit(100)).otherwise(F.lit(0))


def _offset(zone: Column) -> Column:
    """Milliseconds that the zone is ahead of UTC."""
    named = F.create_map(*(F.lit(one) for pair in _ZONE_HOURS.items() for one in pair))
    hours = F.coalesce(F.try_element_at(named, F.upper(zone)), F.lit(0)).cast("long")
    sign = F.when(zone.contains("-"), F.lit(-60_000)).otherwise(F.lit(60_000))

    def of_digits(digits: Column) -> Column:
        number = F.coalesce(digits.try_cast("long"), F.lit(0).cast("long"))
        minutes = F.when(F.length(digits) > 2, divided(number, 100) * 60 + F.pmod(number, F.lit(100)))
        return minutes.otherwise(number * 60) * sign

    return hours * 3_600_000 + let(F.regexp_replace(zone, "[^0-9]", ""), of_digits)
