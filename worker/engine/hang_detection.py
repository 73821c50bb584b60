"""Tells a driver that hangs from one that is slow to answer.

Decided: a silent driver whose process runs hardly any code hangs after 8 s, so that a stopped one is replaced within 10
s; one that is at work has a minute, because a collection of a full heap on a busy machine takes longer than 8 s, and a
driver that is ended then loses every task's work, and meets the same collection again. Time in which the worker itself
did not run (a suspended machine, a stopped process) does not count: it says nothing of the driver. Loses: a driver that
is busy and will never answer stays for a minute.
"""

from __future__ import annotations

from typing import Final

import psutil

HUNG_S: Final = 8.0
"""A driver that is silent for this time and hardly runs hangs; with a beat each second this stays under 10 s."""
SLOW_S: Final = 60.0
"""A driver that is silent for this time hangs, whatever it does."""
_AT_WORK: Final = 0.05
"""The least part of a core that a driver at work uses; one that waits uses a tenth of that."""
_MISSED_S: Final = 3.0
"""After this time without a look the worker itself did not run."""


class HangDetector:
    """The time since a driver's last answer; look at it twice a second. One thread."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._since_s = self._looked_s = 0.0
        self._used_s = 0.0

    def hangs(self, answered_s: float, now_s: float) -> float | None:
        """The seconds for which a hanging driver has been silent; None if it does not hang.

        `answered_s`: the time of its last answer; both are seconds of one clock.
        """
        try:
            used_s = self._cpu_s()
        except psutil.Error:  # it has ended, which its owner sees for itself
            return None
        missed = now_s - self._looked_s > _MISSED_S
        self._looked_s = now_s
        if missed or answered_s > self._since_s:
            self._since_s, self._used_s = now_s if missed else answered_s, used_s
            return None
        silent_s = now_s - self._since_s
        limit_s = SLOW_S if used_s - self._used_s >= _AT_WORK * silent_s else HUNG_S
        return silent_s if silent_s > limit_s else None

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)
