"""Abandoned threads of the driver's JVM, which compute for nobody: a thread that does not end cannot be killed.

A few are tolerated, because a new driver costs all tasks some ten seconds. Each takes a part of a core, so the driver
is replaced if there are more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from headrace.worker.engine.driver import Spark

log = logging.getLogger(__name__)

MOST: Final = 4
"""The most abandoned threads that are tolerated."""


class _Left(NamedTuple):
    generation: int
    runs: Callable[[], bool]


class GivenUp:
    """The abandoned threads of the driver. Any thread may call it."""

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._left: list[_Left] = []

    def add(self, runs: Callable[[], bool]) -> None:
        """Note an abandoned thread; `runs` tells if it still computes."""
        with self._lock:
            generation = self._spark.generation
            here = [one for one in self._left if one.generation == generation and one.runs()]
            self._left = [*here, _Left(generation, runs)]
            count = len(self._left)
        if count > MOST:
            self._spark.replace(f"{count} threads of it compute for nobody, and cannot be stopped")
        elif here:  # the one that was just abandoned may be about to end
            log.warning(
                "Spark's driver has %d threads that compute for nobody; of more than %d it is replaced", len(here), MOST
            )
