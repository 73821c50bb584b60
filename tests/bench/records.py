"""Measures the layer of records beside Arrow batches, and the time of a record from `poll` to its topic."""

from __future__ import annotations

import json
import shutil
import time

from tests.bench import record_connectors
from tests.bench.context import Bench, Figures, Run
from tests.bench.latency import percentile
from tests.bench.record_connectors import FIELDS
from tests.bench.sides import Side
from tests.bench.throughput import COMMIT_INTERVAL, figures_of

BOUND_S = 300
LINES_A_RECORD = 5
"""Records cost more than lines: a measure has this many times fewer."""
RATE = 1_000
PLAIN = {"value.converter.schemas.enable": "false", **COMMIT_INTERVAL}


def source(bench: Bench, side: Side) -> Figures:
    """Dicts of ten fields → one-partition topic; `arrow_…`: the same by an Arrow source."""
    return {**_source(bench, side, "RecordsOut"), **_of_arrow(_source(bench, side, "ArrowOut"))}


def sink(bench: Bench, side: Side) -> Figures:
    """The topic of such records → `put`, committed; `arrow_…`: the same to an Arrow sink."""
    return {**_sink(bench, side, "RecordsIn"), **_of_arrow(_sink(bench, side, "ArrowIn"))}


def latency(bench: Bench, side: Side) -> Figures:
    """From the moment at which `poll` makes a record until it is seen in the topic, at `RATE` records a second."""
    with bench.run("records") as run:
        topic, count = run.topic(), round((bench.size.warm_up + bench.size.window) * RATE)
        connector = {**_connector(run, "RecordsOut"), "topic": topic, "count": str(count), "rate": str(RATE)}
        with run.worker(side, [connector], _settings(run)) as worker:
            worker.until(lambda: bench.topics.end(topic) > 0, "the first record in the topic", BOUND_S)
            begin, taken = worker.cost(), []
            consumer = bench.topics.follow(topic)
            while len(taken) < count:
                for message in consumer.consume(count, timeout=0.002):
                    taken.append((made := json.loads(message.value() or b"")["at"], (time.monotonic_ns() - made) / 1e6))
                worker.check()
            consumer.close()
            spent = worker.cost() - begin
            since = taken[0][0] + bench.size.warm_up * 1e9
            measured = sorted(ms for made, ms in taken if made >= since)
            return {
                **{f"p{percent}_ms": percentile(measured, percent) for percent in (50, 99)},
                **spent.shares(),
                **worker.memory(),
            }


def _source(bench: Bench, side: Side, name: str) -> Figures:
    count = bench.size.lines // LINES_A_RECORD
    with bench.run("records") as run:
        topic = run.topic()
        connector = {**_connector(run, name), "topic": topic, "count": str(count)}
        with run.worker(side, [connector], _settings(run)) as worker:
            worker.until(lambda: bench.topics.end(topic) >= count // 3, "a third of the records", BOUND_S)
            first, begin = bench.topics.end(topic), worker.cost()
            worker.until(lambda: bench.topics.end(topic) >= count, "all records in the topic", BOUND_S)
            return figures_of(count - first, worker.cost() - begin, worker)


def _sink(bench: Bench, side: Side, name: str) -> Figures:
    count = bench.size.lines // LINES_A_RECORD
    topic = bench.shared_topic("dicts", lambda: (json.dumps({**FIELDS, "id": n}).encode() for n in range(count)))
    with bench.run("records") as run:
        connector = {**_connector(run, name), "topics": topic}
        group = f"connect-{connector['name']}"
        with run.worker(side, [connector], _settings(run)) as worker:
            worker.until(lambda: bench.topics.committed(group, topic) >= count // 3, "a third of the records", BOUND_S)
            first, begin = bench.topics.committed(group, topic), worker.cost()
            if first >= count:
                raise RuntimeError(f"all {count} records were committed at once: nothing is left to measure")
            worker.until(lambda: bench.topics.committed(group, topic) >= count, "all records committed", BOUND_S)
            return figures_of(count - first, worker.cost() - begin, worker)


def _connector(run: Run, name: str) -> dict[str, str]:
    return {"name": f"{run.name}-{name}", "connector.class": name, "tasks.max": "1"}


def _settings(run: Run) -> dict[str, str]:
    plugins = run.directory / "plugins"
    plugins.mkdir(exist_ok=True)
    shutil.copy(record_connectors.__file__, plugins)
    return {**PLAIN, "plugin.path": str(plugins)}


def _of_arrow(figures: Figures) -> Figures:
    return {f"arrow_{name}": figures[name] for name in ("rec_s", "rec_cpu_s")}
