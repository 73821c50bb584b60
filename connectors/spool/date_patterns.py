"""Dates and times by the letters of Java's SimpleDateFormat, for whole arrays of texts.

Decided: texts that Java reads leniently (a 31st of June, `5` for the milliseconds `SSS`) are errors, because what they
mean is a guess; loses: files that the original connector reads into other days.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NAMES: Final = (
    "(?i:january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)"
)
_DAY_NAMES: Final = "(?i:(?:sun|mon|tues|wednes|thurs|fri|satur)day|sun|mon|tue|wed|thu|fri|sat)"
_NUMBERS: Final = {"M": "month", "d": "day", "H": "hour", "h": "half_hour", "m": "minute", "s": "second"}
_MOST: Final = {"month": 12, "hour": 23, "half_hour": 12, "minute": 59, "second": 59}
_LEAST: Final = {"month": 1, "day": 1, "half_hour": 1}
_ZONE: Final = r"(?P<zone>Z|[+-]\d{2}:?\d{2}|[+-]\d{2})"
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class DatePattern:
    """A pattern, as a regular expression with a group for each part."""

    regex: str
    names: tuple[str, ...]
    has_short_year: bool

    @classmethod
    @lru_cache
    def of(cls, pattern: str) -> DatePattern:
        """Return the pattern of this text. Errors: ValueError for a letter that is not served."""
        tokens, at = [], 0
        while at < len(pattern):
            found = _TOKEN.match(pattern, at)
            if found is None:
                raise ValueError(f"The date pattern {pattern!r} has a quote without its end")
            tokens.append(found)
            at = found.end()
        follows = [*(one[2] for one in tokens[1:]), None]
        parts = [_part(one, pattern, next_) for one, next_ in zip(tokens, follows, strict=True)]
        regex = "".join(parts)
        names = tuple(re.findall(r"\(\?P<(\w+)>", regex))
        if len(set(names)) < len(names):
            raise ValueError(f"The date pattern {pattern!r} has the same part twice")
        return cls(f"^{regex}$", names, bool(re.search(r"(?<!y)yy(?!y)", pattern)))

    def parsed(self, texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Return local milliseconds since 1970, null for texts that do not match, and those of the zone, if any."""
        found = pc.extract_regex(texts, self.regex)
        parts = {name: pc.struct_field(found, name) for name in self.names}
        zone = parts.pop("zone", None)
        numbers = {name: _numbers(name, part) for name, part in parts.items()}
        good = np.asarray(found.is_valid())
        for name, values in numbers.items():
            good &= (values >= _LEAST.get(name, 0)) & (values <= _MOST.get(name, 9999))
        if self.has_short_year and "year" in numbers:
            numbers["year"] = _whole_years(numbers["year"])
        days, is_day = _days(numbers, len(texts))
        ms = days * _DAY_MS + _ms_of_day(numbers, len(texts))
        valid = pa.array(ms, pa.int64(), mask=~(good & is_day))
        return valid, None if zone is None else _zone_ms(zone)


def _part(token: re.Match[str], pattern: str, following: str | None) -> str:
    quoted, letter, text = token[1], token[2], token[0]
    if quoted is not None:
        return re.escape(quoted.replace("''", "'") if quoted else "'")
    if letter is None:
        return re.escape(text)
    is_tight = following is not None and following not in "aEXZ"
    digits = rf"\d{{{len(text)}}}" if is_tight else r"\d{1,2}"
    match letter:
        case "y":
            return rf"(?P<year>\d{{{2 if len(text) == 2 else 4}}})"
        case "M" if len(text) >= 3:
            return rf"(?P<month_name>{_MONTH_NAMES})"
        case "S":
            return rf"(?P<milli>\d{{{len(text)}}})" if len(text) == 3 else _refused(pattern, text)
        case "E":
            return _DAY_NAMES
        case "a":
            return r"(?P<half>(?i:am|pm))"
        case "X" | "Z":
            return _ZONE
    return rf"(?P<{_NUMBERS[letter]}>{digits})" if letter in _NUMBERS else _refused(pattern, text)


def _refused(pattern: str, text: str) -> str:
    raise ValueError(
        f"The date pattern {pattern!r} has {text}, which is not served. Served are y, M, d, H, h, m, s, SSS, a, E, X, Z"
    )


def _numbers(name: str, part: Any) -> Any:
    if name == "month_name":
        short = pc.utf8_lower(pc.utf8_slice_codeunits(part, 0, 3))
        found = pc.add(pc.index_in(short, pa.array(_MONTHS)), 1)
    elif name == "half":
        found = pc.if_else(pc.equal(pc.utf8_lower(part), "pm"), 12, 0)
    else:
        found = pc.cast(part, pa.int64())
    return np.asarray(pc.fill_null(found, 1).cast(pa.int64()))


def _whole_years(years: Any) -> Any:
    """Years of two digits: within 80 years before and 20 after this one, as Java has them."""
    now = int(np.datetime64("today", "Y").astype(int)) + 1970
    whole = years + now // 100 * 100
    return np.where(whole > now + 20, whole - 100, np.where(whole < now - 80, whole + 100, whole))


def _days(numbers: dict[str, Any], count: int) -> tuple[Any, Any]:
    """Days since 1970, and for each if the calendar has it."""
    years = numbers.get("year", np.full(count, 1970))
    months = numbers.get("month_name", numbers.get("month", np.ones(count, np.int64))) - 1
    first = (years - 1970).astype("M8[Y]").astype("M8[M]") + np.clip(months, 0, 11)
    made = first.astype("M8[D]") + (numbers.get("day", np.ones(count, np.int64)) - 1)
    return made.astype(np.int64), made.astype("M8[M]") == first


def _ms_of_day(numbers: dict[str, Any], count: int) -> Any:
    nothing = np.zeros(count, np.int64)
    hours = numbers.get("hour", numbers.get("half_hour", nothing) % 12 + numbers.get("half", nothing))
    minutes = hours * 60 + numbers.get("minute", nothing)
    return (minutes * 60 + numbers.get("second", nothing)) * 1000 + numbers.get("milli", nothing)


def _zone_ms(zone: Any) -> pa.Array:
    """The zone's distance from UTC."""
    digits = pc.utf8_rpad(pc.replace_substring_regex(pc.replace_substring(zone, "Z", "+00"), "[:+-]", ""), 4, "0")
    hours = pc.cast(pc.utf8_slice_codeunits(digits, 0, 2), pa.int64())
    minutes = pc.add(pc.multiply(hours, 60), pc.cast(pc.utf8_slice_codeunits(digits, 2, 4), pa.int64()))
    ms = pc.multiply(minutes, 60_000)
    return pc.if_else(pc.starts_with(zone, "-"), pc.negate(ms), ms)
