"""Retries of requests: which answers are tried again, after which pause, and which failures are no request's fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.values import invalid
from headrace.plugins.backoff import Backoff
from headrace.plugins.interop.http.client import HttpAnswer, retry_after_s

LONGEST_PAUSE_S: Final = 60.0
"""The longest pause in which a task's thread waits for a server; it has to poll Kafka in time."""
_BUSY: Final = (408, 425, 429)
_LAST: Final = 599


@dataclass(frozen=True)
class Statuses:
    """HTTP statuses, written as `404,408,500-` or `400-499`; ranges include their ends."""

    ranges: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, text: str) -> Statuses:
        """The statuses that a text names. Errors: ValueError."""
        ranges = []
        for part in filter(None, (one.strip() for one in text.replace("..", "-").split(","))):
            first, dash, last = (one.strip() for one in part.partition("-"))
            try:
                ends = int(first), (int(last) if last else _LAST) if dash else int(first)
            except ValueError:
                raise ValueError(f"'{part}' is neither a status nor a range as 400-499 or 500-") from None
            if not 100 <= ends[0] <= ends[1] <= _LAST:
                raise ValueError(f"'{part}' is no range of statuses from 100 to {_LAST}")
            ranges.append(ends)
        return cls(ranges)

    def __contains__(self, status: int) -> bool:
        return any(first <= status <= last for first, last in self.ranges)


def statuses_problem(name: str, value: Any) -> str | None:
    """The error of a text that names no statuses, or None."""
    try:
        Statuses.of(value or "")
    except ValueError as error:
        return invalid(name, value, str(error))
    return None


@dataclass(frozen=True)
class Retries:
    """The retries of a request: how many, after which answers, with which pauses."""

    most: int
    statuses: Statuses
    backoff: Backoff

    def pause_s(self, failures: int, answer: HttpAnswer | None) -> float:
        """The pause after so many failures in a row; what the server asks for by `Retry-After`, if it does."""
        asked = asked_pause_s(answer)
        return min(self.backoff.pause(failures), LONGEST_PAUSE_S) if asked is None else asked


def constant(first_s: float) -> Backoff:
    """Pauses of one length."""
    return Backoff(first_s, first_s)


def exponential(first_s: float) -> Backoff:
    """Pauses that double, with a random half, so that tasks that failed together do not retry together."""
    return Backoff(first_s, max(first_s, LONGEST_PAUSE_S), spread=0.5)


def asked_pause_s(answer: HttpAnswer | None) -> float | None:
    """The pause that an answer asks for, a minute at most; None without one."""
    asked = None if answer is None else retry_after_s(answer)
    return None if asked is None else min(asked, LONGEST_PAUSE_S)


def is_passing(status: int) -> bool:
    """True if the server is busy or fails, which is no request's fault."""
    return status in _BUSY or status >= 500


def is_login_refused(status: int) -> bool:
    """True if the server, or the proxy, does not accept the login, which is no record's fault."""
    return status in (401, 407)


def excerpt(body: bytes) -> str:
    """The beginning of an answer, for errors."""
    return repr(body[:200].decode("utf-8", "replace")) if body else "no text"
