"""Singer's messages as a tap prints them: a JSON object a line.

A fraction is read as a double only if the double has all of its digits; else it stays an `Inexact` text, which fits
nothing but a string of numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from headrace.connectors.singer.errors import SingerError

_SHOWN: Final = 200
_SURE: Final = 16
"""Texts of up to 15 digits and a point are exact as doubles."""


@dataclass(frozen=True)
class Inexact:
    """A number with more digits than a double holds."""

    text: str


@dataclass(frozen=True)
class Schema:
    """The SCHEMA of a stream's records from here on."""

    stream: str
    schema: Any
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """A RECORD."""

    stream: str
    value: dict[str, Any]
    extracted_ms: int | None


@dataclass(frozen=True)
class State:
    """A STATE: all messages before it are behind, once it is given to the tap's next run."""

    text: str

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.text)


@dataclass(frozen=True)
class Other:
    """A message that says nothing about records, such as ACTIVATE_VERSION."""

    kind: str


Message = Schema | Record | State | Other


def message_of(line: bytes) -> Message:
    """Read a line. Errors: SingerError for what is no message, and for a BATCH, whose records are elsewhere."""
    try:
        read = json.loads(line, parse_float=_number)
        kind = str(read["type"]).upper()
        if kind == "RECORD":
            return Record(_name(read["stream"]), _object(read["record"]), _milliseconds(read.get("time_extracted")))
        if kind == "STATE":
            return State(json_text(read["value"]))
        if kind == "SCHEMA":
            return Schema(_name(read["stream"]), read["schema"], tuple(map(_name, read.get("key_properties") or ())))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SingerError(f"printed what is no message of Singer's: {_shown(line)} ({_why(error)})") from error
    if kind == "BATCH":
        raise SingerError("sent a BATCH, whose records are in files. Remove batch_config from its config")
    return Other(kind)


def json_text(value: Any) -> str:
    """Return the JSON of what a tap sent. Errors: ValueError for a number that would lose digits."""
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except TypeError as error:
        raise ValueError("it holds a number with more digits than a double has") from error
    except UnicodeEncodeError as error:
        raise ValueError("it holds half of a surrogate pair, which is no text") from error
    return text


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _number(text: str) -> float | Inexact:
    number = float(text)
    if len(text) <= _SURE and "e" not in text.lower():
        return number
    is_exact = number not in (float("inf"), float("-inf")) and Decimal(repr(number)) == Decimal(text)
    return number if is_exact else Inexact(text)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r:.60} is no name")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("its record is no object")
    return value


def _milliseconds(text: Any) -> int | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _why(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)
