"""Abandoned threads of the driver's JVM, which compute for nobody: a thread that does not end cannot be killed.

A few are tolerated, because a new driver costs all tasks some ten seconds. Each takes a part of a core, so the driver
is replaced if there are more. A thread that runs a task of an ended job is never tolerated: it holds one of Spark's few
slots for tasks, and once all are held no job moves. Most such tasks end before their next row.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError

from headrace.worker.engine.bounds import LOOK_S
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.job_group import JobGroup

log = logging.getLogger(__name__)

MOST: Final = 4
"""The most abandoned threads that are tolerated."""
MOST_LOOKS: Final = 10
"""The number of looks in a row, one a second, at which a task of an ended job may still compute."""


class _Left(NamedTuple):
    generation: int
    runs: Callable[[], bool]


class GivenUp:
    """The abandoned threads of the driver. Any thread may call."""

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
        elif here:  # the thread that was just abandoned may be about to end
            log.warning(
                "Spark's driver has %d threads that compute for nobody; of more than %d it is replaced", len(here), MOST
            )

    def add_job(self, group: JobGroup, job: Future[Any]) -> None:
        """End an abandoned job. `job` is done once the driver's thread that plans it and waits for it has ended."""
        group.cancel()
        self.add(lambda: not job.done())

    @contextlib.contextmanager
    def starting(self, group: JobGroup) -> Iterator[None]:
        """Count the jobs that this thread starts within it among the group's.

        If they fail or are cancelled, and a task of theirs computes on, the driver is replaced.
        """
        generation = self._spark.generation
        group.begin()
        try:
            yield
        except BaseException:
            follow = threading.Thread(target=self._follow, args=(group, generation), name="ended-job", daemon=True)
            follow.start()
            raise
        finally:
            group.end()

    def _follow(self, group: JobGroup, generation: int) -> None:
        computed = 0
        with contextlib.suppress(Py4JError, OSError):  # the driver is gone, and the tasks with it
            while computed < MOST_LOOKS:
                time.sleep(LOOK_S)
                if generation != self._spark.generation or not group.runs():
                    return
                computed = computed + 1 if group.computes() else 0
            self._spark.replace("a task of a job that has ended computes on, and cannot be stopped")
