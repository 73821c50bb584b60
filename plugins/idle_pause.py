"""Pause between two polls of something idle, if many are polled."""

from __future__ import annotations

from typing import Final

_LEAST_S, _MOST_S = 0.1, 0.5
_ALL_PER_S: Final = 200.0


def idle_pause_s(count: int) -> float:
    """Return the pause for `count` polled things: 0.1 s to 0.5 s, in between 200 polls a second in all."""
    return min(max(_LEAST_S, count / _ALL_PER_S), _MOST_S)
