"""Time zones by Java's ids."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.config.validators import Check
from headrace.config.values import invalid

_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d)(?::?([0-5]\d))?)?")

_UTC: Final = frozenset(
    f"{area}{name}"
    for name in ("UTC", "UCT", "GMT", "GMT0", "GMT+0", "GMT-0", "Universal", "Zulu", "Greenwich")
    for area in ("", "Etc/")
) | {"Z", "UT"}

_SHORT: Final = {
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Source: java.time.ZoneId.SHORT_IDS."""


@cache
def zone(identifier: str) -> tzinfo:
    """The time zone of a long id, a short one, or an offset. Errors: ValueError."""
    text = _SHORT.get(identifier, identifier)
    if text in _UTC:
        return UTC
    if match := _OFFSET.fullmatch(text):
        sign, hours, minutes, seconds = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if offset > timedelta(hours=18):
            raise ValueError(f"{identifier!r} is more than 18 hours from UTC")
        return timezone(-offset if sign == "-" else offset) if offset else UTC
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{identifier!r} is no time zone") from None


def _zone_objection(name: str, value: Any) -> str | None:
    try:
        zone(value or "UTC")
    except ValueError:
        return invalid(name, value, "Invalid time zone identifier")
    return None


ZONE: Final = Check(_zone_objection, "a time zone such as UTC, Europe/Berlin or +02:00")
"""Accepts the ids of `zone`; an empty or null value means UTC."""
