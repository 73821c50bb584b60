"""Limits how often changes of the configuration lead to a rebalance: a few at once, then one every half second.

Decided: changes wait for each other only if many come in a row, because the first ones after a pause need no company;
loses: the last ones of many begin up to half a second later.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

AT_ONCE: Final = 4
"""A connector's creation needs two: for itself, and for its tasks."""
EVERY_S: Final = 0.5


class RebalanceBudget:
    """Rebalances that may be requested; one more every `EVERY_S`, up to `AT_ONCE`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(AT_ONCE)
        self._seen = clock()

    def wait_s(self) -> float:
        """Take a rebalance from the budget and return 0; if the budget is spent, return the seconds until the next."""
        now = self._clock()
        self._left = min(float(AT_ONCE), self._left + (now - self._seen) / EVERY_S)
        self._seen = now
        if self._left < 1:
            return (1 - self._left) * EVERY_S
        self._left -= 1
        return 0.0
