"""Measures the time until all of a cluster runs where it should: after a change, and after a `kill -9`."""

import re
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.cluster import Cluster, Member
from tests.bench.context import Bench, Figures, Run
from tests.bench.latency import APPENDS_PER_S, HELLO, LEAD_S, PADDING, append, sender
from tests.bench.processes import Failed
from tests.bench.sides import Side

TASKS = 12
FLOW_BOUND_S = 150
PLACING_TRIES = 4
NUMBERED = re.compile(r"(\d+) (\d+) " + re.escape(PADDING))


def rebalance(bench: Bench, side: Side, workers: int) -> Figures:
    """`created_s`: POST of a sink with 12 tasks → all RUNNING, shared evenly among workers that had come to rest.

    With several workers also `left_s`: SIGTERM of one → the same among the others; and `joined_s`: the first moment
    at which the broker sees a new one join → the same among all.  A task shows RUNNING only where its worker can move
    data, so the latter has in it what a start has left to do when the worker joins.
    """
    with bench.run(f"rebalance-{workers}") as run, Cluster(run, side) as cluster:
        sink = {**run.sink(run.topic(), run.directory / "out.txt"), "tasks.max": str(TASKS)}
        wanted = {sink["name"]: TASKS}
        cluster.start(workers)
        begin = cluster.cost()
        at = time.monotonic()
        cluster.create(sink)
        figures = {"created_s": cluster.wait_running(wanted) - at}
        spent = cluster.cost() - begin
        if workers > 1:
            cluster.wait_at_rest()
            figures["left_s"] = _leave(cluster, wanted)
            begin = cluster.cost()
            figures["joined_s"] = _join(cluster, wanted)
            spent += cluster.cost() - begin
        return {**figures, **spent.shares()}


def _leave(cluster: Cluster, wanted: Mapping[str, int]) -> float:
    leaver = cluster.members[-1]
    at = cluster.lose(leaver, signal.SIGTERM)
    left_s = cluster.wait_running(wanted) - at
    leaver.root.wait(60)
    cluster.wait_at_rest()
    cluster.until(cluster.is_stable, "the group stable", 60)
    return left_s


def _join(cluster: Cluster, wanted: Mapping[str, int]) -> float:
    cluster.start_one()
    joins = cluster.until(lambda: not cluster.is_stable(), "the new worker joining", 60)
    return cluster.wait_running(wanted) - joins


def recovery(bench: Bench, side: Side, delay_ms: int) -> Figures:
    """`kill -9` of the one of two workers that runs a file source and the sink of its lines → `recovery_s`: the first
    line appended after the kill has arrived.  On the way, all since the kill: `noticed_s`, the broker starts the
    rebalance (the session has timed out); `running_s`, source and sink are RUNNING on the other worker (the delay is
    over); `produced_s`, the topic grows (what remains to `recovery_s` is the sink's group, which misses its dead member
    for a session, too).  Every line appended must have arrived in the end; `repeated` did more than once.
    """
    with bench.run(f"recovery-{delay_ms}") as run, Cluster(run, side, delay_ms) as cluster:
        pairs = _Pairs.of(run)
        for file in pairs.files:
            file.write_text(f"{HELLO}\n")
        cluster.start(2)
        source, sink, victim = pairs.place(cluster)
        start = time.monotonic() + LEAD_S
        with sender(append, pairs.files[source], APPENDS_PER_S, start, start + 2 * FLOW_BOUND_S):
            out = pairs.outs[sink]
            cluster.until(lambda: len(_numbers(out)) > 2 * APPENDS_PER_S, "lines in the file", FLOW_BOUND_S, 0.1)
            time.sleep(bench.size.settle)  # a commit may lie behind, or not: as it comes
            figures = _kill(cluster, victim, pairs, source, sink)
            last = max(_numbers(out))  # what was appended before the kill and until now
            cluster.until(lambda: set(range(last)) <= set(_numbers(out)), "all lines, none lost", 60, 0.2)
        figures["repeated"] = len(_numbers(out)) - len(set(_numbers(out)))
        return figures


@dataclass(frozen=True)
class _Pairs:
    """Two file sources, and two sinks that each read the lines of both: with any source on its worker a sink pairs."""

    run: Run
    topics: tuple[str, str]
    files: tuple[Path, Path]
    outs: tuple[Path, Path]

    @classmethod
    def of(cls, run: Run) -> "_Pairs":
        files, outs = ((run.directory / f"{way}-0.txt", run.directory / f"{way}-1.txt") for way in ("in", "out"))
        return cls(run, (run.topic(0), run.topic(1)), files, outs)

    def source(self, number: int) -> dict[str, str]:
        return self.run.source(self.files[number], self.topics[number], number)

    def sink(self, number: int) -> dict[str, str]:
        return self.run.sink(",".join(self.topics), self.outs[number], number)

    def place(self, cluster: Cluster) -> tuple[int, int, Member]:
        """A source and a sink whose tasks run on one worker, and that worker.

        Errors: Failed when the group never puts any so.
        """
        sources = [self.source(0), self.source(1)]
        sinks = [self.sink(0), self.sink(1)]
        wanted = {one["name"]: 1 for one in sources + sinks}
        for one in sources:
            cluster.create(one)
        for _ in range(PLACING_TRIES):
            for one in sinks:
                cluster.create(one)
            cluster.wait_running(wanted)
            parts = cluster.parts(*wanted)
            for member in cluster.members[::-1]:  # the first answers on
                here = {who for who, part in parts.items() if part.worker == member.id}
                found = [n for n in (0, 1) if f"{self.source(n)['name']}-0" in here]
                with_it = [n for n in (0, 1) if f"{self.sink(n)['name']}-0" in here]
                if found and with_it:
                    return found[0], with_it[0], member
            for one in sinks:
                cluster.delete(one["name"])
            sinks.reverse()
        raise Failed(f"{cluster.side.name}: no worker was given both a source and a sink")


def _kill(cluster: Cluster, victim: Member, pairs: _Pairs, source: int, sink: int) -> Figures:
    topics, out = cluster.run.bench.topics, pairs.outs[sink]
    tasks = [f"{pairs.source(source)['name']}-0", f"{pairs.sink(sink)['name']}-0"]
    names = [task.removesuffix("-0") for task in tasks]
    killed_at = cluster.lose(victim, signal.SIGKILL)
    killed_ns = time.monotonic_ns()
    victim.root.wait()
    begin = cluster.cost()
    had, end = out.stat().st_size, topics.end(pairs.topics[source])

    def running() -> bool:
        parts = cluster.parts(*names)
        return all(parts[task].state == "RUNNING" and parts[task].worker != victim.id for task in tasks)

    watched: dict[str, Callable[[], bool]] = {
        "noticed_s": lambda: not cluster.is_stable(),
        "running_s": running,
        "produced_s": lambda: topics.end(pairs.topics[source]) > end,
        "recovery_s": lambda: any(sent > killed_ns for _, sent in whole_lines(out, had)),
    }
    found = phases(cluster, killed_at, watched)
    return {**found, **(cluster.cost() - begin).shares()}


def phases(cluster: Cluster, began: float, watched: Mapping[str, Callable[[], bool]]) -> Figures:
    """Return how long after `began` each was first seen to hold.  Errors: Failed if one never does."""
    seen: Figures = {}

    def all_seen() -> bool:
        for name, holds in watched.items():
            if name not in seen and holds():
                seen[name] = time.monotonic() - began
        return len(seen) == len(watched)

    cluster.until(all_seen, f"all of {', '.join(watched)}", FLOW_BOUND_S)
    return seen


def _numbers(out: Path) -> list[int]:
    return [number for number, _ in whole_lines(out)]


def whole_lines(out: Path, after: int = 0) -> list[tuple[int, int]]:
    """(number, sent) of the whole lines; one that the kill tore is none."""
    if not out.exists():
        return []
    with out.open("rb") as file:
        file.seek(after)
        texts = file.read().decode().split("\n")[:-1]
    return [(int(m[1]), int(m[2])) for text in texts if (m := NUMBERED.fullmatch(text))]
