"""Pause before the next attempt: the one formula of all retries; and before the next look at something idle.

Decided: a class of ours instead of `tenacity`, because most retries are not function calls (a task that waits on its
own events, a scheduler's alarm, a due time in a record's header, a thread that watches a driver) and share only the
length of the pause; loses: tenacity's other ways of waiting and of giving up.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_MOST_DOUBLED: Final = 62
"""Doublings after which every `most` is reached and a float does not overflow."""


@dataclass(frozen=True)
class Backoff:
    """Pauses that double with each failure in a row, from `first` to `most`; seconds, or another unit of time."""

    first: float
    most: float
    spread: float = 0.0
    """Random part of a pause, from 0 to 1, so that callers that failed together do not retry together."""

    def pause(self, failures: int, chance: Callable[[], float] = random.random) -> float:
        """Return the pause after `failures` failures in a row, 1 or more; `chance` draws from 0 to 1."""
        longest = min(self.first * 2.0 ** min(failures - 1, _MOST_DOUBLED), self.most)
        return longest * (1 - self.spread + self.spread * chance()) if self.spread else longest


_LEAST_S, _MOST_S = 0.1, 0.5
_ALL_PER_S: Final = 200.0


def idle_pause_s(count: int) -> float:
    """Return the pause for `count` polled things: 0.1 s to 0.5 s, in between 200 polls a second in all."""
    return min(max(_LEAST_S, count / _ALL_PER_S), _MOST_S)
