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
_SET_TIMER_SLACK: Final = 29
_DEFAULT: Final = 0


@contextmanager
def late_timers() -> Iterator[None]:
    """Threads that this thread starts meanwhile, and that those start, have that slack; only Linux knows it."""
    _set_slack(SLACK_NS)
    try:
        yield
    finally:
        _set_slack(_DEFAULT)


def _set_slack(slack: int) -> None:
    """Where the kernel does not let a thread, all stays as it is."""
    if sys.platform == "linux":
        prctl: Any = ctypes.CDLL(None).prctl
        prctl(c_int(_SET_TIMER_SLACK), *(c_ulong(value) for value in (slack, 0, 0, 0)))
