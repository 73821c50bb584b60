"""Kills of workers and rolling restarts, each at its time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.integration.cluster_worker import ClusterWorker
from tests.integration.worker_process import eventually
from tests.soak.sampling import Watch

READY_S: Final = 600.0
"""For a start or an end, while whatever else keeps the machine busy."""
LATE_S: Final = 10.0
"""The cluster has settled if no line is older that has not arrived."""


@dataclass(frozen=True)
class Event:
    """One disturbance: its kind and time, and how long the cluster took to settle after it."""

    at_s: float
    what: str
    settled_s: float


def times(minutes: float, kill_min: float, roll_min: float) -> list[tuple[float, str]]:
    """Plan the kills, in the middle of their intervals, and the rolling restarts, at the ends of theirs.

    The last sixth is without any, so that the end of the run is at rest.

    Units: minutes.
    """
    until = minutes * 5 / 6
    kills = [((n + 0.5) * kill_min, "kill") for n in range(int(minutes / kill_min) + 1)] if kill_min else []
    rolls = [((n + 1) * roll_min, "roll") for n in range(int(minutes / roll_min))] if roll_min else []
    return sorted(one for one in (*kills, *rolls) if one[0] <= until)


class Shaker:
    """Disturbs the cluster, and waits each time until it has settled."""

    def __init__(self, workers: Sequence[ClusterWorker], watch: Watch, items: int, settle_s: float) -> None:
        """`items`: how many connectors and tasks are to run."""
        self._workers, self.watch = workers, watch
        self._items, self._settle_s = items, settle_s
        # The first worker is never killed: it shows what all disturbances of the others leave behind.
        self._victims = itertools.cycle(range(1, len(workers)))
        self.events: list[Event] = []
        self.faults: list[str] = []
        """Faults that were seen while the run went on."""

    def start(self) -> None:
        """Wait until the first lines of all have arrived: hundreds of sinks join their groups at once."""
        self._settle(self._begin("start"), "start")

    def kill(self) -> None:
        """Kill one worker with -9 and start it again at once."""
        number = next(self._victims)
        began = self._begin(f"kill -9 w{number}")
        worker = self._workers[number]
        self.watch.down.add(worker)
        worker.kill()
        self._again(worker)
        self._settle(began, f"kill -9 w{number}")

    def roll(self) -> None:
        """Stop and start all workers, one after the other."""
        for number, worker in enumerate(self._workers):
            began = self._begin(f"restart w{number}")
            self.watch.down.add(worker)
            if (code := worker.stop(READY_S)) != 0:
                self.faults.append(f"w{number} ended with {code} when it was stopped")
            self._again(worker)
            self._settle(began, f"restart w{number}")

    def settled(self) -> bool:
        """Check that all is RUNNING and no line is late."""
        if self.watch.failure:
            raise self.watch.failure
        return self.watch.states() == {"RUNNING": self._items} and self.watch.arrivals.late()[0] < LATE_S

    def _begin(self, what: str) -> float:
        self.watch.doing = what
        return time.monotonic()

    def _again(self, worker: ClusterWorker) -> None:
        worker.start()
        worker.wait_ready(READY_S)
        self.watch.down.discard(worker)

    def _settle(self, began: float, what: str) -> None:
        try:
            eventually(self.settled, self._settle_s, lambda: (self.watch.states(), self.watch.arrivals.late()), 1.0)
        except AssertionError as error:
            self.faults.append(f"{what}: {error}")
        took = time.monotonic() - began
        self.events.append(Event(round(began - self.watch.began, 1), what, round(took, 1)))
        self.watch.doing = ""
        print(f"{(began - self.watch.began) / 60:6.1f} min  {what}: settled after {took:.0f} s", flush=True)
