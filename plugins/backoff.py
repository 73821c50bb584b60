"""How long to wait before the next attempt: the one formula of everything that tries again.

Decided: a class of ours instead of `tenacity`, because those who wait are mostly no functions to be called again: a
task that waits on its own events, an alarm of a scheduler, the due time in a record's header, a thread that watches a
driver; all that they share is the length of the pause; loses: tenacity's other ways of waiting and of giving up.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_MOST_DOUBLED: Final = 62
"""Doublings after which every `most` is reached; a float holds them."""


@dataclass(frozen=True)
class Backoff:
    """Pauses that double with each failure in a row, from `first` up to `most`; seconds, or another unit of time."""

    first: float
    most: float
    spread: float = 0.0
    """The part of a pause that is random, from 0 to 1, so that many who failed together do not come back together."""

    def pause(self, failures: int, chance: Callable[[], float] = random.random) -> float:
        """The pause after so many failures in a row, 1 or more; `chance` draws from 0 to 1."""
        longest = min(self.first * 2.0 ** min(failures - 1, _MOST_DOUBLED), self.most)
        return longest * (1 - self.spread + self.spread * chance()) if self.spread else longest
