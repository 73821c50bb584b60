"""How often changes of the configuration may lead to a rebalance: a few at once, then one now and then.

Decided: changes wait for each other only when many come in a row, because the first ones of a pause need no company;
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
    """The rebalances that may be asked for; each `EVERY_S` there is one more, up to `AT_ONCE`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(AT_ONCE)
        self._seen = clock()

    def wait_s(self) -> float:
        """Take one and return 0; where none is left, in how many seconds to ask again."""
        now = self._clock()
        self._left = min(float(AT_ONCE), self._left + (now - self._seen) / EVERY_S)
        self._seen = now
        if self._left < 1:
            return (1 - self._left) * EVERY_S
        self._left -= 1
        return 0.0
