"""Timestamps of records: ms since 1970, or a text of a pattern as Java's DateTimeFormatter has it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.config.values import invalid

DEFAULT: Final = "yyyy-MM-dd'T'HH:mm:ss[.SSS]X"
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(\[)|(\])|(.)", re.DOTALL)
_PARTS: Final = {
    "yyyy": "year",
    "uuuu": "year",
    "MM": "month",
    "dd": "day",
    "HH": "hour",
    "mm": "minute",
    "ss": "second",
}
_FIRST: Final = (1970, 1, 1, 0, 0, 0)
_ZONES: Final = ("X", "XX", "XXX", "Z", "xxx", "xx", "x")
_SERVED: Final = f"{', '.join(_PARTS)}, S, {', '.join(_ZONES)}, quoted texts and [optional parts]"


class UnreadableTimestamp(ValueError):
    """A record's timestamp that the settings cannot read."""


@dataclass(frozen=True)
class TimestampParser:
    """Reads timestamps."""

    pattern: str = DEFAULT
    zone: str = "UTC"
    """The zone of texts that name none."""
    takes_millis: bool = True
    regex: str | None = None
    """Finds the timestamp within a text, as its group `timestamp` or its first group."""

    def millis(self, text: str) -> int:
        """The timestamp in ms since 1970. Errors: UnreadableTimestamp."""
        found = text
        if self.regex is not None:
            match = re.search(self.regex, text)
            if match is None:
                raise UnreadableTimestamp(f"the timestamp {text[:60]!r} does not match {self.regex!r}")
            found = match.groupdict().get("timestamp") or (match[1] if match.groups() else match[0])
        if self.takes_millis and re.fullmatch(r"-?[0-9]{1,18}", found):
            return int(found)
        match = re.fullmatch(_regex(self.pattern), found)
        try:
            if match is not None:
                return _millis(match.groupdict(), ZoneInfo(self.zone))
        except ValueError:
            pass
        raise UnreadableTimestamp(f"the timestamp {found[:60]!r} is not of the pattern {self.pattern}")


def pattern_problem(name: str, value: Any) -> str | None:
    """The error of a pattern that is not served, or None."""
    try:
        re.compile(_regex(value or DEFAULT))
    except (ValueError, re.error) as error:
        return invalid(name, value, str(error))
    return None


def zone_problem(name: str, value: Any) -> str | None:
    """The error of an unknown zone, or None."""
    try:
        ZoneInfo(value or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return invalid(name, value, "No time zone has this name")
    return None


def iso(millis: int) -> str:
    """The instant as Java prints it."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    return moment.isoformat(timespec="milliseconds" if millis % 1000 else "seconds").replace("+00:00", "Z")


def _regex(pattern: str) -> str:
    """The pattern as a regular expression. Errors: ValueError for letters that are not served."""
    made = ""
    for match in _TOKEN.finditer(pattern):
        token, quoted, letter, begin, end = match[0], match[1], match[2], match[3], match[4]
        if quoted is not None:
            made += re.escape(quoted.replace("''", "'") or "'")
        elif letter is None:
            made += "(?:" if begin else ")?" if end else re.escape(token)
        elif token in _PARTS:
            made += f"(?P<{_PARTS[token]}>[0-9]{{{4 if _PARTS[token] == 'year' else 2}}})"
        elif letter == "S":
            made += f"(?P<fraction>[0-9]{{{len(token)}}})"
        elif token in _ZONES:
            made += "(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
        else:
            raise ValueError(f"'{token}' in it is not served; {_SERVED} are")
    return made


def _millis(parts: dict[str, str | None], zone: ZoneInfo) -> int:
    names = ("year", "month", "day", "hour", "minute", "second")
    year, *others = (int(parts.get(name) or default) for name, default in zip(names, _FIRST, strict=True))
    fraction = (parts.get("fraction") or "").ljust(3, "0")[:3]
    offset = parts.get("zone")
    month, day, hour, minute, second = others
    moment = datetime(year, month, day, hour, minute, second, tzinfo=_zone(offset) if offset else zone)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + int(fraction)


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(offset if text[0] == "+" else -offset)
