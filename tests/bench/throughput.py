"""How fast one task moves a file into a topic, and a topic into a file.

The window begins when two thirds have arrived and ends when all has: 2,000,000 records, after 4,000,000 in which both
sides' just-in-time compilers have come to rest.
"""

from pathlib import Path

from tests.bench.context import Bench, Figures
from tests.bench.lines import LINE_BYTES, check_file, check_values
from tests.bench.processes import Cost, Worker
from tests.bench.sides import Side

BOUND_S = 180
# Commits come at this interval on every side, so that waiting for the last one blurs the window by little.
COMMIT_INTERVAL = {"offset.flush.interval.ms": "250"}


def source_throughput(bench: Bench, side: Side, with_schema: bool = True) -> Figures:
    """File → one-partition topic, order kept, one task."""
    file, count = bench.lines_file(), bench.size.lines
    settings = {"value.converter.schemas.enable": str(with_schema).lower()}
    with bench.run("source") as run:
        topic = run.topic()
        with run.worker(side, [run.source(file, topic)], settings) as worker:
            worker.until(
                lambda: bench.topics.end(topic) >= count * 2 // 3, "two thirds of the lines in the topic", BOUND_S
            )
            first, begin = bench.topics.end(topic), worker.cost()
            worker.until(lambda: bench.topics.end(topic) >= count, "all lines in the topic", BOUND_S)
            last, spent = bench.topics.end(topic), worker.cost() - begin
            figures = figures_of(last - first, spent, worker)
        check_values(bench.topics.read(topic, count), file, count, with_schema)
        return figures


def sink_throughput(bench: Bench, side: Side) -> Figures:
    """The same topic → one appended file, until all is in the file and committed, one task."""
    topic, count = bench.full_topic(), bench.size.lines
    with bench.run("sink") as run:
        sink = run.directory / "sink.txt"
        connector = run.sink(topic, sink)
        group = f"connect-{connector['name']}"
        with run.worker(side, [connector], COMMIT_INTERVAL) as worker:
            warm = count * LINE_BYTES * 2 // 3
            worker.until(lambda: _bytes(sink) >= warm, "two thirds of the lines in the file", BOUND_S)
            first, begin = _bytes(sink), worker.cost()
            worker.until(lambda: _bytes(sink) >= count * LINE_BYTES, "all lines in the file", BOUND_S)
            written = worker.cost() - begin
            worker.until(lambda: bench.topics.committed(group, topic) >= count, "all lines committed", BOUND_S)
            figures = figures_of(count - first / LINE_BYTES, worker.cost() - begin, worker)
        check_file(sink, bench.lines_file(), count)
        return {**figures, "written_rec_s": (count - first / LINE_BYTES) / written.at}


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def figures_of(records: float, spent: Cost, worker: Worker) -> Figures:
    """Of so many records that this was spent on."""
    return {
        "rec_s": records / spent.at,
        "rec_cpu_s": records / max(spent.side, 0.01),
        "broker_cpu_s": spent.broker,
        "window_s": spent.at,
        **spent.shares(),
        **worker.memory(),
    }
