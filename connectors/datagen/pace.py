"""The pauses between records, without a thread of their own and without busy waiting."""

from __future__ import annotations

import random
import time
from typing import Final

import numpy as np

from headrace.plugins.stopping import StopToken

_LONGEST_WAIT_S: Final = 0.5
"""`plan` may wait for so long."""
_GATHERED_S: Final = 0.05
"""Records that are due within this time go together, so that small pauses do not make a batch of each record."""
_MADE_UP_S: Final = 1.0
"""Records of so long a delay are made up for; a task that was paused does not catch up."""
_DRAWN: Final = 10_000


class Pace:
    """Says how many records are due; each is due after a pause from 0 up to `longest_s` after the one before."""

    def __init__(self, longest_s: float, stopping: StopToken) -> None:
        self._longest_s = longest_s
        self._stopping = stopping
        self._due_at = time.monotonic() + self._pause_s()
        self._last = 0.0

    def due(self, most: int) -> int:
        """Wait a while for the next record to be due; return how many are, 0 if none is yet."""
        if self._longest_s <= 0:
            return most
        now = time.monotonic()
        self._due_at = max(self._due_at, now - _MADE_UP_S)
        at = max(self._due_at, self._last + _GATHERED_S)
        if at > now:
            self._stopping.wait(min(at - now, _LONGEST_WAIT_S))
            now = time.monotonic()
        if at > now:
            return 0
        pauses = np.random.default_rng().uniform(0, self._longest_s, min(most, _DRAWN))
        ends = self._due_at + np.cumsum(pauses)
        rows = min(most, 1 + int(np.searchsorted(ends[:-1], now, "right")))
        self._due_at, self._last = float(ends[rows - 1]), now
        return rows

    def _pause_s(self) -> float:
        return random.uniform(0, max(0.0, self._longest_s))
