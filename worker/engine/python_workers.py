"""Kills Spark's Python workers that hang.

Decided: a worker is ended when it gives no sign of life (`liveness`), not when it moves no data: a worker that writes
to a slow disk or broker for a minute goes on, instead of being killed and its batch tried again for ever; loses: only
Spark ends a writer that waits for ever, after `spark.python.worker.idleTimeoutSeconds`.

Spark ends a worker with SIGTERM, which a stopped process never gets; this module uses SIGKILL. It sees only processes
on this host: with a local master all of them.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import psutil

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""The pause between looks."""
_STOPPED_LOOKS = 2
_SILENT_LOOKS = 4
"""The looks in a row at which it was stopped, or its sign the same: noticed within 10 s, however late a look is."""


class PythonWorkers:
    """The processes below one driver, looked at again and again."""

    def __init__(self, driver: int, signs: Path) -> None:
        """`signs`: the folder with the processes' signs of life."""
        self._driver = driver
        self._signs = signs
        self._stopped: dict[psutil.Process, int] = {}
        self._silent: dict[psutil.Process, tuple[int, int]] = {}

    def kill_hung(self) -> None:
        """Kill the processes that have hung at enough looks."""
        # Finding processes is dear on a machine with many, and there are none before one gave its first sign.
        processes = self._processes() if self._have_given_signs() else []
        self._forget_signs_of_others(processes)
        self._stopped = {p: self._stopped.get(p, 0) + 1 for p in processes if _is_stopped(p)}
        signs = {process: sign for process in processes if (sign := self._sign(process)) is not None}
        self._silent = {process: (sign, self._same(process, sign) + 1) for process, sign in signs.items()}
        for process, looks in self._stopped.items():
            if looks >= _STOPPED_LOOKS:
                _kill(process, "is stopped")
        for process, (_, looks) in self._silent.items():
            if looks >= _SILENT_LOOKS:
                _kill(process, "gives no sign of life")

    def _processes(self) -> list[psutil.Process]:
        try:
            return list(psutil.Process(self._driver).children(recursive=True))
        except psutil.Error:
            return []

    def _have_given_signs(self) -> bool:
        try:
            return any(self._signs.iterdir())
        except OSError:
            return False

    def _sign(self, process: psutil.Process) -> int | None:
        """The time of the process's last sign; None if it gives none."""
        try:
            return (self._signs / str(process.pid)).stat().st_mtime_ns
        except OSError:
            return None

    def _same(self, process: psutil.Process, sign: int) -> int:
        """The looks in a row at which this was already the process's sign."""
        known, looks = self._silent.get(process, (sign, 0))
        return looks if known == sign else 0

    def _forget_signs_of_others(self, processes: list[psutil.Process]) -> None:
        """Delete signs of ended processes: their number may be given to another process."""
        pids = {str(process.pid) for process in processes}
        with contextlib.suppress(OSError):
            for sign in self._signs.iterdir():
                if sign.name not in pids:
                    sign.unlink(missing_ok=True)


def _is_stopped(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return False


def _kill(process: psutil.Process, why: str) -> None:
    log.error("Spark's Python worker %d %s and cannot go on; it is killed, its batch tried again", process.pid, why)
    with contextlib.suppress(psutil.Error):
        process.kill()
