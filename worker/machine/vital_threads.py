"""Threads that a worker cannot do without: an error that ends one makes the worker unhealthy."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Final

log = logging.getLogger(__name__)

_all: Final[weakref.WeakSet[VitalThread]] = weakref.WeakSet()
_lock: Final = threading.Lock()


class VitalThread(threading.Thread):
    """A daemon thread whose end by an error is logged, and remembered while its owner has it."""

    error: BaseException | None = None

    def start(self) -> None:
        self.daemon = True
        with _lock:
            _all.add(self)
        super().start()

    def run(self) -> None:
        try:
            super().run()
        except BaseException as error:  # SystemExit too, which would end a thread without a word
            self.error = error
            log.exception("The thread %s ended by an error: the worker is unhealthy and must be restarted", self.name)


def dead_threads() -> list[str]:
    """The names of threads that an error ended."""
    with _lock:
        return sorted(thread.name for thread in _all if thread.error is not None)
