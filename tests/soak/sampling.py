"""Samples memory, threads and descriptors, the answers of REST and the age of records: a JSON line each few seconds."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from tests.integration.cluster_worker import ClusterWorker
from tests.soak.pipes import Mix
from tests.soak.streams import TopicEnds

INTERNAL: Final = ("configs", "offsets", "status")
NO_ANSWER: Final = "no answer"
_REST_S: Final = 60.0


class Arrivals:
    """Looks at all ends of a mix, for several threads in turn."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix
        self._topics = TopicEnds(mix.bootstrap, mix.topic_ends)
        self._lock = threading.Lock()

    def late(self) -> tuple[float, int]:
        """Tell the age of the oldest line that has not arrived, in seconds, and how many have not."""
        with self._lock:
            sent = time.monotonic()  # what is sent from now on does not count yet
            for end in self._mix.ends:
                end.look()
            self._topics.look()
            waiting = [end for end in self._mix.ends if end.late_s(sent) > 0]
            return max((end.late_s(sent) for end in waiting), default=0.0), sum(len(end.waiting()) for end in waiting)

    def close(self) -> None:
        """Let the consumer go."""
        self._topics.close()


def held(processes: Sequence[psutil.Process]) -> dict[str, float]:
    """Add up what these processes hold and have used."""
    found = dict.fromkeys(("mb", "threads", "handles", "cpu_s"), 0.0)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess), process.oneshot():
            found["mb"] += process.memory_info().rss / 1e6
            found["threads"] += process.num_threads()
            found["handles"] += process.num_fds()
            found["cpu_s"] += sum(process.cpu_times()[:4])
    return {key: round(value, 2) for key, value in found.items()}


def of_worker(worker: ClusterWorker) -> dict[str, Any]:
    """Sort the processes of a worker: itself, Spark's driver, and the rest."""
    family = worker.family()
    python = [process for process in family if process.pid == worker.process.pid]
    jvms = [process for process in family if _is_java(process) and process not in python]
    rest = [process for process in family if process not in (*python, *jvms)]
    return {"pid": worker.process.pid, "worker": held(python), "spark": held(jvms), "others": held(rest)}


def _is_java(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.name() == "java")
    return False


def counted(shown: Mapping[str, Any]) -> Counter[str]:
    """Count the states of connectors and tasks in an answer of `GET /connectors?expand=status`."""
    statuses = [one["status"] for one in shown.values()]
    return Counter(one["state"] for status in statuses for one in (status["connector"], *status["tasks"]))


def folder_mb(data: Path, topic: str) -> float:
    """Add up the log files of a topic's partitions on the broker's disk."""
    total = 0
    for file in data.glob(f"{topic}-*/*.log"):
        with contextlib.suppress(FileNotFoundError):  # a segment that was compacted meanwhile
            total += file.stat().st_size
    return total / 1e6


class Watch(threading.Thread):
    """Samples the cluster until it is closed."""

    def __init__(
        self, workers: Sequence[ClusterWorker], arrivals: Arrivals, broker: psutil.Process, data: Path, file: Path
    ) -> None:
        super().__init__(daemon=True, name="watch")
        self.workers, self.arrivals = workers, arrivals
        self.down: set[ClusterWorker] = set()
        """Workers that are being killed or restarted; they are not asked."""
        self.doing = ""
        """The present disturbance of the cluster; empty between two."""
        self.failure: BaseException | None = None
        self.every_s = 10.0
        self._broker, self._data, self._file = broker, data, file
        self._http = httpx.Client(timeout=_REST_S)
        self._over = threading.Event()
        self.began = time.monotonic()

    def run(self) -> None:
        with self._file.open("a") as file:
            while not self._over.wait(self.every_s - (time.monotonic() - self.began) % self.every_s):
                try:
                    file.write(json.dumps(self.sample()) + "\n")
                    file.flush()
                except BaseException as error:  # the run ends by it
                    self.failure = error
                    raise

    def sample(self) -> dict[str, Any]:
        """Measure all once."""
        at_s = round(time.monotonic() - self.began, 1)
        late_s, waiting = self.arrivals.late()
        states, rest_ms = self._asked()
        cluster = self.workers[0].cluster
        topics = {name: round(folder_mb(self._data, f"{cluster}-{name}"), 3) for name in INTERNAL}
        topics["groups"] = round(folder_mb(self._data, "__consumer_offsets"), 3)
        return {
            "at_s": at_s,
            "doing": self.doing,
            "workers": {f"w{n}": of_worker(worker) for n, worker in enumerate(self.workers)},
            "broker": held([self._broker]),
            "harness_mb": held([psutil.Process()])["mb"],
            "available_mb": round(psutil.virtual_memory().available / 1e6),
            "late_s": round(late_s, 2),
            "waiting": waiting,
            "states": states,
            "rest_ms": rest_ms,
            "topics_mb": topics,
        }

    def states(self) -> Counter[str]:
        """Count the states of connectors and tasks, as the first worker that is up shows them."""
        worker = next((one for one in self.workers if one not in self.down), None)
        return self._states(worker) if worker else Counter()

    def _states(self, worker: ClusterWorker) -> Counter[str]:
        try:
            answer = self._http.get(f"{worker.url}/connectors?expand=status").raise_for_status()
        except httpx.HTTPError:
            return Counter({NO_ANSWER: 1})
        return counted(answer.json())

    def _asked(self) -> tuple[dict[str, int], dict[str, float]]:
        """Ask each worker that is up; one that is taken down meanwhile does not count."""
        states, took = Counter[str](), {}
        for n, worker in enumerate(self.workers):
            if worker in self.down:
                continue
            began = time.monotonic()
            found = self._states(worker)
            if worker in self.down:
                continue
            took[f"w{n}"] = round(1000 * (time.monotonic() - began), 1)
            states = found if NO_ANSWER in found else states or found
        return dict(states), took

    def close(self) -> None:
        """Sample no more."""
        self._over.set()
        self.join()
        self._http.close()
