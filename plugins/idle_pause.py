"""How long to pause between two looks at something idle, where many things are looked at."""

from __future__ import annotations

from typing import Final

_LEAST_S, _MOST_S = 0.1, 0.5
_ALL_PER_S: Final = 200.0


def idle_pause_s(count: int) -> float:
    """The pause where so many are looked at: 0.1 s while few, up to 0.5 s while many; together 200 looks a second."""
    return min(max(_LEAST_S, count / _ALL_PER_S), _MOST_S)
