"""Names of rotated files: `app.log.1`, `app.log-20261128.gz`, `app-2026-11-28.log` for `app.log`.

A log is named by its live file. The names of the others say how old they are: a higher number is older, a later date is
younger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

GZIP: Final = ".gz"
_DATE: Final = r"(?:19|20)\d\d-?[01]\d(?:-?[0-3]\d)?(?:[-_T.]?\d\d[-:.]?\d\d(?:[-:.]?\d\d)?(?:[.,]\d+)?)?(?:[-.]\d+)?"
_SUFFIX: Final = re.compile(rf"(?P<live>.+?)[.\-_](?:(?P<date>{_DATE}|\d{{9,10}})|(?P<number>\d{{1,3}})|(?:old|bak))")
_INFIX: Final = re.compile(rf"(?P<stem>.+?)[.\-_](?P<date>{_DATE})(?P<ending>\.[A-Za-z]+)")


class Rank(NamedTuple):
    """The age of a rotated file; the oldest is the least."""

    is_numbered: bool
    date: tuple[int, ...]
    """The numbers of the date, and the one after it: of one day's files the 10th is younger than the 9th."""
    number: int


def is_gzip(name: str) -> bool:
    """True for a compressed file."""
    return name.endswith(GZIP)


def plain(name: str) -> str:
    """The name before the file was compressed."""
    return name.removesuffix(GZIP)


def readings(name: str) -> Iterator[tuple[str, Rank]]:
    """The live names that this name of a rotated file may belong to, with its age."""
    bare = plain(name)
    if bare != name:
        yield bare, Rank(True, (), 0)
    if (found := _SUFFIX.fullmatch(bare)) is not None:
        date = _numbers(found["date"] or "")
        yield found["live"], Rank(not date, date, -int(found["number"] or 1))
    if (found := _INFIX.fullmatch(bare)) is not None:
        yield found["stem"] + found["ending"], Rank(False, _numbers(found["date"]), 0)


def _numbers(date: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", date)))


def rank(live: str, name: str) -> Rank | None:
    """The age of this file among those of a log; None if it is none of them."""
    return next((found for base, found in readings(name) if base == live), None)
