"""Kafka clients whose threads may wake a little late, and so wake together.

Each of the three or four threads of a client wakes once or twice a second though nothing happens, and to wake costs
more than what it then does. Within the slack the kernel lets a thread wait for the next one that wakes.

Decided: 10 ms, because 100 idle consumers take 3.0 % of a core so, and 3.8 % without (two cores, turn by turn; 50 ms
gives the same); loses: so much where a pause of librdkafka's ends by its clock, as a backoff does. What comes from a
broker or from a task wakes at once.

Source: prctl(2), PR_SET_TIMERSLACK.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int, c_ulong
from typing import Any, Final

SLACK_NS: Final = 10_000_000
_SET, _GET = 29, 30


@contextmanager
def late_timers() -> Iterator[None]:
    """Threads that this thread starts meanwhile, and that those start, have that slack; only Linux knows it."""
    if sys.platform != "linux":
        yield
        return
    before = slack_ns()
    _prctl(_SET, SLACK_NS)
    try:
        yield
    finally:
        _prctl(_SET, before)


def slack_ns() -> int:
    """That of this thread."""
    return _prctl(_GET, 0)


def _prctl(option: int, value: int) -> int:
    prctl: Any = ctypes.CDLL(None).prctl
    prctl.argtypes, prctl.restype = (c_int, *[c_ulong] * 4), c_int
    result: int = prctl(option, value, 0, 0, 0)
    return result
