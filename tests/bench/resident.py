"""Costs of a worker that has nothing to do, and the time until a new one moves its first record."""

import statistics
import time
from pathlib import Path

from tests.bench.cluster import Cluster
from tests.bench.context import Bench, Figures
from tests.bench.lines import envelope
from tests.bench.sides import Side

START_BOUND_S = 180
FEW = 3


def idle(bench: Bench, side: Side) -> Figures:
    """Half file sources, half sinks; all have shown that they work, then nothing comes for a while."""
    half = bench.size.connectors // 2
    with bench.run("idle") as run:
        topics = run.topics(2 * half)
        filled, empty = topics[:half], topics[half:]
        texts = [f"idle line {n}" for n in range(FEW)]
        bench.topics.fill_each(filled, list(map(envelope, texts)))
        outs, ins = [[run.directory / f"{way}-{n}.txt" for n in range(half)] for way in ("out", "in")]
        for file in ins:
            file.write_text("".join(f"{text}\n" for text in texts))
        connectors = [run.sink(t, f, n) for n, (t, f) in enumerate(zip(filled, outs, strict=True))]
        connectors += [run.source(f, t, n) for n, (f, t) in enumerate(zip(ins, empty, strict=True))]
        with run.worker(side, connectors) as worker:
            worker.until(lambda: all(_lines(f) == FEW for f in outs), "a few lines in each file", START_BOUND_S, 0.5)
            worker.until(
                lambda: all(bench.topics.end(t) == FEW for t in empty), "a few lines in each topic", START_BOUND_S, 0.5
            )
            time.sleep(bench.size.settle)
            begin = worker.cost()
            time.sleep(bench.size.idle_window)
            worker.check()
            return {**(worker.cost() - begin).shares(), **worker.memory()}


def cluster_worker(bench: Bench, side: Side) -> Figures:
    """One distributed worker without connectors, in a group of its own."""
    with bench.run("memory-cluster") as run, Cluster(run, side) as cluster:
        cluster.start(1)
        time.sleep(bench.size.settle)
        begin = cluster.cost()
        time.sleep(bench.size.idle_window)
        cluster.check()
        return {**(cluster.cost() - begin).shares(), **cluster.memory()}


def start(bench: Bench, side: Side) -> Figures:
    """Process start → the first record of a waiting file has gone through Kafka into the sink's file."""
    runs = [_start_once(bench, side) for _ in range(bench.size.starts)]
    took = statistics.median(run["start_s"] for run in runs)
    return {"start_s": took, "others_cpu_pct": max(run["others_cpu_pct"] for run in runs)}


def _start_once(bench: Bench, side: Side) -> Figures:
    with bench.run("start") as run:
        topic, file, out = run.topic(), run.directory / "in.txt", run.directory / "out.txt"
        file.write_text("first line\nsecond line\n")
        with run.worker(side, [run.source(file, topic), run.sink(topic, out)]) as worker:
            begin = worker.cost()
            arrived = worker.until(lambda: _lines(out) > 0, "the first record in the file", START_BOUND_S)
            return {"start_s": arrived - worker.started, **(worker.cost() - begin).shares()}


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
