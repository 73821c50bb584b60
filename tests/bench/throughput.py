"""Measures how fast one task moves a file into a topic, and a topic into a file.

A source's window begins when two thirds have arrived and ends when all has: 4,000,000 records. A sink's is nearly a
whole topic of 12,000,000, which another sink has read before. Until then all just-in-time compilers have come to rest.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.bench.cluster import Cluster
from tests.bench.context import Bench, Figures, Run
from tests.bench.lines import LINE_BYTES, check_file, check_values
from tests.bench.processes import Cost, Family
from tests.bench.sides import Side

BOUND_S = 300
# Commits come at this interval on every side, so that waiting for the last one blurs the window by little.
COMMIT_INTERVAL = {"offset.flush.interval.ms": "250"}


def source_throughput(
    bench: Bench, side: Side, with_schema: bool = True, settings: Mapping[str, str] = MappingProxyType({})
) -> Figures:
    """File → one-partition topic, order kept, one task; `settings`: the worker's."""
    file, count = bench.lines_file(), bench.size.lines
    settings = {"value.converter.schemas.enable": str(with_schema).lower(), **settings}
    with bench.run("source") as run:
        topic = run.topic()
        with run.worker(side, [run.source(file, topic)], settings) as worker:
            figures = _until_moved(bench, worker, topic, count)
        check_values(bench.topics.read(topic, count), file, count, with_schema)
        return figures


def source_exactly_once(bench: Bench, side: Side) -> Figures:
    """As `source_throughput`, by a distributed worker whose sources are exactly-once: a transaction for each batch."""
    file, count = bench.lines_file(), bench.size.lines
    with bench.run("once") as run:
        topic = run.topic()
        settings = {"exactly.once.source.support": "enabled"}
        with Cluster(run, side, settings=settings).start(1) as worker:
            worker.create({**run.source(file, topic), **side.source})
            figures = _until_moved(bench, worker, topic, count)
            check_values(bench.topics.read(topic, count), file, count)
        return figures


def _until_moved(bench: Bench, worker: Family, topic: str, count: int) -> Figures:
    """Of the last third of the lines. Markers of transactions count as lines; they are a thousandth."""
    worker.until(lambda: bench.topics.end(topic) >= count * 2 // 3, "two thirds of the lines in the topic", BOUND_S)
    first, begin = bench.topics.end(topic), worker.cost()
    worker.until(lambda: bench.topics.end(topic) >= count, "all lines in the topic", BOUND_S)
    return figures_of(bench.topics.end(topic) - first, worker.cost() - begin, worker)


def sink_throughput(bench: Bench, side: Side, settings: Mapping[str, str] = MappingProxyType({})) -> Figures:
    """The same topic → one appended file, until all is in the file and committed, one task; as above."""
    topic, count = bench.full_topic(), bench.size.lines
    with bench.run("sink") as run:
        figures, sink = backlog_into_file(run, side, topic, count, count * LINE_BYTES, {}, settings)
        check_file(sink, bench.lines_file(), count)
        return figures


def backlog_into_file(
    run: Run,
    side: Side,
    topic: str,
    count: int,
    size: int,
    settings: Mapping[str, str],
    of_worker: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Figures, Path]:
    """The topic's `count` records → a file of `size` bytes, from the first ones in it until all is committed.

    Another connector did the same in this worker before. Decided: from the first records on, not from the middle of a
    run, because a sink may have staged a lot there of what is not in the file yet; loses: it may have a little under
    way even so (one of Headrace's first jobs, small ones, runs while the one before it is appended).
    """
    warm, sink = run.directory / "warm.txt", run.directory / "sink.txt"
    first, second = ({**run.sink(topic, file, number), **settings} for number, file in enumerate((warm, sink)))
    with run.worker(side, [first], {**COMMIT_INTERVAL, **of_worker}) as worker:

        def until_written(file: Path) -> None:
            worker.until(lambda: _bytes(file) >= size, f"all lines in {file.name}", BOUND_S)

        def until_committed(connector: Mapping[str, str]) -> None:
            group = f"connect-{connector['name']}"
            worker.until(lambda: run.bench.topics.committed(group, topic) >= count, "all lines committed", BOUND_S)

        until_written(warm)
        until_committed(first)
        worker.create(second)
        worker.until(lambda: _bytes(sink) > 0, "the first lines", BOUND_S)
        left, begin = count * (1 - _bytes(sink) / size), worker.cost()
        until_written(sink)
        written = worker.cost() - begin
        until_committed(second)
        figures = figures_of(left, worker.cost() - begin, worker)
    return {**figures, "written_rec_s": left / written.at}, sink


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def figures_of(records: float, spent: Cost, worker: Family) -> Figures:
    """Of so many records that this was spent on."""
    return {**rates_of(records, spent), **worker.memory()}


def rates_of(records: float, spent: Cost) -> Figures:
    """The same without the memory."""
    return {
        "rec_s": records / spent.at,
        "rec_cpu_s": records / max(spent.side, 0.01),
        "broker_cpu_s": spent.broker,
        "window_s": spent.at,
        **spent.shares(),
    }
