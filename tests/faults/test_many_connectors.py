"""200 connectors on one worker move a line every few seconds: what the worker holds does not grow.

100 file sources and 100 file sinks of one task each, for 20 minutes (HEADRACE_TEST_SECONDS says how long instead), with
as many on Apache Connect beside it: both are measured in the same minutes, so that what else the machine does falls on
both alike.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from headrace.plugins.interop.jvm.jars import fetch
from tests.bench.processes import Worker, marked
from tests.bench.sides import SAME_FOR_ALL, sides
from tests.bench.topics import Topics
from tests.integration.cluster_worker import ClusterWorker, new_cluster, wait_balanced
from tests.integration.worker_process import SINK, SOURCE, eventually, line_count, lines_of

pytestmark = [pytest.mark.soak, pytest.mark.kafka, pytest.mark.spark]

PAIRS: Final = 100
EVERY_S: Final = 3.0
"""A line comes into each file so often."""
SAMPLE_S: Final = 5.0
SECONDS: Final = float(os.environ.get("HEADRACE_TEST_SECONDS", "1200"))
GROWTH: Final = {"rss_mb": 0.05, "threads": 0.01, "handles": 0.01, "connections": 0.02}
"""The growth allowed over the second half, by a straight line through its samples, as a share of its mean."""


@dataclass(frozen=True)
class Pipe:
    """A file whose lines go through a topic into another file."""

    name: str
    source: Path
    topic: str
    sink: Path

    def connectors(self) -> list[dict[str, str]]:
        """A source and a sink."""
        source = {"connector.class": SOURCE, "file": str(self.source), "topic": self.topic}
        sink = {"connector.class": SINK, "file": str(self.sink), "topics": self.topic}
        return [
            {"name": f"{self.name}{kind}", "tasks.max": "1", **config}
            for kind, config in (("source", source), ("sink", sink))
        ]


def pipes(folder: Path, about: str, topics: Topics) -> list[Pipe]:
    """Files and topics of their own, each file with a first line."""
    folder.mkdir()
    made = [
        Pipe(f"{about}{n}", folder / f"in{n}.txt", f"{folder.parent.name}-{about}{n}", folder / f"out{n}.txt")
        for n in range(PAIRS)
    ]
    topics.create(*(pipe.topic for pipe in made))
    for pipe in made:
        pipe.source.write_text("line 0\n")
    return made


def waiting(pipes: Sequence[Pipe]) -> str:
    """The pipes whose lines have not all arrived, with how many have."""
    counts = {pipe.name: (line_count(pipe.sink), line_count(pipe.source)) for pipe in pipes}
    return str({name: f"{arrived} of {sent}" for name, (arrived, sent) in counts.items() if arrived != sent})


@contextlib.contextmanager
def trickling(pipes: Sequence[Pipe]) -> Iterator[Callable[[], int]]:
    """A line comes into each file every `EVERY_S`, into one after the other, until the answer is called: how many each
    has then."""
    enough, lines = threading.Event(), 1

    def append() -> None:
        nonlocal lines
        while not enough.is_set():
            for pipe in pipes:
                with pipe.source.open("a") as file:
                    file.write(f"line {lines}\n")
                time.sleep(EVERY_S / len(pipes))
            lines += 1

    thread = threading.Thread(target=append)
    thread.start()

    def end() -> int:
        enough.set()
        thread.join()
        return lines

    try:
        yield end
    finally:
        end()


def held(family: Sequence[psutil.Process], broker_port: int) -> dict[str, float]:
    """Sum up what these processes hold now; `<name>_mb` is the memory of each kind of them."""
    found = dict.fromkeys(GROWTH, 0.0)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess), process.oneshot():
            rss_mb = process.memory_info().rss / 1e6
            found["rss_mb"] += rss_mb
            found[f"{process.name()}_mb"] = found.get(f"{process.name()}_mb", 0.0) + rss_mb
            found["threads"] += process.num_threads()
            found["handles"] += process.num_fds()
            found["connections"] += sum(
                bool(one.raddr) and one.raddr.port == broker_port for one in process.net_connections("tcp")
            )
    return found


def cpu_s(family: Sequence[psutil.Process]) -> float:
    """Processor time of these processes and of their children that have ended."""
    total = 0.0
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def sampled(
    families: Mapping[str, Callable[[], Sequence[psutil.Process]]], broker_port: int
) -> dict[str, list[dict[str, float]]]:
    """Return what each family holds and has used of the processors, over and over until the time is up."""
    began, samples = time.monotonic(), {name: list[dict[str, float]]() for name in families}
    while (now := time.monotonic() - began) < SECONDS:
        for name, family in families.items():
            processes = family()
            samples[name].append({"at_s": now, "cpu_s": cpu_s(processes), **held(processes, broker_port)})
        time.sleep(max(0.0, SAMPLE_S - (time.monotonic() - began - now)))
    return samples


def told(name: str, samples: Sequence[Mapping[str, float]]) -> str:
    """Say what was held at first, in the middle and at last, and the share of the processors of the second half."""
    first, middle, last = samples[0], samples[len(samples) // 2], samples[-1]
    share = 100 * (last["cpu_s"] - middle["cpu_s"]) / (last["at_s"] - middle["at_s"])
    figures = [
        f"{key} {first.get(key, 0):.0f} → {middle.get(key, 0):.0f} → {last[key]:.0f}"
        for key in last
        if key not in ("at_s", "cpu_s")
    ]
    return f"{name}: {share:.1f} % of a core; {', '.join(figures)}"


def growth(samples: Sequence[Mapping[str, float]], key: str) -> float:
    """The growth over the second half, as a share of its mean, by a straight line through its samples."""
    half = samples[len(samples) // 2 :]
    times, values = [one["at_s"] for one in half], [one[key] for one in half]
    slope = statistics.linear_regression(times, values).slope
    return slope * (times[-1] - times[0]) / statistics.mean(values)


@pytest.mark.timeout(SECONDS + 600)
def test_a_worker_with_two_hundred_connectors_stays_as_it_is(broker: str, tmp_path: Path) -> None:
    topics = Topics(broker)
    ours, theirs = pipes(tmp_path / "ours", "h", topics), pipes(tmp_path / "theirs", "a", topics)
    apache = next(side for side in sides(fetch("connect")) if side.name == "apache-default")
    with (
        ClusterWorker(tmp_path / "w", broker, new_cluster(), SAME_FOR_ALL) as worker,
        Worker(apache, tmp_path / "theirs", broker, [one for pipe in theirs for one in pipe.connectors()]) as peer,
    ):
        worker.wait_ready(120)
        for pipe in ours:
            for config in pipe.connectors():
                worker.request("PUT", f"/connectors/{config['name']}/config", config)
        wait_balanced(worker, among=1, items=4 * PAIRS, within_s=120)
        both = (*ours, *theirs)
        eventually(lambda: all(line_count(pipe.sink) == 1 for pipe in both), 180, lambda: waiting(both), 1.0)
        with trickling(both) as end:
            families = {"headrace": worker.family, "apache": lambda: marked(peer.mark)}
            samples = sampled(families, int(broker.rpartition(":")[2]))
            lines = [f"line {number}".encode() for number in range(end())]
        eventually(lambda: all(lines_of(pipe.sink) == lines for pipe in ours), 60, lambda: waiting(ours), 1.0)
        peer.check()
    print()
    for name, of_side in samples.items():
        print(told(name, of_side))
    grown = {key: round(growth(samples["headrace"], key), 4) for key in GROWTH}
    print(
        "growth of the second half:",
        grown,
        "apache:",
        {key: round(growth(samples["apache"], key), 4) for key in GROWTH},
    )
    assert all(grown[key] <= most for key, most in GROWTH.items()), grown
